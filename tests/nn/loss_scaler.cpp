// SPDX-License-Identifier: BSD-3-Clause
// LossScaler: what a good step does, and that a step with an infinity does nothing.
#include <cmath>
#include <filesystem>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
float factor_of(const optim::LossScaler& scaler) { return scaler.factor.value().item<float>(); }
std::int64_t steps_of(const optim::Adam& adam) { return adam.steps().value().item<std::int64_t>(); }
}  // namespace

TEST_CASE("a LossScaler makes the steps of the optimizer alone") {
  Variable a("a", tensor({1.0, -2.0})), c("a", tensor({1.0, -2.0}));
  optim::Adam plain({a}, {.learning_rate = 0.1}), scaled({c}, {.learning_rate = 0.1});
  optim::LossScaler scaler({.scale = 1024});
  for (int i = 0; i < 5; ++i) {
    GradientTape one;
    plain.step(one, sum(square(a) * a));
    GradientTape other;
    CHECK(scaler.step(scaled, other, sum(square(c) * c)));
    CHECK(equal(a.value(), c.value()));  // a factor of two to the n changes no bit
  }
  GradientTape tape;
  const Tensor loss = scaler.scale(sum(c * 3));
  CHECK(scaler.step(scaled, {tape.gradient(loss, c)}));
  CHECK(steps_of(scaled) == 6);
}

TEST_CASE("a step with an infinity or a NaN changes the factor only") {
  for (const double bad : {HUGE_VAL, static_cast<double>(NAN)}) {
    Variable w("w", tensor({1.0, 2.0})), v("v", tensor({3.0}));
    optim::Adam adam({w, v});
    optim::LossScaler scaler({.scale = 16, .interval = 2});
    adam.step({tensor({0.1, 0.2}), tensor({0.3})});
    const Tensor w_before = w, v_before = v;
    const Tensor m_before = [&] {
      Tensor m;
      adam.fields([&](auto name, auto& x) {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::vector<Variable>>)
          if (std::string_view(name) == "m") m = x[0];
      });
      return m;
    }();
    CHECK_FALSE(scaler.step(adam, {tensor({0.1, bad}), tensor({0.5})}));
    CHECK(equal(w.value(), w_before));
    CHECK(equal(v.value(), v_before));
    CHECK(steps_of(adam) == 1);
    CHECK(factor_of(scaler) == 8);
    adam.fields([&](auto name, auto& x) {
      if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::vector<Variable>>)
        if (std::string_view(name) == "m") CHECK(equal(x[0].value(), m_before));
    });
    for (const float expected : {8.0f, 16.0f, 16.0f, 32.0f}) {
      CHECK(scaler.step(adam, {tensor({0.1, 0.1}), tensor({0.5})}));
      CHECK(factor_of(scaler) == expected);
    }
  }
}

TEST_CASE("gradients that stay infinite at a factor of 1 are an error") {
  Variable w("w", tensor({1.0}));
  optim::SGD sgd({w}, {.learning_rate = 0.1});
  optim::LossScaler scaler({.scale = 2});
  const Tensor bad = tensor({HUGE_VAL});
  CHECK_FALSE(scaler.step(sgd, {bad}));
  check_refused<Error>([&] { scaler.step(sgd, {bad}); },
                       "LossScaler: gradients: expected finite numbers at factor 1");
  check_refused<Error>([] { optim::LossScaler({.scale = 0}); }, "LossScaler: scale: expected ");
  check_refused<Error>([] { optim::LossScaler({.growth = 1}); }, "LossScaler: growth: expected ");
  check_refused<Error>([] { optim::LossScaler({.backoff = 1}); }, "LossScaler: backoff: expected ");
  check_refused<Error>([] { optim::LossScaler({.interval = 0}); },
                       "LossScaler: interval: expected ");
}

TEST_CASE("a LossScaler clips what it has unscaled") {
  Variable w("w", tensor({0.0, 0.0}));
  optim::SGD sgd({w}, {.learning_rate = 1});
  optim::LossScaler scaler({.scale = 8, .clip_norm = 1});
  CHECK(scaler.step(sgd, {tensor({24.0, 32.0})}));
  CHECK(allclose(w, tensor({-0.6, -0.8})));
}

TEST_CASE("a LossScaler in a traced step leaves out the same steps") {
  const auto run = [](bool traces) {
    Variable w("w", tensor({1.0, 2.0}));
    optim::Adam adam({w}, {.learning_rate = 0.1});
    optim::LossScaler scaler({.scale = 64, .interval = 3});
    const auto step = [&](Tensor x) {
      GradientTape tape;
      const Tensor loss = sum(square(w * x));
      scaler.step(adam, tape, loss);
      return loss;
    };
    const auto traced = trace(step);
    for (int i = 0; i < 12; ++i) {
      const Tensor x = tensor({1.0, i % 5 == 3 ? HUGE_VAL : 0.5});
      traces ? traced(x) : step(x);
    }
    return std::tuple(w.value().to_vector<float>(), steps_of(adam), factor_of(scaler));
  };
  CHECK(run(true) == run(false));
  CHECK(std::get<1>(run(true)) == 10);
}

TEST_CASE("a model of float16 products learns with a LossScaler, which is saved") {
  seed(4);
  nn::Linear first(8, 16), last(16, 1);
  std::vector<Variable> weights = parameters(first);
  for (const Variable& w : parameters(last)) weights.push_back(w);
  optim::Adam adam(weights, {.learning_rate = 0.02});
  optim::LossScaler scaler;
  const Tensor x = random::normal({64, 8}), y = sum(x(all, range(0, 2)), 1, keepdims);
  float loss = 0;
  for (int i = 0; i < 60; ++i) {
    GradientTape tape;
    Tensor cost;
    {
      const AutocastScope scope({DType::float16});
      cost = mse_loss(last(tanh(first(x))), y);
    }
    scaler.step(adam, tape, cost);
    loss = cost.item<float>();
  }
  CHECK(loss < 0.1f);
  const auto path = std::filesystem::temp_directory_path() / "reel_loss_scaler.safetensors";
  io::save(path.string(), scaler);
  optim::LossScaler other;
  io::load(path.string(), other);
  CHECK(factor_of(other) == factor_of(scaler));
  std::filesystem::remove(path);
}
}  // namespace reel::tests
