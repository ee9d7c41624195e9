// SPDX-License-Identifier: BSD-3-Clause
// Random binary trees with a word at each leaf, and a model that reads them.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include <reel/reel.hpp>

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
/// The scores of three classes. It may decide on the values of inner nodes.
struct TreeModel {
  nn::Embedding embed{11, 6};
  nn::TreeLSTMCell cell{6, 6};
  nn::Linear head{6, 3};
  bool decides = false;
  nn::LSTMState encode(const Tree& tree) const {
    if (tree.children.empty()) return cell.leaf(embed(tensor({tree.word})));
    nn::LSTMState state = cell(encode(tree.children[0]), encode(tree.children[1]));
    if (decides && bool(sum(state.h) > 0.05)) state.h = state.h * 0.5;
    return state;
  }
  Tensor operator()(const Tree& tree) const { return head(encode(tree).h); }
  REEL_FIELDS(embed, cell, head)
};
}  // namespace reel::tests
