// SPDX-License-Identifier: BSD-3-Clause
#include "nn/near.hpp"

namespace reel::tests {
namespace {
struct Spread {
  double largest = 0, variance = 0;
};
Spread spread(const Tensor& x) {
  Spread out;
  const auto values = x.to_vector<double>();
  for (double value : values) {
    out.largest = std::max(out.largest, std::abs(value));
    out.variance += value * value / static_cast<double>(values.size());
  }
  return out;
}
}  // namespace

TEST_CASE("Glorot and He start with the published spread", "[nn]") {
  seed(3);
  const Shape shape{300, 200};
  const Spread glorot = spread(nn::glorot_uniform(shape, wide));
  REQUIRE(glorot.largest <= std::sqrt(6.0 / 500));
  REQUIRE(glorot.largest > 0.99 * std::sqrt(6.0 / 500));
  REQUIRE(glorot.variance == Approx(2.0 / 500).epsilon(0.02));
  REQUIRE(spread(nn::glorot_normal(shape, wide)).variance == Approx(2.0 / 500).epsilon(0.03));
  const Spread he = spread(nn::he_uniform(shape, wide));
  REQUIRE(he.largest <= std::sqrt(6.0 / 300));
  REQUIRE(he.variance == Approx(2.0 / 300).epsilon(0.02));
  REQUIRE(spread(nn::he_normal(shape, wide)).variance == Approx(2.0 / 300).epsilon(0.03));
}

TEST_CASE("Axes before the last two count for both sides", "[nn]") {
  seed(3);
  REQUIRE(spread(nn::he_normal({9, 30, 40}, wide)).variance == Approx(2.0 / 270).epsilon(0.05));
  REQUIRE(spread(nn::glorot_normal({9, 30, 40}, wide)).variance == Approx(2.0 / 630).epsilon(0.05));
}

TEST_CASE("weights without elements have their shape") {
  for (const Shape& shape : {Shape{0, 5}, Shape{5, 0}, Shape{0, 0}, Shape{2, 0, 3}, Shape{0, 2, 3}})
    for (const Tensor& x : {nn::glorot_uniform(shape), nn::glorot_normal(shape),
                            nn::he_uniform(shape), nn::he_normal(shape)})
      REQUIRE(x.shape() == shape);
}

TEST_CASE("gates start with the published spread, and forget gates with their bias", "[nn]") {
  seed(3);
  const nn::LSTMCell lstm(60, 70, {.forget_bias = 2, .dtype = DType::float64});
  const Spread spread_of_lstm = spread(lstm.weight);
  REQUIRE(spread_of_lstm.largest <= std::sqrt(6.0 / 200));
  REQUIRE(spread_of_lstm.largest > 0.99 * std::sqrt(6.0 / 200));
  REQUIRE(spread_of_lstm.variance == Approx(2.0 / 200).epsilon(0.03));
  const auto biases = [](const Variable& bias, std::initializer_list<double> of_gates) {
    const std::int64_t count = static_cast<std::int64_t>(of_gates.size());
    const Tensor gates = bias.value().reshape({count, bias.shape()[0] / count});
    require_near(mean(gates, 1), of_gates);
    require_near(max(gates, 1), of_gates);
  };
  biases(lstm.bias, {0, 2, 0, 0});
  const nn::TreeLSTMCell tree(5, 6, {.forget_bias = 2, .dtype = DType::float64});
  biases(tree.bias, {0, 2, 2, 0, 0});
  biases(tree.leaf_bias, {0, 0, 0});
  REQUIRE(spread(tree.weight).largest <= std::sqrt(6.0 / 18));
  const nn::ChildSumTreeLSTMCell sums(5, 6, {.forget_bias = 2, .dtype = DType::float64});
  biases(sums.bias, {0, 0, 0, 2});
}

TEST_CASE("orthogonal gives orthogonal rows or columns of the length asked for", "[nn]") {
  const Tensor square = nn::orthogonal({40, 40}, 1, wide), wider = nn::orthogonal({3, 7}, 2, wide),
               taller = nn::orthogonal({7, 3}, 1, wide);
  require_near(matmul(square, transpose(square)), eye(40, wide).to_vector<double>());
  require_near(matmul(wider, transpose(wider)), (4 * eye(3, wide)).to_vector<double>());
  require_near(matmul(transpose(taller), taller), eye(3, wide).to_vector<double>());
  REQUIRE(nn::orthogonal({2, 2}).dtype() == DType::float32);
  REQUIRE(nn::orthogonal({0, 4}).shape() == Shape{0, 4});
}

TEST_CASE("constant and the same seed give the same weights", "[nn]") {
  REQUIRE(equal(nn::constant({2, 3}, 0.5), full({2, 3}, 0.5f)));
  seed(9);
  const Tensor first = nn::glorot_uniform({4, 4});
  seed(9);
  REQUIRE(equal(nn::glorot_uniform({4, 4}), first));
  REQUIRE(!equal(nn::glorot_uniform({4, 4}), first));
}

TEST_CASE("Initialisers refuse shapes and dtypes that have no sides", "[nn]") {
  require_parts(message<ShapeError>([] { nn::glorot_uniform({3}); }), {"glorot_uniform: shape"});
  require_parts(message<ShapeError>([] { nn::orthogonal({2, 3, 4}); }), {"orthogonal: shape"});
  require_parts(message<DTypeError>([] {
                  nn::he_normal({2, 2}, {DType::int64});
                }),
                {"he_normal: dtype", "got int64"});
}
}  // namespace reel::tests
