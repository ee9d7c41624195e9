// SPDX-License-Identifier: BSD-3-Clause
// The work of each row: sizes, starting values and trees, the same for reel, limits and peers.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace harness {

struct CellSize {
  std::size_t batch, hidden;  // the input is as wide as the hidden state
};
inline constexpr CellSize small_cell{10, 10}, large_cell{32, 256};

struct CharRnn {
  static constexpr std::size_t steps = 64, batch = 32, hidden = 256, vocabulary = 96;
};
struct Mlp {
  static constexpr std::size_t batch = 64, in = 784, hidden = 512, out = 10;
};
/// Images of side x side; two convolutions 3x3, each followed by a 2x2 pool; a dense layer.
struct ConvNet {
  static constexpr std::size_t batch = 64, side = 28, first = 32, second = 64, out = 10,
                               features = side / 4 * (side / 4) * second;
};
struct TreeTask {
  static constexpr std::size_t hidden = 150, vocabulary = 100, trees = 11;
};
inline constexpr std::array<std::size_t, 2> softmax_shape{2048, 96}, norm_shape{64, 512},
    sum_shape{4096, 4096};
inline constexpr std::size_t largest = 100;  // so many numbers topk() finds
/// [m, k] times [k, n].
struct ProductSize {
  std::size_t m, k, n;
};
inline constexpr std::pair<const char*, ProductSize> products[] = {
    {"product 8", {8, 8, 8}},
    {"product 16", {16, 16, 16}},
    {"product 32", {32, 32, 32}},
    {"product 64", {64, 64, 64}},
    {"product 128", {128, 128, 128}},
    {"product 256", {256, 256, 256}},
    {"product 512", {512, 512, 512}},
    {"product 1000", {1000, 1000, 1000}},
    {"product 32x256 256x1024", {32, 256, 1024}},
    {"product 256x32 32x1024", {256, 32, 1024}},
    {"product 1x256 256x1024", {1, 256, 1024}}};
inline constexpr double adam_rate = 1e-3, sgd_rate = 1e-2;
inline constexpr std::size_t chain_length = 100;
inline constexpr int passes = 10;

/// Numbers in [-1, 1), the same everywhere: a linear congruential generator.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2654435761u + 1) {}
  std::uint32_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 33);
  }
  float next() { return static_cast<float>(bits()) / 1073741824.0f - 1.0f; }
  std::size_t below(std::size_t end) { return bits() % end; }
  std::vector<float> vector(std::size_t count, float scale = 1) {
    std::vector<float> out(count);
    for (float& x : out) x = next() * scale;
    return out;
  }

 private:
  std::uint64_t state_;
};

/// A binary tree; leaves carry a word.
struct Node {
  std::size_t word = 0;
  std::unique_ptr<Node> left, right;
};

inline std::unique_ptr<Node> random_tree(std::size_t leaves, Numbers& numbers) {
  auto node = std::make_unique<Node>();
  if (leaves == 1) {
    node->word = numbers.below(TreeTask::vocabulary);
    return node;
  }
  const std::size_t left = 1 + numbers.below(leaves - 1);
  node->left = random_tree(left, numbers);
  node->right = random_tree(leaves - left, numbers);
  return node;
}

/// One tree of each size from 15 to 25 leaves.
inline std::vector<std::unique_ptr<Node>> random_trees() {
  Numbers numbers(11);
  std::vector<std::unique_ptr<Node>> trees;
  for (std::size_t i = 0; i < TreeTask::trees; ++i) trees.push_back(random_tree(15 + i, numbers));
  return trees;
}

}  // namespace harness
