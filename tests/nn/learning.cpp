// SPDX-License-Identifier: BSD-3-Clause
// Small tasks that each layer must learn.
#include <memory>
#include <tuple>

#include "nn/near.hpp"

namespace reel::tests {
namespace {
/// Makes steps until the loss is below `goal`. Returns the last loss.
template <class Loss>
float train(optim::Adam adam, const std::vector<Variable>& variables, Loss loss, float goal,
            int steps) {
  float last = 0;
  for (int step = 0; step < steps; ++step) {
    GradientTape tape;
    const Tensor value = loss();
    adam.step(optim::clip_by_global_norm(tape.gradient(value, variables), 1));
    last = value.template item<float>();
    if (last < goal) break;
  }
  return last;
}
}  // namespace

TEST_CASE("Two Linear layers learn exclusive or", "[nn][learning]") {
  seed(1);
  nn::Sequential model(nn::Linear(2, 16), reel::tanh, nn::Linear(16, 2));
  const Tensor x = tensor({{0.f, 0.f}, {0.f, 1.f}, {1.f, 0.f}, {1.f, 1.f}});
  const Tensor labels = tensor({0, 1, 1, 0});
  auto loss = [&] { return nn::cross_entropy(model(x), labels); };
  const auto variables = parameters(model);
  REQUIRE(train(optim::Adam(variables, {.learning_rate = 0.05}), variables, loss, 0.01f, 500) <
          0.01f);
  REQUIRE(equal(argmax(model(x), 1), tensor({0, 1, 1, 0})));
}

TEST_CASE("SGD with Nesterov momentum finds a least-squares solution", "[nn][learning]") {
  seed(1);
  nn::Linear model(3, 1, wide);
  const Tensor x = numbers({50, 3}), y = matmul(x, tensor<double>({{1.0}, {-2.0}, {0.5}})) + 3;
  optim::SGD sgd(parameters(model), {.learning_rate = 0.05, .momentum = 0.9, .nesterov = true});
  for (int step = 0; step < 300; ++step) {
    GradientTape tape;
    const Tensor loss = mean(square(model(x) - y));
    sgd.step(tape.gradient(loss, parameters(model)));
  }
  require_near(model.weight, {1, -2, 0.5}, 1e-6);
  require_near(model.bias, {3}, 1e-6);
}

TEST_CASE("RNNCell and LSTMCell learn to recall the first of eight words", "[nn][learning]") {
  seed(4);
  const Tensor words = random::integers(0, 3, {64, 8});
  nn::Embedding embed(3, 8);
  nn::Linear head(16, 3);
  auto learn = [&](auto cell, auto start, auto next) {
    std::vector<Variable> variables = parameters(std::tie(embed, cell, head));
    auto loss = [&] {
      auto state = start(cell);
      for (int t = 0; t < 8; ++t) state = next(cell, embed(words(all, t)), state);
      if constexpr (std::is_same_v<decltype(state), Tensor>) {
        return nn::cross_entropy(head(state), words(all, 0));
      } else {
        return nn::cross_entropy(head(state.h), words(all, 0));
      }
    };
    return train(optim::Adam(variables, {.learning_rate = 0.02}), variables, loss, 0.05f, 400);
  };
  auto start = [](auto& cell) { return cell.initial_state(64); };
  auto next = [](auto& cell, const Tensor& x, auto& state) { return cell(x, state); };
  REQUIRE(learn(nn::LSTMCell(8, 16), start, next) < 0.05f);
  REQUIRE(learn(nn::RNNCell(8, 16), start, next) < 0.05f);
}

namespace {
/// A tree of "and" and "or" over truth values. A leaf has a word (0 or 1), a node has a word (2 or
/// 3).
struct Truth {
  int word = 0;
  std::vector<Truth> children;
  bool value() const {
    if (children.empty()) return word == 1;
    const bool left = children[0].value(), right = children[1].value();
    return word == 2 ? left && right : left || right;
  }
};
Truth draw_truth(int depth, unsigned& state) {
  state = state * 1664525u + 1013904223u;
  const int bit = static_cast<int>(state >> 20 & 1);
  if (depth == 0) return {bit, {}};
  Truth left = draw_truth(depth - 1, state),
        right = draw_truth(state >> 22 & 1 ? 0 : depth - 1, state);
  return {2 + bit, {left, right}};
}
}  // namespace

TEST_CASE("ChildSumTreeLSTMCell learns and-or trees by recursion", "[nn][learning]") {
  seed(6);
  nn::Embedding embed(4, 12);
  nn::ChildSumTreeLSTMCell cell(12, 12);
  nn::Linear head(12, 2);
  auto encode = [&](auto& self, const Truth& tree) -> nn::LSTMState {
    std::vector<nn::LSTMState> children;
    for (const Truth& child : tree.children) children.push_back(self(self, child));
    return cell(embed(tensor({tree.word})), children);
  };
  std::vector<Truth> trees;
  std::vector<std::int32_t> labels;
  for (unsigned i = 0, state = 5; i < 40; ++i) {
    trees.push_back(draw_truth(3, state));
    labels.push_back(trees.back().value());
  }
  auto loss = [&] {
    std::vector<Tensor> roots;
    for (const Truth& tree : trees) roots.push_back(encode(encode, tree).h);
    return nn::cross_entropy(head(concat(roots)), tensor(labels));
  };
  const auto variables = parameters(std::tie(embed, cell, head));
  REQUIRE(train(optim::Adam(variables, {.learning_rate = 0.02}), variables, loss, 0.05f, 200) <
          0.05f);
}
}  // namespace reel::tests
