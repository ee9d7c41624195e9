// SPDX-License-Identifier: BSD-3-Clause
// Vocabularies and vectors of words. The files are made here; peers.py has files of gensim.
#include <thread>

#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Texts = std::vector<std::string>;
struct File {
  Folder folder;
  std::string path = folder.file("x.txt");
  explicit File(const std::string& bytes) { write_file(path, bytes); }
};
data::WordCounts counts_of(const Texts& words) {
  data::WordCounts counts;
  for (const std::string& word : words) counts.add(word);
  return counts;
}
}  // namespace

TEST_CASE("the hash of texts is FNV-1a of 64 bits") {
  CHECK(data::hash_of("") == 0xcbf29ce484222325u);  // of the reference of FNV
  CHECK(data::hash_of("a") == 0xaf63dc4c8601ec8cu);
  CHECK(data::hash_of("foobar") == 0x85944171f73967e8u);
}

TEST_CASE("a vocabulary of counts has the most frequent words first") {
  const data::WordCounts counts = counts_of({"b", "a", "c", "a", "b", "d", "a"});
  CHECK(counts.of("a") == 3);
  CHECK(counts.of("z") == 0);
  CHECK(data::Vocabulary(counts).words() == Texts{"a", "b", "c", "d"});
  CHECK(data::Vocabulary(counts, {.min_count = 2}).words() == Texts{"a", "b"});
  CHECK(data::Vocabulary(counts, {.first = {"<pad>", "c"}, .unknown = "<unk>", .max_size = 4})
            .words() == Texts{"<pad>", "c", "<unk>", "a"});
  const data::Vocabulary known(counts, {.unknown = "b"});
  CHECK(known.words() == Texts{"b", "a", "c", "d"});
  CHECK(known.id("z") == 0);
  CHECK(data::Vocabulary().size() == 0);
  CHECK(data::Vocabulary().find("") == -1);
  check_refused<Error>([&] { data::Vocabulary(counts, {.min_count = -1}); },
                       "Vocabulary: min_count");
  check_refused<Error>([] { data::WordCounts().add("a", -1); }, "WordCounts: times");
}

TEST_CASE("words have ids, and ids have words") {
  const data::Vocabulary words(Texts{"the", "dog", ""}, {.unknown = "<unk>"});
  CHECK(words.size() == 4);
  CHECK(words.unknown() == 0);
  CHECK(words.id("dog") == 2);
  CHECK(words.id("cat") == 0);
  CHECK(words.find("cat") == -1);
  CHECK(words.word(2) == "dog");
  CHECK(words.ids({"dog", "cat", ""}).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{2, 0, 3});
  CHECK(words.ids({}).shape() == Shape({0}));
  const data::Vocabulary strict(Texts{"the"});
  CHECK(strict.unknown() == -1);
  check_refused<IndexError>([&] { strict.id("dog"); },
                            "Vocabulary: word: expected one of its 1 words, got 'dog'");
  check_refused<IndexError>([&] { strict.word(1); },
                            "Vocabulary: id: expected an id in [0, 1), got 1");
  check_refused<IndexError>([&] { strict.word(-1); }, "got -1");
  check_refused<Error>(
      [] {
        data::Vocabulary(Texts{"a", "b", "a"});
      },
      "expected different words, got 'a' twice");
}

