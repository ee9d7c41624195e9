// SPDX-License-Identifier: BSD-3-Clause
#include "nn/near.hpp"

namespace reel::tests {
namespace {
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
/// Column `column` of [x, h] weight + bias, for one row.
double gate(const Variable& weight, const Variable& bias, const std::vector<double>& row,
            std::size_t column) {
  const auto w = weight.value().to_vector<double>(), b = bias.value().to_vector<double>();
  double total = b[column];
  for (std::size_t i = 0; i < row.size(); ++i) total += row[i] * w[i * b.size() + column];
  return total;
}
}  // namespace

TEST_CASE("RNNCell is tanh([x, h] weight + bias)", "[nn]") {
  nn::RNNCell cell(2, 3, wide);
  cell.bias.assign(numbers({3}));
  const std::vector<double> row = {0.3, -0.7, 0.1, 0.5, -0.2};
  const Tensor h = cell(tensor(std::vector<double>{0.3, -0.7}).reshape({1, 2}),
                        tensor(std::vector<double>{0.1, 0.5, -0.2}).reshape({1, 3}));
  std::vector<double> expected;
  for (std::size_t k = 0; k < 3; ++k) {
    expected.push_back(std::tanh(gate(cell.weight, cell.bias, row, k)));
  }
  require_near(h, expected);
}

TEST_CASE("LSTMCell follows the published formula, gates in the order i, f, g, o", "[nn]") {
  nn::LSTMCell cell(2, 3, {.dtype = DType::float64});
  cell.bias.assign_add(numbers({12}));
  const std::vector<double> row = {0.3, -0.7, 0.1, 0.5, -0.2}, c = {1.5, -0.4, 0.2};
  const nn::LSTMState next = cell(
      tensor(std::vector<double>{0.3, -0.7}).reshape({1, 2}),
      {tensor(std::vector<double>{0.1, 0.5, -0.2}).reshape({1, 3}), tensor(c).reshape({1, 3})});
  std::vector<double> h_expected, c_expected;
  for (std::size_t k = 0; k < 3; ++k) {
    auto sum_of = [&](std::size_t g) { return gate(cell.weight, cell.bias, row, 3 * g + k); };
    c_expected.push_back(logistic(sum_of(1)) * c[k] + logistic(sum_of(0)) * std::tanh(sum_of(2)));
    h_expected.push_back(logistic(sum_of(3)) * std::tanh(c_expected[k]));
  }
  require_near(next.c, c_expected);
  require_near(next.h, h_expected);
}

TEST_CASE("A new LSTMCell has shapes, zero state and forget bias as documented", "[nn]") {
  nn::LSTMCell cell(2, 3);
  REQUIRE(cell.weight.shape() == Shape{5, 12});
  REQUIRE(cell.bias.value().to_vector<float>() ==
          std::vector<float>{0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0});
  const nn::LSTMState state = cell.initial_state(4);
  REQUIRE(equal(state.h, zeros({4, 3})));
  REQUIRE(equal(state.c, zeros({4, 3})));
  REQUIRE(nn::LSTMCell(1, 2, {.forget_bias = -2}).bias.value().to_vector<float>()[3] == -2);
  REQUIRE(nn::RNNCell(2, 3, wide).initial_state(2).dtype() == DType::float64);
}

TEST_CASE("Gradients of RNNCell and LSTMCell agree with differences over three steps", "[nn]") {
  Variable x("x", numbers({2, 2})), h("h", numbers({2, 3})), c("c", numbers({2, 3}));
  nn::RNNCell rnn(2, 3, wide);
  check_gradients({x, h, rnn.weight, rnn.bias}, [&] {
    Tensor state = h;
    for (int t = 0; t < 3; ++t) state = rnn(x, state);
    return state;
  });
  nn::LSTMCell lstm(2, 3, {.dtype = DType::float64});
  check_gradients({x, h, c, lstm.weight, lstm.bias}, [&] {
    nn::LSTMState state{h, c};
    for (int t = 0; t < 3; ++t) state = lstm(x, state);
    return concat({state.h, state.c}, 1);
  });
}

TEST_CASE("Cells refuse what does not fit, naming the user's line", "[nn]") {
  nn::LSTMCell cell(2, 3);
  const auto state = cell.initial_state(4);
  require_parts(message<ShapeError>([&] { cell(zeros({4, 3}), state); }), {});
  require_parts(message<ShapeError>([&] {
                  cell(zeros({5, 2}), state);
                }),
                {"LSTMCell: h: expected shape (5, 3), got (4, 3)"});
  require_parts(message<ShapeError>([&] {
                  cell(zeros({4, 2}), {state.h, zeros({4, 2})});
                }),
                {"lstm_gates"});
  require_parts(message<ShapeError>([&] { cell(zeros({2}), state); }), {});
  require_parts(message<ShapeError>([&] { nn::LSTMCell(2, 0); }), {"LSTMCell: hidden"});
  require_parts(message<ShapeError>([&] { nn::RNNCell(-1, 2); }), {"RNNCell: in", "-1"});
}
}  // namespace reel::tests
