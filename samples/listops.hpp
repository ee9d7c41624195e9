// SPDX-License-Identifier: BSD-3-Clause
// ListOps (Nangia and Bowman 2018): expressions such as [MAX 2 9 [MIN 4 7 ] 0 ] whose value is a
// digit, with their binary trees; drawn by the published rules, or read from the published files.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <reel/data.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace listops {
enum Word { minimum = 10, maximum, median, sum, close };  // the words below are digits
inline constexpr std::array<std::string_view, 15> names = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"};
using Words = std::vector<int>;

/// A leaf has a word, any other node two children.
struct Node {
  int word = 0;
  std::unique_ptr<Node> left, right;
};
using Tree = std::unique_ptr<Node>;

struct Expression {
  Words words;
  Tree tree;
  std::int64_t value = 0;
};

inline int apply(int op, Words values) {
  std::sort(values.begin(), values.end());
  const std::size_t count = values.size();
  if (op == minimum) return values.front();
  if (op == maximum) return values.back();
  if (op == median) return (values[(count - 1) / 2] + values[count / 2]) / 2;
  int total = 0;
  for (int value : values) total += value;
  return total % 10;
}

/// The tree and value of the expression that starts at words[at]; `at` moves behind it. The tree is
/// the published one: operator, arguments and bracket join from the left, ((([SM 6) 5) ]).
inline std::pair<Tree, int> parse(const Words& words, std::size_t& at) {
  const int first = words.at(at++);
  Tree tree(new Node{first, nullptr, nullptr});
  if (first < minimum) return {std::move(tree), first};
  if (first == close) throw std::out_of_range("']' where an expression should start");
  Words values;
  while (words.at(at) != close) {
    auto [argument, value] = parse(words, at);
    tree.reset(new Node{0, std::move(tree), std::move(argument)});
    values.push_back(value);
  }
  if (values.empty()) throw std::out_of_range("an operator without arguments");
  tree.reset(new Node{0, std::move(tree), Tree(new Node{words[at++], nullptr, nullptr})});
  return {std::move(tree), apply(first, values)};
}

inline Expression expression(Words words) {
  std::size_t at = 0;
  auto [tree, value] = parse(words, at);
  if (at != words.size()) throw std::out_of_range("words behind the end of the expression");
  return {std::move(words), std::move(tree), value};
}

/// Appends an expression drawn by the published rules.
inline void draw(std::mt19937_64& random, Words& words, int depth = 0) {
  constexpr int deepest = 20;
  if (depth == deepest || random() % 4 != 0) {
    words.push_back(static_cast<int>(random() % 10));
    return;
  }
  words.push_back(minimum + static_cast<int>(random() % 4));
  const std::uint64_t arguments = 2 + random() % 4;
  for (std::uint64_t i = 0; i < arguments; ++i) draw(random, words, depth + 1);
  words.push_back(close);
}

/// A tree as the published files write it.
inline std::string text(const Node& node) {
  if (!node.left) return std::string(names[static_cast<std::size_t>(node.word)]);
  return "( " + text(*node.left) + " " + text(*node.right) + " )";
}

/// A line of a published file: the value, a tab, the tree.
inline Expression read_line(const std::string& line) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string::npos) throw std::out_of_range("no tab");
  std::istringstream stream(line.substr(tab + 1));
  Words words;
  for (std::string name; stream >> name;) {
    if (name == "(" || name == ")") continue;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) throw std::out_of_range("unknown word '" + name + "'");
    words.push_back(static_cast<int>(found - names.begin()));
  }
  Expression read = expression(std::move(words));
  if (text(*read.tree) != line.substr(tab + 1)) throw std::out_of_range("another tree");
  if (std::to_string(read.value) != line.substr(0, tab)) throw std::out_of_range("another value");
  return read;
}

inline std::vector<Expression> read(const std::string& path) {
  std::vector<Expression> expressions;
  for (Expression& e : reel::data::lines({path}).map(read_line))
    expressions.push_back(std::move(e));
  return expressions;
}

struct Split {
  std::vector<Expression> train, test;
};
/// Distinct expressions to train on and, as in the published set, a ninth as many to test on; if
/// there is a test file, that is the test, and none of it is trained on.
inline Split draw_split(std::size_t count, std::uint64_t seed, const std::string& test_file) {
  std::mt19937_64 random(seed);
  Split split;
  std::set<Words> seen;
  if (!test_file.empty()) split.test = read(test_file);
  for (const Expression& e : split.test) seen.insert(e.words);
  const std::size_t held_out = test_file.empty() ? count / 9 : 0;
  while (split.train.size() < count + held_out) {
    Words words;
    draw(random, words);
    if (seen.insert(words).second) split.train.push_back(expression(std::move(words)));
  }
  std::shuffle(split.train.begin(), split.train.end(), random);
  for (; split.train.size() > count; split.train.pop_back())
    split.test.push_back(std::move(split.train.back()));
  return split;
}
}  // namespace listops
