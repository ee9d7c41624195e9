// SPDX-License-Identifier: BSD-3-Clause
// Options of layers and optimizers: both ends of each range are accepted, and values outside are
// refused.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "nn/near.hpp"

namespace reel::tests {
namespace {
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

struct Range {
  const char* argument;
  std::function<void(double)> make;
  std::vector<double> taken, refused;
};
std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}
void check(const Range& range) {
  for (const double value : range.taken) {
    INFO(range.argument << " " << value);
    CHECK_NOTHROW(range.make(value));
  }
  for (const double value : range.refused) {
    const std::string text = refusal([&] { range.make(value); });
    INFO(range.argument << " " << value << ": " << text);
    CHECK(text.find(range.argument) != text.npos);
    CHECK(text.find(": expected ") != text.npos);
  }
}
}  // namespace

TEST_CASE("optimizers take the ends of the ranges of their options", "[optim]") {
  const std::vector<Variable> one = {Variable("x", ones({2}))};
  const std::vector<double> no_rate = {-1e-9, nan, inf, -inf}, no_part = {-1e-9, 1, 2, nan};
  const Range ranges[] = {
      {"SGD: learning_rate",
       [&](double v) { optim::SGD(one, {.learning_rate = v}); },
       {0, 5},
       no_rate},
      {"SGD: momentum", [&](double v) { optim::SGD(one, {.momentum = v}); }, {0, 0.999}, no_part},
      {"SGD: momentum",
       [&](double v) { optim::SGD(one, {.momentum = v, .nesterov = true}); },
       {1e-9, 0.999},
       {0, 1, nan}},
      {"Adam: learning_rate",
       [&](double v) { optim::Adam(one, {.learning_rate = v}); },
       {0, 5},
       no_rate},
      {"Adam: beta", [&](double v) { optim::Adam(one, {.beta1 = v}); }, {0, 0.999}, no_part},
      {"Adam: beta", [&](double v) { optim::Adam(one, {.beta2 = v}); }, {0, 0.999}, no_part},
      {"Adam: epsilon", [&](double v) { optim::Adam(one, {.epsilon = v}); }, {0, 1}, no_rate},
      {"AdamW: weight_decay",
       [&](double v) { optim::AdamW(one, {.weight_decay = v}); },
       {0, 1},
       no_rate},
      {"SGD: weight_decay",
       [&](double v) { optim::SGD(one, {.weight_decay = v}); },
       {0, 1},
       no_rate},
      {"RMSprop: decay", [&](double v) { optim::RMSprop(one, {.decay = v}); }, {0, 0.999}, no_part},
      {"RMSprop: momentum",
       [&](double v) { optim::RMSprop(one, {.momentum = v}); },
       {0, 0.999},
       no_part},
      {"RMSprop: epsilon", [&](double v) { optim::RMSprop(one, {.epsilon = v}); }, {0, 1}, no_rate},
      {"RMSprop: weight_decay",
       [&](double v) { optim::RMSprop(one, {.weight_decay = v}); },
       {0, 1},
       no_rate},
      {"RMSprop: learning_rate",
       [&](double v) { optim::RMSprop(one, {.learning_rate = v}); },
       {0, 1},
       no_rate},
      {"Adagrad: epsilon", [&](double v) { optim::Adagrad(one, {.epsilon = v}); }, {0, 1}, no_rate},
      {"Adagrad: weight_decay",
       [&](double v) { optim::Adagrad(one, {.weight_decay = v}); },
       {0, 1},
       no_rate},
      {"Adagrad: first_sum",
       [&](double v) { optim::Adagrad(one, {.first_sum = v}); },
       {0, 1},
       no_rate},
      {"Adagrad: learning_rate",
       [&](double v) { optim::Adagrad(one, {.learning_rate = v}); },
       {0, 1},
       no_rate},
      {"clip_by_global_norm: norm",
       [](double v) { optim::clip_by_global_norm({}, v); },
       {1e-9, inf},
       {0, -1, nan}},
      {"clip_by_value: low",
       [](double v) { optim::clip_by_value({}, v, 1); },
       {1, -inf},
       {1.001, nan, inf}},
      {"clip_by_value",
       [](double v) { optim::clip_by_value({}, 1, v); },
       {1, inf},
       {0.999, nan, -inf}}};
  for (const Range& range : ranges) check(range);
  require_parts(message<Error>([] { optim::SGD(std::vector<Variable>{}); }),
                {"SGD: variables", "at least one"});
  const std::string none = message<Error>([] { optim::Adam(std::vector<Variable>{}); });
  require_parts(none, {"Adam: variables: expected at least one Variable, got none"});
  require_advice(none, "REEL_FIELDS");
  require_parts(message<DTypeError>([] {
                  optim::clip_by_global_norm({tensor({1, 2})}, 1);
                }),
                {"clip_by_global_norm: dtype", "got int32"});
}

