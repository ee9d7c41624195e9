// SPDX-License-Identifier: BSD-3-Clause
// Trees in brackets and sentences in CoNLL-U. The texts are made here by the published formats.
#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "support/refused.hpp"

namespace reel::data {
std::string text_of(const Tree& tree) { return bracketed(tree); }
std::string text_of(const Sentence& sentence) {
  std::string text;
  for (const std::string& comment : sentence.comments) text += "#" + comment + "\n";
  for (const Token& token : sentence.tokens)
    text += std::to_string(token.id) + "-" + std::to_string(token.last) + "." +
            std::to_string(token.minor) + " " + token.form + " " + std::to_string(token.head) +
            "\n";
  return text;
}
}  // namespace reel::data
namespace reel::tests {
using data::Sentence, data::Token, data::Tree;
namespace {
using Texts = std::vector<std::string>;
const Open<Tree> open_trees = [](Texts files, data::Place from) {
  return data::open_trees(std::move(files), from);
};
const Open<Sentence> open_conllu = [](Texts files, data::Place from) {
  return data::open_conllu(std::move(files), from);
};
struct File {
  Folder folder;
  std::string path = folder.file("x.txt");
  explicit File(const std::string& bytes) { write_file(path, bytes); }
  std::vector<Tree> trees(int* errors = nullptr, Caller caller = Caller::here()) const {
    return read_all(*data::open_trees({path}, {}, caller), errors);
  }
  Texts texts(int* errors = nullptr) const {
    Texts all;
    for (const Tree& tree : trees(errors)) all.push_back(text_of(tree));
    return all;
  }
  std::vector<Sentence> sentences(int* errors = nullptr, Caller caller = Caller::here()) const {
    return read_all(*data::open_conllu({path}, {}, caller), errors);
  }
};
/// A line with a word, its id and its head.
std::string word(const std::string& id, const std::string& form, const std::string& head = "_") {
  return id + "\t" + form + "\t" + form + "\tNOUN\t_\tNumber=Sing|Case=Nom\t" + head +
         "\troot\t_\tSpaceAfter=No\n";
}
}  // namespace

TEST_CASE("trees of the Penn Treebank have several lines and a root without a label") {
  const auto trees =
      File(
          "( (S \n    (NP-SBJ (DT The) (NN dog) )\n    (VP (VBD -LRB-barked)) \n    (. .) ))\n"
          "(X)\n\n")
          .trees();
  REQUIRE(trees.size() == 2);
  CHECK(trees[0].label.empty());
  const Tree& s = trees[0].children.at(0);
  CHECK(s.label == "S");
  REQUIRE(s.children.size() == 3);
  CHECK(s.children[0].label == "NP-SBJ");
  CHECK(s.children[0].children.at(1).label == "NN");
  CHECK(s.children[0].children.at(1).word == "dog");
  CHECK(s.children[0].children.at(1).children.empty());
  CHECK(text_of(trees[0]) == "( (S (NP-SBJ (DT The) (NN dog)) (VP (VBD -LRB-barked)) (. .)))");
  CHECK(trees[1].label == "X");
}

TEST_CASE("trees of sentiments have one line each") {
  const auto trees = File("(3 (2 It) (4 (2 's) (4 good)))\r\n(1 (2 Not) (2 so))").trees();
  REQUIRE(trees.size() == 2);
  CHECK(trees[0].label == "3");
  CHECK(trees[0].children.at(1).children.at(1).word == "good");
  CHECK(text_of(trees[1]) == "(1 (2 Not) (2 so))");
}

TEST_CASE("words may stand beside nodes") {
  CHECK(File("(NP the (NN dog) barks)(NP a b) ()").texts() ==
        Texts{"(NP the (NN dog) barks)", "(NP a b)", "()"});
  CHECK(File("(X () ((a)))").texts() == Texts{"(X () ( (a)))"});
  CHECK(File("").texts().empty());
  CHECK(File(" \n ").texts().empty());
  CHECK(File("(" + std::string(200'000, 'l') + " " + std::string(200'000, 'w') + ")")
            .trees()[0]
            .word.size() == 200'000);
}

TEST_CASE("wrong brackets are errors, and the trees behind them are read") {
  int errors = 0;
  CHECK(File("(a b)\n) (c d)\n(e f)\nword (g h)\n(i j)").texts(&errors) ==
        Texts{"(a b)", "(e f)", "(i j)"});
  CHECK(errors == 2);
  check_refused<IoError>([&] { File("\n) x").trees(); },
                         "open_trees: \"x.txt\": expected a tree in brackets, got ') x' at line 2");
  check_refused<IoError>([&] { File("(a b)\n\n(c (d e)").trees(); },
                         "a closing bracket, got the end of the file at line 3");
}

TEST_CASE("a tree of 100,000 levels is read, copied, written and destroyed") {
  std::string text = "(0 a)";
  const int depth = 100'000;
  std::string whole;
  for (int i = 0; i < depth; ++i) whole += "(1 (2 w) ";
  whole += text + std::string(depth, ')');
  const auto trees = File(whole).trees();
  REQUIRE(trees.size() == 1);
  const Tree copy = trees[0];
  CHECK(data::bracketed(copy) == whole);
  Tree moved = copy;
  moved = Tree(std::move(moved));
  moved = std::move(moved.children[1]);
  CHECK(moved.children[0].word == "w");
}

TEST_CASE("trees are read from any place of several files") {
  const Folder folder;
  const Texts files = {folder.file("a"), folder.file("b"), folder.file("c")};
  write_file(files[0], "(a\n (b c))\n(d e) (f g)\n\n");
  write_file(files[1], "  \n");
  write_file(files[2], "\xef\xbb\xbf(h i)");
  check_places(open_trees, files);
  const auto reader = data::open_trees(files, {0, 11});
  Tree tree;
  REQUIRE(reader->next(tree));
  CHECK(text_of(tree) == "(d e)");
  CHECK(reader->where() == files[0] + ": line 3");
}

TEST_CASE("damaged trees are read as what they say, or refused") {
  fuzz(open_trees, "( (S (NP a) (V b)) )\n(3 (2 c) d)\n", {"(", ")", "))", "((", " ", "\n"});
}

TEST_CASE("sentences have comments, words, tokens of several words and empty nodes") {
  const auto sentences = File("# sent_id = 7\n# text = vámonos al mar\n" + word("1-2", "vámonos") +
                              word("1", "vamos", "0") + word("2", "nos", "1") +
                              word("3", "al", "4") + word("4", "mar", "1") + word("4.1", "x") +
                              word("4.2", "y") + "\n\n#nothing\n" + word("1", "_", "0"))
                             .sentences();
  REQUIRE(sentences.size() == 2);
  const Sentence& first = sentences[0];
  CHECK(first.comment("sent_id") == "7");
  CHECK(first.comment("text") == "vámonos al mar");
  CHECK(first.comment("none").empty());
  REQUIRE(first.tokens.size() == 7);
  CHECK(first.tokens[0].is_multiword());
  CHECK(first.tokens[0].last == 2);
  CHECK(first.tokens[0].head == -1);
  CHECK(first.tokens[6].is_empty_node());
  CHECK(first.tokens[6].minor == 2);
  const auto words = first.words();
  REQUIRE(words.size() == 4);
  CHECK(words[3]->form == "mar");
  CHECK(words[3]->lemma == "mar");
  CHECK(words[3]->upos == "NOUN");
  CHECK(words[3]->head == 1);
  CHECK(words[3]->deprel == "root");
  CHECK(words[3]->feature("Case") == "Nom");
  CHECK(words[3]->feature("Number") == "Sing");
  CHECK(words[3]->feature("SpaceAfter") == "No");
  CHECK(words[3]->feature("Cas").empty());
  CHECK(sentences[1].comments == Texts{"nothing"});
  CHECK(sentences[1].tokens[0].form == "_");
}

TEST_CASE("wrong sentences are errors with their line, and the sentences behind them are read") {
  const std::string right = word("1", "a", "0") + "\n";
  const auto refused = [&](const std::string& wrong, const std::string& part) {
    INFO(wrong);
    int errors = 0;
    CHECK(File(right + wrong + "\n" + right).sentences(&errors).size() == 2);
    CHECK(errors == 1);
    try {
      File(right + wrong + "\n" + right).sentences();
    } catch (const IoError& error) {
      CHECK_THAT(error.what(), Catch::Matchers::Contains(part));
    }
  };
  refused("1\ta\n", "expected ten fields with tabs between them, got '1\\x09a' at line 3");
  refused(word("1", "a", "0") + word("3", "b", "0"), "expected ids in order, got '3\\x09b\\x09b");
  refused(word("1", "a", "2"), "heads up to 1, got 2 at line 3");
  refused(word("1", "a", "x"), "a head that is a number or \"_\"");
  refused(word("1", "", "0"), "fields that are not empty");
  refused(word("1-3", "a") + word("1", "a", "0"), "words up to 3, got 1 at line 3");
  refused(word("2-1", "a"), "ids in order");
  refused(word("1.2", "a"), "ids in order");
  refused(word("1-", "a"), "an id such as 1, 1-2 or 1.1");
  refused(word("-1", "a"), "an id such as 1, 1-2 or 1.1");
  refused("# only a comment\n", "a sentence with words, got none at line 3");
  refused(word("1", "a", "0").insert(5, "\tx"), "ten fields");
}

TEST_CASE("sentences are read from any place of several files") {
  const Folder folder;
  const Texts files = {folder.file("a"), folder.file("b")};
  write_file(files[0], "\n" + word("1", "a", "0") + "\r\n# c\r\n" + word("1", "b", "0") + "\n\n");
  write_file(files[1], word("1", "c", "0"));
  check_places(open_conllu, files);
  const auto reader = data::open_conllu(files);
  Sentence sentence;
  REQUIRE(reader->next(sentence));
  CHECK(reader->where() == files[0] + ": line 2");
  REQUIRE(reader->next(sentence));
  CHECK(reader->where() == files[0] + ": line 4");
}

TEST_CASE("damaged sentences are read as what they say, or refused") {
  fuzz(open_conllu,
       "# a = b\n" + word("1-2", "x") + word("1", "x", "0") + word("2", "y", "1") +
           word("2.1", "z") + "\n" + word("1", "z", "0"),
       {"\t", "\n", "\n\n", "1-2", "2.1", "_", "#", "99999999999999999999"});
}
}  // namespace reel::tests
