// SPDX-License-Identifier: BSD-3-Clause
// Random binary trees with a word at each leaf.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

namespace reel::tests {
struct Tree {
  std::int64_t word = 0;
  std::vector<Tree> children;
};
inline Tree grow(std::mt19937& random, int leaves) {
  Tree tree;
  tree.word = static_cast<std::int64_t>(random() % 11);
  if (leaves == 1) return tree;
  const int left = 1 + static_cast<int>(random() % static_cast<unsigned>(leaves - 1));
  tree.children.push_back(grow(random, left));
  tree.children.push_back(grow(random, leaves - left));
  return tree;
}
}  // namespace reel::tests