TEST_CASE("an optimizer names each Variable that it cannot train", "[optim]") {
  const Variable a("a", ones({2})), b("b", ones({2})), n("n", tensor({1}));
  require_parts(message<Error>([&] {
                  optim::SGD({a, b, a});
                }),
                {"variable 2 (a)", "a Variable of its own", "variable 0 again"});
  require_parts(message<Error>([&] {
                  optim::Adam({a, b, b});
                }),
                {"variable 2 (b)", "a Variable of its own", "variable 1 again"});
  require_parts(message<DTypeError>([&] {
                  optim::SGD({a, n, b});
                }),
                {"variable 1 (n)", "a floating dtype", "int32"});
  CHECK_NOTHROW(optim::SGD({a, b}));
}

TEST_CASE("SGD names the Variable whose gradient does not fit", "[optim]") {
  const Variable a("a", ones({2})), b("b", ones({3}));
  for (const double momentum : {0.0, 0.5}) {
    optim::SGD sgd({a, b}, {.momentum = momentum});
    const auto refused = [&](const std::vector<Tensor>& gradients) {
      return refusal([&] { sgd.step(gradients); });
    };
    CHECK(refused({ones({2})}).find("SGD: gradients: expected 2, got 1") != std::string::npos);
    CHECK(refused({ones({2}), ones({2})}).find("SGD: gradient 1 (b)") != std::string::npos);
    CHECK(refused({Tensor(), ones({3})}).find("SGD: gradient 0 (a)") != std::string::npos);
  }
  CHECK(equal(a, ones({2})));
}

TEST_CASE("a rate or a decay of 0 leaves values as they are, but counts steps", "[optim]") {
  Variable x("x", tensor({1.0f, -2.0f}));
  optim::AdamW adam({x}, {.learning_rate = 0});
  optim::SGD sgd({x}, {.learning_rate = 0, .momentum = 0.5});
  for (int i = 0; i < 2; ++i) {
    adam.step({tensor({3.0f, 4.0f})});
    sgd.step({tensor({3.0f, 4.0f})});
  }
  CHECK(equal(x, tensor({1.0f, -2.0f})));
  CHECK(adam.steps().value().item<std::int64_t>() == 2);
}

TEST_CASE("layers take the ends of the ranges of their options", "[nn]") {
  const Range ranges[] = {
      {"LayerNorm: epsilon",
       [](double v) { nn::LayerNorm(3, {.epsilon = v}); },
       {0, 1},
       {-1e-9, nan, inf}},
      {"Dropout: probability", [](double v) { nn::Dropout{v}; }, {0, 0.999}, {-1e-9, 1, nan}},
      {"orthogonal: gain",
       [](double v) {
         nn::orthogonal({2, 3}, v);
       },
       {0, -1, 2},
       {nan, inf}},
      {"forget_bias",
       [](double v) { nn::LSTMCell(2, 3, {.forget_bias = v}); },
       {0, -1, 1},
       {nan, inf}},
      {"LSTM: dropout",
       [](double v) { nn::LSTM(2, 3, {.layers = 2, .dropout = v}); },
       {0, 0.999},
       {-1e-9, 1, nan}},
      {"GRU: dropout",
       [](double v) { nn::GRU(2, 3, {.layers = 2, .dropout = v}); },
       {0, 0.999},
       {-1e-9, 1, nan}}};
  for (const Range& range : ranges) check(range);
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    require_parts(message<ShapeError>([&] { nn::Linear(size, 1); }), {"Linear: in", "2^40"});
    require_parts(message<ShapeError>([&] { nn::Linear(1, size); }), {"Linear: out", "2^40"});
    require_parts(message<ShapeError>([&] { nn::LSTMCell(size, 1); }), {"LSTMCell: in"});
    require_parts(message<ShapeError>([&] { nn::LSTMCell(1, size); }), {"LSTMCell: hidden"});
    require_parts(message<ShapeError>([&] { nn::GRUCell(size, 1); }), {"GRUCell: in"});
    require_parts(message<ShapeError>([&] { nn::GRUCell(1, size); }), {"GRUCell: hidden"});
    require_parts(message<ShapeError>([&] { nn::RNNCell(size, 1); }), {"RNNCell: in"});
    require_parts(message<ShapeError>([&] { nn::RNNCell(1, size); }), {"RNNCell: hidden"});
  }
  CHECK(nn::Linear(1, 1)(ones({2, 1})).shape() == Shape{2, 1});
  CHECK(nn::GRUCell(1, 1).initial_state(2).shape() == Shape{2, 1});
  require_parts(message<ShapeError>([] { nn::LSTM(2, 3, {.layers = 0}); }), {"LSTM: layers"});
  const nn::Dropout layer(0.5);
  const TrainScope evaluating(false);
  require_parts(message<Error>([&] { layer(Tensor()); }), {"Dropout: x", "an undefined Tensor"});
}
}  // namespace reel::tests
