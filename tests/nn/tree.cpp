// SPDX-License-Identifier: BSD-3-Clause
#include "nn/near.hpp"

namespace reel::tests {
namespace {
constexpr nn::LSTMOptions wide_cell{.dtype = DType::float64};
/// Part `i` of `count` equal parts of the last axis.
Tensor part(const Tensor& x, int count, int i) {
  return split(x, count, -1)[static_cast<std::size_t>(i)];
}
}  // namespace

TEST_CASE("A leaf of TreeLSTMCell has the gates i, g, o and nothing to forget", "[nn]") {
  nn::TreeLSTMCell cell(2, 3, wide_cell);
  cell.leaf_bias.assign(numbers({9}));
  const Tensor x = numbers({4, 2});
  const Tensor gates = matmul(x, cell.leaf_weight) + cell.leaf_bias;
  const nn::LSTMState leaf = cell.leaf(x);
  const Tensor c = sigmoid(part(gates, 3, 0)) * tanh(part(gates, 3, 1));
  require_near(leaf.c, c.to_vector<double>());
  require_near(leaf.h, (sigmoid(part(gates, 3, 2)) * tanh(c)).to_vector<double>());
}

TEST_CASE("TreeLSTMCell forgets each child by a gate of its own", "[nn]") {
  nn::TreeLSTMCell cell(2, 3, wide_cell);
  cell.bias.assign_add(numbers({15}));
  const nn::LSTMState left{numbers({2, 3}), numbers({2, 3})},
      right{numbers({2, 3}), numbers({2, 3})};
  const nn::LSTMState node = cell(left, right);
  const Tensor gates = matmul(concat({left.h, right.h}, 1), cell.weight) + cell.bias;
  const Tensor c = sigmoid(part(gates, 5, 0)) * tanh(part(gates, 5, 3)) +
                   sigmoid(part(gates, 5, 1)) * left.c + sigmoid(part(gates, 5, 2)) * right.c;
  require_near(node.c, c.to_vector<double>());
  require_near(node.h, (sigmoid(part(gates, 5, 4)) * tanh(c)).to_vector<double>());
  REQUIRE(cell(right, left).h.to_vector<double>() != node.h.to_vector<double>());
}

TEST_CASE("Gradients of TreeLSTMCell agree with differences on a tree", "[nn]") {
  nn::TreeLSTMCell cell(2, 3, wide_cell);
  Variable x("x", numbers({1, 2})), y("y", numbers({1, 2}));
  auto variables = parameters(cell);
  variables.push_back(x);
  variables.push_back(y);
  check_gradients(variables, [&] {
    const nn::LSTMState pair = cell(cell.leaf(x), cell.leaf(y));
    const nn::LSTMState root = cell(pair, cell(pair, cell.leaf(y)));
    return concat({root.h, root.c}, 1);
  });
}

TEST_CASE("ChildSumTreeLSTMCell follows the published formula", "[nn]") {
  nn::ChildSumTreeLSTMCell cell(2, 3, wide_cell);
  cell.bias.assign_add(numbers({12}));
  const Tensor x = numbers({2, 2});
  std::vector<nn::LSTMState> children;
  for (int k = 0; k < 3; ++k) children.push_back({numbers({2, 3}), numbers({2, 3})});
  for (std::size_t count : {0u, 1u, 3u}) {
    const std::vector<nn::LSTMState> some(children.begin(),
                                          children.begin() + std::ptrdiff_t(count));
    const Tensor word = matmul(x, cell.weight) + cell.bias;
    Tensor total = zeros({2, 3}, wide), kept = zeros({2, 3}, wide);
    for (const nn::LSTMState& child : some) {
      total = total + child.h;
      kept = kept + sigmoid(part(word, 4, 3) + matmul(child.h, cell.forget)) * child.c;
    }
    const Tensor sums = matmul(total, cell.children);
    const Tensor c =
        sigmoid(part(word, 4, 0) + part(sums, 3, 0)) * tanh(part(word, 4, 1) + part(sums, 3, 1)) +
        kept;
    const nn::LSTMState node = cell(x, some);
    require_near(node.c, c.to_vector<double>());
    require_near(node.h,
                 (sigmoid(part(word, 4, 2) + part(sums, 3, 2)) * tanh(c)).to_vector<double>());
  }
}

TEST_CASE("ChildSumTreeLSTMCell does not see the order of children", "[nn]") {
  nn::ChildSumTreeLSTMCell cell(2, 3, wide_cell);
  const nn::LSTMState a{numbers({1, 3}), numbers({1, 3})}, b{numbers({1, 3}), numbers({1, 3})};
  const Tensor x = numbers({1, 2});
  require_near(cell(x, {a, b}).h, cell(x, {b, a}).h.to_vector<double>());
}

TEST_CASE("Gradients of ChildSumTreeLSTMCell agree with differences", "[nn]") {
  nn::ChildSumTreeLSTMCell cell(2, 3, wide_cell);
  Variable x("x", numbers({1, 2})), h("h", numbers({1, 3})), c("c", numbers({1, 3}));
  auto variables = parameters(cell);
  variables.insert(variables.end(), {x, h, c});
  check_gradients(variables, [&] {
    const nn::LSTMState leaf = cell(x), inner = cell(x, {leaf, {h, c}});
    const nn::LSTMState root = cell(x, {inner});
    return concat({root.h, root.c}, 1);
  });
}

TEST_CASE("SPINNCell follows the published formula", "[nn]") {
  nn::SPINNCell cell(3, 2, wide_cell);
  CHECK(cell.weight.shape() == Shape({8, 15}));
  CHECK(equal(cell.bias(range(3, 9)), ones({6}, wide)));  // both forget gates begin open
  cell.bias.assign_add(numbers({15}));
  const nn::LSTMState left{numbers({2, 3}), numbers({2, 3})},
      right{numbers({2, 3}), numbers({2, 3})};
  const Tensor tracking = numbers({2, 2});
  const Tensor gates = matmul(left.h, cell.weight(range(0, 3))) +
                       matmul(right.h, cell.weight(range(3, 6))) +
                       matmul(tracking, cell.weight(range(6, 8))) + cell.bias;
  const Tensor c = sigmoid(part(gates, 5, 0)) * tanh(part(gates, 5, 3)) +
                   sigmoid(part(gates, 5, 1)) * left.c + sigmoid(part(gates, 5, 2)) * right.c;
  const nn::LSTMState node = cell(left, right, tracking);
  require_near(node.c, c.to_vector<double>());
  require_near(node.h, (sigmoid(part(gates, 5, 4)) * tanh(c)).to_vector<double>());
}

TEST_CASE("Gradients of SPINNCell agree with differences", "[nn]") {
  nn::SPINNCell cell(3, 2, wide_cell);
  Variable h("h", numbers({1, 3})), c("c", numbers({1, 3})), tracking("t", numbers({1, 2}));
  auto variables = parameters(cell);
  variables.insert(variables.end(), {h, c, tracking});
  check_gradients(variables, [&] {
    const nn::LSTMState pair = cell({h, c}, {c, h}, tracking);
    const nn::LSTMState root = cell(pair, {h, c}, tanh(tracking));
    return concat({root.h, root.c}, 1);
  });
}

TEST_CASE("Tree cells refuse what does not fit, naming the user's line", "[nn]") {
  nn::TreeLSTMCell cell(2, 3);
  const nn::LSTMState leaf = cell.leaf(zeros({1, 2})), odd{zeros({1, 4}), zeros({1, 4})};
  require_parts(message<ShapeError>([&] { cell(leaf, odd); }), {"matmul"});
  require_parts(message<ShapeError>([&] { cell(leaf, {leaf.h, odd.c}); }), {"tree_lstm_gates"});
  require_parts(message<ShapeError>([&] {
                  cell.leaf(zeros({1, 3}));
                }),
                {"TreeLSTMCell: x: expected last length 2, got (1, 3)"});
  require_parts(message<Error>([&] { cell(leaf, {}); }), {});
  nn::ChildSumTreeLSTMCell sums(2, 3);
  require_parts(message<ShapeError>([&] { sums(zeros({1, 2}), {odd}); }), {"matmul"});
  nn::SPINNCell reduce(3, 2);
  require_parts(message<ShapeError>([&] {
                  reduce(leaf, leaf, zeros({1, 4}));
                }),
                {"SPINNCell: tracking: expected last length 2, got (1, 4)"});
  require_parts(message<ShapeError>([&] { reduce(leaf, odd, zeros({1, 2})); }), {"matmul"});
  require_parts(message<ShapeError>([] { nn::SPINNCell(3, 0); }), {"SPINNCell: tracking"});
  require_parts(message<ShapeError>([] { nn::SPINNCell(0, 2); }), {"SPINNCell: hidden"});
}
}  // namespace reel::tests