TEST_CASE("10,000 words have their ids") {
  data::WordCounts counts;
  for (int i = 0; i < 10'000; ++i) counts.add(std::to_string(i), 10'000 - i);
  const data::Vocabulary words(counts);
  for (int i = 0; i < 10'000; ++i) REQUIRE(words.id(std::to_string(i)) == i);
  CHECK(words.find("10000") == -1);
}

TEST_CASE("a vocabulary is saved and loaded with a model", "[threads]") {
  struct Tagger {
    data::Vocabulary words, tags;
    nn::Linear layer{2, 3};
    REEL_FIELDS(words, tags, layer)
  };
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  Tagger saved{data::Vocabulary(Texts{"<unk>", "a b", "", "\xff\n"}, {.unknown = "<unk>"}),
               data::Vocabulary(Texts{"N"})};
  io::save(path, saved);
  Tagger loaded;
  io::load(path, loaded);
  CHECK(loaded.words.words() == saved.words.words());
  CHECK(loaded.words.id("other") == 0);
  CHECK(loaded.tags.id("N") == 0);
  CHECK(loaded.tags.unknown() == -1);
  io::save(path, loaded);  // without a use since it was loaded
  Tagger again;
  io::load(path, again);
  std::int64_t ids[4] = {};  // the first use is on several threads
  std::vector<std::thread> threads;
  for (std::int64_t& id : ids)
    threads.emplace_back([&again, &id] { id = again.words.find("a b"); });
  for (std::thread& each : threads) each.join();
  for (const std::int64_t id : ids) CHECK(id == 1);
  io::Checkpoints checkpoints(folder.file("run"));
  checkpoints.save(3, saved);
  Tagger resumed;
  std::int64_t step = 0;
  CHECK(checkpoints.resume(step, resumed));
  CHECK(resumed.words.words() == saved.words.words());
  for (const Tensor& state :
       {tensor({1.0}), ones({3}).to(DType::uint8),
        concat({tensor({1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 65})}).to(DType::uint8)}) {
    data::Vocabulary wrong;
    wrong.fields([&](std::string_view, Tensor& place) { place = state; });
    CHECK_THROWS_AS(wrong.size(), Error);
  }
}

TEST_CASE("a vocabulary is saved as a text and read again") {
  const File file("old");
  const data::Vocabulary words(Texts{"<unk>", "a b", "", "\xc3\xa9"});
  words.save(file.path);
  CHECK(contents(file.path) == "<unk>\na b\n\n\xc3\xa9\n");
  const data::Vocabulary read = data::read_vocabulary(file.path, {.unknown = "<unk>"});
  CHECK(read.words() == words.words());
  CHECK(read.id("none") == 0);
  CHECK(data::read_vocabulary(file.path, {.max_size = 2}).size() == 2);
  check_refused<Error>([&] { data::Vocabulary(Texts{"a\nb"}).save(file.path); },
                       "words without line ends");
  check_refused<IoError>([&] { data::read_vocabulary(File("a\nb\na\n").path); },
                         "\"x.txt\": expected different words, got 'a' twice at line 3");
  check_refused<IoError>([&] { data::read_vocabulary("/none"); }, "read_vocabulary");
}

TEST_CASE("vectors of words are read as GloVe and word2vec write them") {
  const auto check = [](const std::string& bytes) {
    const auto [words, vectors] = data::read_vectors(File(bytes).path);
    CHECK(words.words() == Texts{"the", "at 1", ","});
    CHECK(vectors.shape() == Shape({3, 2}));
    CHECK(vectors.to_vector<float>() == std::vector<float>{1, -2.5f, 1e-3f, 4, 0, 7});
  };
  check("the 1 -2.5\nat 1 1e-3 4\n, 0 7\n");
  check("3 2\nthe 1 -2.5 \nat 1 0.001 4 \nthe 9 9 \n, 0 7 \n");
  const auto some =
      data::read_vectors(File("a 1\nb 2\nc 3\n").path, {.max_words = 2, .unknown = "<unk>"});
  CHECK(some.vocabulary.words() == Texts{"<unk>", "a", "b"});
  CHECK(some.vectors.to_vector<float>() == std::vector<float>{0, 1, 2});
  const auto known = data::read_vectors(File("a 1\nunk 2\n").path, {.unknown = "unk"});
  CHECK(known.vocabulary.id("x") == 1);
  CHECK(known.vectors.shape() == Shape({2, 1}));
  CHECK(data::read_vectors(File("a 2.5 1.5\n").path).vectors.to_vector<float>() ==
        std::vector<float>{2.5, 1.5});
  CHECK(data::read_vectors(File("").path).vocabulary.size() == 0);
}

TEST_CASE("wrong vectors are refused with their line") {
  const auto read = [](const std::string& bytes, Caller caller = Caller::here()) {
    data::read_vectors(File(bytes).path, {}, caller);
  };
  check_refused<IoError>([&] { read("a 1 2\nb 3\n"); },
                         "expected a word and 2 numbers, got 'b 3' at line 2");
  check_refused<IoError>([&] { read("a 1 2\nb 3 x\n"); }, "at line 2");
  check_refused<IoError>([&] { read("a 1 2\n\n"); }, "at line 2");
  check_refused<IoError>([&] { read("a\n"); }, "a word and numbers, got 'a' at line 1");
  check_refused<IoError>([&] { read("3 1\na 1\n"); }, "expected 3 words, got 1");
  check_refused<IoError>([&] { read("2 99999999999\na 1\n"); }, "a word and numbers");
}

TEST_CASE("damaged vectors and vocabularies are read as what they say, or refused") {
  for (const char* const bytes :
       {"3 2\nthe 1 -2.5 \nat 1 0.001 4 \n, 0 7 \n", "the 1 -2.5\nat 1 1e-3 4\n"})
    fuzz_whole([](const std::string& path) { data::read_vectors(path); }, bytes,
               {" ", "\n", "99999999999", "1 1", "nan"});
  fuzz_whole([](const std::string& path) { data::read_vocabulary(path); }, "a\nb\nc\n",
             {"\n", "a\n"}, 500);
}
}  // namespace reel::tests
