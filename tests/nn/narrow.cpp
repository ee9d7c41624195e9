// SPDX-License-Identifier: BSD-3-Clause
// Layers, models and optimizers whose arguments are only just wrong, or only just right.
#include <span>
#include <utility>
#include <vector>

#include <reel/optim/schedule.hpp>

#include "nn/near.hpp"

namespace reel::tests {
namespace {
struct Scaled {
  Variable factor{"weight", ones({2})};
  REEL_FIELDS(factor)
};
struct Outer {
  Scaled own;
  REEL_FIELDS(own)
};
}  // namespace

TEST_CASE("cells refuse a state that has another number of axes", "[nn]") {
  const nn::GRUCell cell(3, 4);
  const Tensor x = ones({2, 3});
  for (const Shape& shape : {Shape({2}), Shape({2, 4, 1}), Shape({2, 4, 4})})
    require_parts(message<ShapeError>([&] { cell(x, ones(shape)); }),
                  {"GRUCell: h: expected shape (2, 4), got "});
}

TEST_CASE("a layer refuses single numbers that a tape has recorded", "[nn]") {
  const nn::Linear layer(3, 2);
  const Variable w("w", tensor(1.0f));
  GradientTape tape;
  Tensor y = w * 2;
  for (int i = 0; i < 8; ++i) {
    require_parts(message<ShapeError>([&] { layer(y); }),
                  {"Linear: x: expected last length 3, got ()"});
    y = y * 2;
  }
}

TEST_CASE("Highway and Linear name their own argument, or that of the op inside", "[nn]") {
  const nn::Highway highway(3);
  require_parts(message<ShapeError>([&] {
                  highway(ones({2, 5}));
                }),
                {"Highway: x: expected last length 3, got (2, 5)"});
  const nn::Linear layer(3, 2);
  require_parts(message<ShapeError>([&] { layer(2.0); }),
                {"Linear: x of matmul: expected at least 1 axis"});
}

TEST_CASE("a model of another dtype is not assigned", "[nn]") {
  const nn::Linear single(2, 3), twice(2, 3, wide);
  const Tensor before = single.weight.value() + 0;
  const std::string text = message<Error>([&] { assign(single, twice); });
  require_parts(text, {"the paths, shapes and dtypes of the model, got 2 that differ"});
  require_advice(text, "different: weight: expected (2, 3) float32, got (2, 3) float64");
  CHECK(equal(single.weight, before));
}

TEST_CASE("a Variable keeps its name where a path ends in another one of the same length", "[nn]") {
  const Outer outer;
  REQUIRE(named_parameters(outer)[0].first == "own.factor");
  CHECK(outer.own.factor.name() == "weight");
}

TEST_CASE("a step of rows takes one number as its rate", "[optim]") {
  const std::vector<Variable> table = {Variable("table", zeros({4, 3}))};
  const std::vector<RowGradient> g = {{ones({2, 3}), tensor({0, 2}).to(int64)}};
  require_parts(message<ShapeError>([&] { sgd_update(table, g, ones({2})); }),
                {"sgd_update: rate: expected one number, got shape (2,)"});
  CHECK(equal(table[0], zeros({4, 3})));
  sgd_update(table, g, ones({1}));
  CHECK(equal(table[0].value()(0), -ones({3})));
}

TEST_CASE("groups of float64 Variables take rates that float32 does not hold", "[optim]") {
  const Variable x("x", tensor<double>({1.0})), y("y", tensor<double>({1.0}));
  optim::SGD sgd({{{x}, {.learning_rate = 1e200}}, {{y}, {.learning_rate = 1}}});
  sgd.step({tensor<double>({0.25e-200}), tensor<double>({0.5})});
  require_near(x, {0.75});
  require_near(y, {0.5});
}

TEST_CASE("an optimizer that was moved from leaves the tape as it is", "[optim]") {
  const nn::Linear model(2, 2);
  optim::Adam a(parameters(model));
  const optim::Adam b = std::move(a);
  GradientTape tape;
  const Tensor loss = sum(model(ones({1, 2})));
  require_parts(message<Error>([&] { a.step(tape, loss); }), {"moved from"});
  CHECK(equal(tape.gradient(loss, model.bias), ones({2})));
}

TEST_CASE("an optimizer reads no gradient behind the last one", "[optim]") {
  const Variable a("a", ones({2})), b("b", ones({2}));
  optim::SGD sgd({{{a}, {.learning_rate = 1}}, {{b}, {.learning_rate = 0.5}}});
  // The third one belongs to no Variable and has a row that does not exist.
  const std::vector<RowGradient> all = {
      {ones({2})}, {ones({2})}, {ones({1}), tensor({77}).to(int64)}};
  sgd.step(std::span<const RowGradient>(all).first(2));
  CHECK(equal(a, zeros({2})));
  CHECK(equal(b, full({2}, 0.5f)));
}

TEST_CASE("the end of a cosine decay is exact to the last digit of 1", "[optim]") {
  const optim::Factor factor = optim::cosine_decay(1000);
  for (int step = 980; step <= 1000; ++step) {
    INFO(step);
    const double wave = std::sin(std::acos(0.0) * (1000 - step) / 1000);
    const double got = factor(tensor<double>(step)).item<double>();
    CHECK(std::abs(got - wave * wave) <= 5e-16);
  }
}
}  // namespace reel::tests
