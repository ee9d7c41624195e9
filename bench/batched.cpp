// SPDX-License-Identifier: BSD-3-Clause
// Trees one by one, by batched(), by parallel(), and batched by levels by hand: trees a second of
// processor time, forward and backward.
#include <fmt/format.h>
#include <reel/reel.hpp>

#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>

using namespace reel;

namespace {
struct Tree {
  std::int64_t word = 0, level = 0, place = 0;  // the place is a row of all states
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
  tree->level = 1 + std::max(tree->left->level, tree->right->level);
  return tree;
}

/// The same cell in primitive ops, as a user may write it.
struct OwnCell {
  Variable weight, bias, leaf_weight, leaf_bias;
  OwnCell(int in, int hidden)
      : weight("weight", random::normal({2 * hidden, 5 * hidden}, {.stddev = 0.05})),
        bias("bias", zeros({5 * hidden})),
        leaf_weight("leaf_weight", random::normal({in, 3 * hidden}, {.stddev = 0.05})),
        leaf_bias("leaf_bias", zeros({3 * hidden})) {}
  nn::LSTMState leaf(const Tensor& x) const {
    const auto g = split(matmul(x, leaf_weight) + leaf_bias, 3, 1);
    const Tensor c = sigmoid(g[0]) * tanh(g[1]);
    return {sigmoid(g[2]) * tanh(c), c};
  }
  nn::LSTMState operator()(const nn::LSTMState& l, const nn::LSTMState& r) const {
    const auto g = split(matmul(concat({l.h, r.h}, 1), weight) + bias, 5, 1);
    const Tensor c = sigmoid(g[0]) * tanh(g[3]) + sigmoid(g[1]) * l.c + sigmoid(g[2]) * r.c;
    return {sigmoid(g[4]) * tanh(c), c};
  }
  REEL_FIELDS(weight, bias, leaf_weight, leaf_bias)
};

template <class Cell>
struct Model {
  nn::Embedding embed;
  Cell cell;
  nn::Linear head;
  explicit Model(int width) : embed(1000, width), cell(width, width), head(width, 5) {}
  nn::LSTMState encode(const Tree& tree) const {
    if (!tree.left) return cell.leaf(embed(tensor({tree.word})));
    return cell(encode(*tree.left), encode(*tree.right));
  }
  nn::LSTMState encode_parallel(const Tree& tree) const {
    if (!tree.left) return cell.leaf(embed(tensor({tree.word})));
    const auto [left, right] = parallel([&] { return encode_parallel(*tree.left); },
                                        [&] { return encode_parallel(*tree.right); });
    return cell(left, right);
  }
  Tensor operator()(const Tree& tree) const { return head(encode(tree).h); }
  REEL_FIELDS(embed, cell, head)

  /// All nodes of a level at once. A node's state is a row of what the levels below have made.
  Tensor by_levels(const std::vector<std::unique_ptr<Tree>>& forest) const {
    std::vector<std::vector<Tree*>> levels;
    const auto visit = [&](const auto& self, Tree& tree) -> void {
      if (tree.left) self(self, *tree.left), self(self, *tree.right);
      const auto level = static_cast<std::size_t>(tree.level);
      if (levels.size() <= level) levels.resize(level + 1);
      levels[level].push_back(&tree);
    };
    for (const auto& tree : forest) visit(visit, *tree);
    std::vector<std::int64_t> words;
    std::int64_t count = 0;
    for (Tree* leaf : levels[0]) {
      words.push_back(leaf->word);
      leaf->place = count++;
    }
    const nn::LSTMState leaves = cell.leaf(embed(tensor(words)));
    Tensor h = leaves.h, c = leaves.c;  // of all nodes so far
    for (std::size_t level = 1; level < levels.size(); ++level) {
      std::vector<std::int64_t> left, right;
      for (Tree* node : levels[level]) {
        left.push_back(node->left->place);
        right.push_back(node->right->place);
        node->place = count++;
      }
      const Tensor l = tensor(left), r = tensor(right);
      const nn::LSTMState made = cell({take(h, l), take(c, l)}, {take(h, r), take(c, r)});
      h = concat({h, made.h});
      c = concat({c, made.c});
    }
    std::vector<std::int64_t> roots;
    for (const auto& tree : forest) roots.push_back(tree->place);
    return head(take(h, tensor(roots)));
  }
};

double processor_seconds() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

enum Way { one_by_one, together, branches, levels, ways };

/// Each batch has trees of 10 to 29 words that were not seen before.
template <class Cell>
void row(const char* name, int width, int trees, int only = -1) {
  seed(1);
  const Model<Cell> model(width);
  const auto weights = parameters(model);
  std::mt19937 random(1);
  const int steps = std::max(10, 500 / trees), warm = 2;
  double seconds[ways] = {};
  for (int step = 0; step < warm + steps; ++step) {
    std::vector<std::unique_ptr<Tree>> forest;
    for (int i = 0; i < trees; ++i) forest.push_back(grow(random, 10 + random() % 20));
    for (int way = 0; way < ways; ++way) {
      if (only >= 0 && only != way) continue;
      const double start = processor_seconds();
      {
        GradientTape tape;
        Tensor scores;
        if (way == levels) {
          scores = model.by_levels(forest);
        } else if (way == together) {
          scores = concat(batched(forest, [&](const auto& tree) { return model(*tree); }));
        } else {
          std::vector<Tensor> all;
          for (const auto& tree : forest)
            all.push_back(way == branches ? model.head(model.encode_parallel(*tree).h)
                                          : model(*tree));
          scores = concat(all);
        }
        tape.gradient(sum(square(scores)), weights);
      }
      if (step >= warm) seconds[way] += processor_seconds() - start;
    }
  }
  const auto rate = [&](int way) { return steps * trees / seconds[way]; };
  fmt::print(
      "{} cell, width {:3}, {:3} trees: one by one {:6.0f} trees a second, batched {:6.0f}, "
      "parallel {:6.0f}, levels {:6.0f}; batched / one by one {:.2f}, batched / levels "
      "{:.2f}, parallel / one by one {:.2f}\n",
      name, width, trees, rate(one_by_one), rate(together), rate(branches), rate(levels),
      rate(together) / rate(one_by_one), rate(together) / rate(levels),
      rate(branches) / rate(one_by_one));
}
}  // namespace

int main(int count, char** words) {
  set_num_threads(1);
  if (count == 5) {  // for a profiler: a cell, a width, trees, a way
    const int width = std::atoi(words[2]), trees = std::atoi(words[3]), way = std::atoi(words[4]);
    if (words[1] == std::string("nn"))
      row<nn::TreeLSTMCell>("nn's", width, trees, way);
    else
      row<OwnCell>("own ", width, trees, way);
    fmt::print("{}", to_string(batching_report()));
    return 0;
  }
  for (const int width : {32, 150, 300})
    for (const int trees : {1, 25, 128}) {
      row<nn::TreeLSTMCell>("nn's", width, trees);
      row<OwnCell>("own ", width, trees);
    }
  fmt::print("the last batch: {}", to_string(batching_report()));
}
