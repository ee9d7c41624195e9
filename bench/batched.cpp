// SPDX-License-Identifier: BSD-3-Clause
// Trees one by one, and by batched(): trees a second of processor time, forward and backward.
#include <fmt/format.h>
#include <reel/reel.hpp>

#include <ctime>
#include <memory>
#include <random>

using namespace reel;

namespace {
struct Tree {
  std::int64_t word = 0;
  std::unique_ptr<Tree> left, right;
};
std::unique_ptr<Tree> grow(std::mt19937& random, unsigned leaves) {
  auto tree = std::make_unique<Tree>();
  if (leaves == 1) {
    tree->word = random() % 1000;
    return tree;
  }
  const unsigned left = 1 + random() % (leaves - 1);
  tree->left = grow(random, left);
  tree->right = grow(random, leaves - left);
  return tree;
}

struct Model {
  nn::Embedding embed;
  nn::TreeLSTMCell cell;
  nn::Linear head;
  explicit Model(int width) : embed(1000, width), cell(width, width), head(width, 5) {}
  nn::LSTMState encode(const Tree& tree) const {
    if (!tree.left) return cell.leaf(embed(tensor({tree.word})));
    return cell(encode(*tree.left), encode(*tree.right));
  }
  Tensor operator()(const Tree& tree) const { return head(encode(tree).h); }
  REEL_FIELDS(embed, cell, head)
};

double processor_seconds() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Each batch has trees of 10 to 29 words that were not seen before.
void row(int width, int trees) {
  seed(1);
  const Model model(width);
  const auto weights = parameters(model);
  std::mt19937 random(1);
  constexpr int steps = 20, warm = 2;
  double seconds[2] = {};
  for (int step = 0; step < warm + steps; ++step) {
    std::vector<std::unique_ptr<Tree>> forest;
    for (int i = 0; i < trees; ++i) forest.push_back(grow(random, 10 + random() % 20));
    for (int way = 0; way < 2; ++way) {
      const double start = processor_seconds();
      GradientTape tape;
      std::vector<Tensor> scores;
      if (way == 0)
        for (const auto& tree : forest) scores.push_back(model(*tree));
      else
        scores = batched(forest, [&](const auto& tree) { return model(*tree); });
      tape.gradient(sum(square(concat(scores))), weights);
      if (step >= warm) seconds[way] += processor_seconds() - start;
    }
  }
  const double all = steps * trees;
  fmt::print("width {:4}, {:4} trees: one by one {:7.0f} trees a second, batched {:7.0f}: {:.2f}\n",
             width, trees, all / seconds[0], all / seconds[1], seconds[0] / seconds[1]);
}
}  // namespace

int main() {
  set_num_threads(1);
  for (const int width : {32, 128, 300})
    for (const int trees : {1, 25, 128}) row(width, trees);
  fmt::print("the last batch: {}", to_string(batching_report()));
}
