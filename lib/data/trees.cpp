// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/trees.hpp>

#include <algorithm>

#include "lib/data/files.hpp"

namespace reel::data {
namespace {
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
/// Whether the node is a word beside other nodes.
bool is_word(const Tree& tree) {
  return tree.label.empty() && tree.children.empty() && !tree.word.empty();
}
bool ends_word(char c) { return is_space(c) || c == '(' || c == ')'; }

struct Trees : FileReader<Tree> {
  using FileReader::FileReader;
  bool read(Files& files, Tree& tree) override {
    skip_space(files);
    files.mark();
    if (files.ahead().empty()) return false;
    if (next(files) != '(') {
      std::string_view line;
      files.line(line);
      files.fail("a tree in brackets", quoted(line));
    }
    open_.clear();
    bool label = false;  // whether a label may come next
    while (true) {
      const char c = next(files);
      if (is_space(c)) {
        files.skip(1);
      } else if (c == '(') {
        files.skip(1);
        open_.emplace_back();
        label = true;
        continue;
      } else if (c == ')') {
        files.skip(1);
        Tree node = std::move(open_.back());
        open_.pop_back();
        if (node.children.size() == 1 && is_word(node.children[0])) {
          std::string word = std::move(node.children[0].word);
          node.children.clear();
          node.word = std::move(word);
        }
        if (open_.empty()) {
          tree = std::move(node);
          return true;
        }
        open_.back().children.push_back(std::move(node));
        label = false;
      } else {
        std::string word = read_word(files);
        if (label)
          open_.back().label = std::move(word);
        else
          open_.back().children.emplace_back(std::string(), std::move(word));
        label = false;
      }
    }
  }

 private:
  /// The next byte of a file. Throws if brackets are not closed.
  static char next(Files& files) {
    const std::string_view ahead = files.ahead();
    if (ahead.empty()) files.fail("a closing bracket", "the end of the file");
    return ahead[0];
  }
  static void skip_space(Files& files) {
    for (std::string_view ahead = files.ahead(); !ahead.empty(); ahead = files.ahead()) {
      const auto* const word = std::find_if_not(ahead.begin(), ahead.end(), is_space);
      files.skip(static_cast<std::size_t>(word - ahead.begin()));
      if (word != ahead.end()) return;
    }
  }
  static std::string read_word(Files& files) {
    std::string word;
    for (std::string_view ahead = files.ahead(); !ahead.empty(); ahead = files.ahead()) {
      const auto* const end = std::find_if(ahead.begin(), ahead.end(), ends_word);
      word.append(ahead.begin(), end);
      files.skip(static_cast<std::size_t>(end - ahead.begin()));
      if (end != ahead.end()) break;
    }
    return word;
  }
  std::vector<Tree> open_;  // from the root to the node that is read
};

/// Takes nodes apart from the top, so that no destructor goes deep.
void destroy(std::vector<Tree>& trees) {
  while (!trees.empty()) {
    std::vector<Tree> below = std::move(trees.back().children);
    trees.pop_back();
    if (trees.empty())
      trees = std::move(below);
    else
      for (Tree& tree : below)
        if (!tree.children.empty()) trees.push_back(std::move(tree));
  }
}
}  // namespace

Tree::Tree(const Tree& other) { *this = other; }
Tree& Tree::operator=(const Tree& other) {
  Tree made;
  std::vector<std::pair<const Tree*, Tree*>> waiting = {{&other, &made}};
  while (!waiting.empty()) {
    const auto [from, to] = waiting.back();
    waiting.pop_back();
    to->label = from->label;
    to->word = from->word;
    to->children.resize(from->children.size());
    for (std::size_t i = 0; i < from->children.size(); ++i)
      waiting.emplace_back(&from->children[i], &to->children[i]);
  }
  return *this = std::move(made);
}
Tree& Tree::operator=(Tree&& other) noexcept {
  Tree before;  // destroyed at the end, because `other` may be a part of it
  std::swap(before.label, label);
  std::swap(before.word, word);
  std::swap(before.children, children);
  std::swap(label, other.label);
  std::swap(word, other.word);
  std::swap(children, other.children);
  return *this;
}
Tree::~Tree() {
  if (children.empty()) return;
  try {
    destroy(children);
  } catch (const std::bad_alloc&) {  // what is left is destroyed by recursion
  }
}

Owned<Reader<Tree>> open_trees(std::vector<std::string> files, Place from, Caller caller) {
  return open_reader<Trees>(Files::Kind::text, files, from, "open_trees", caller);
}

std::string bracketed(const Tree& tree, Caller caller) try {
  std::string text;
  std::vector<std::pair<const Tree*, std::size_t>> open = {{&tree, 0}};  // and the next child
  while (!open.empty()) {
    auto& [node, child] = open.back();
    if (child == 0) {
      if (!text.empty()) text += ' ';
      if (is_word(*node) && open.size() > 1) {
        text += node->word;
        open.pop_back();
        continue;
      }
      text += '(' + node->label;
      if (!node->word.empty()) text += ' ' + node->word;
    }
    if (child == node->children.size()) {
      text += ')';
      open.pop_back();
    } else {
      const Tree* const next = &node->children[child++];
      open.emplace_back(next, 0);
    }
  }
  return text;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "bracketed");
}
}  // namespace reel::data
