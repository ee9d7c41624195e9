// SPDX-License-Identifier: BSD-3-Clause
#include <stdexcept>
#include <string>
#include <vector>

#include <reel/optim/schedule.hpp>

#include "nn/near.hpp"

namespace reel::tests {
namespace {
/// Two Variables and five steps of gradients for them, as lists of doubles.
struct Descent {
  std::vector<double> x = {0.5, -1.25, 2, 0, 3, -4};
  std::vector<std::vector<double>> gradients;
  Variable first{"first", tensor<double>({{0.5, -1.25, 2.0}}).reshape({3, 1})};
  Variable second{"second", tensor<double>({0.0, 3.0, -4.0})};

  Descent() {
    for (int step = 0; step < 5; ++step) gradients.push_back(numbers({6}).to_vector<double>());
  }
  std::vector<Variable> variables() const { return {first, second}; }
  std::vector<Tensor> gradient(std::size_t step) const {
    const Tensor all_six = tensor(gradients[step]);
    return {all_six(range(0, 3)).reshape({3, 1}), all_six(range(3, 6))};
  }
  void require_same() const {
    require_near(first, {x.begin(), x.begin() + 3});
    require_near(second, {x.begin() + 3, x.end()});
  }
};
}  // namespace

TEST_CASE("SGD moves against the gradient", "[optim]") {
  Descent descent;
  optim::SGD sgd(descent.variables(), {.learning_rate = 0.1});
  for (std::size_t step = 0; step < 5; ++step) {
    sgd.step(descent.gradient(step));
    for (std::size_t i = 0; i < 6; ++i) descent.x[i] -= 0.1 * descent.gradients[step][i];
    descent.require_same();
  }
}

TEST_CASE("SGD with momentum, plain and after Nesterov, follows the formula", "[optim]") {
  for (bool nesterov : {false, true}) {
    Descent descent;
    optim::SGD sgd(descent.variables(),
                   {.learning_rate = 0.1, .momentum = 0.8, .nesterov = nesterov});
    std::vector<double> velocity(6);
    for (std::size_t step = 0; step < 5; ++step) {
      sgd.step(descent.gradient(step));
      for (std::size_t i = 0; i < 6; ++i) {
        const double g = descent.gradients[step][i];
        velocity[i] = 0.8 * velocity[i] + g;
        descent.x[i] -= 0.1 * (nesterov ? g + 0.8 * velocity[i] : velocity[i]);
      }
      descent.require_same();
    }
  }
}

TEST_CASE("Adam and AdamW follow the published algorithms", "[optim]") {
  for (double decay : {0.0, 0.1}) {
    Descent descent;
    optim::Adam adam(descent.variables(),
                     {.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3});
    optim::AdamW adamw(descent.variables(), {.learning_rate = 0.1,
                                             .beta1 = 0.8,
                                             .beta2 = 0.95,
                                             .epsilon = 1e-3,
                                             .weight_decay = decay});
    std::vector<double> m(6), v(6);
    for (std::size_t step = 0; step < 5; ++step) {
      (decay == 0 ? adam : adamw).step(descent.gradient(step));
      const double t = static_cast<double>(step) + 1;
      for (std::size_t i = 0; i < 6; ++i) {
        const double g = descent.gradients[step][i];
        m[i] = 0.8 * m[i] + 0.2 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        descent.x[i] -= 0.1 * decay * descent.x[i];
        descent.x[i] -= 0.1 * (m[i] / (1 - std::pow(0.8, t))) /
                        (std::sqrt(v[i] / (1 - std::pow(0.95, t))) + 1e-3);
      }
      descent.require_same();
    }
    REQUIRE((decay == 0 ? adam : adamw).steps().value().item<std::int64_t>() == 5);
  }
}

TEST_CASE("Optimizers step float32 Variables of any size and gradients of any layout", "[optim]") {
  seed(2);
  for (std::int64_t n : {1, 7, 16, 33, 1000}) {
    Variable x("x", zeros({n, 3})), contiguous("contiguous", zeros({n, 3}));
    optim::Adam adam({x}), other({contiguous});
    for (int step = 0; step < 3; ++step) {
      const Tensor gradient = random::normal({3, n});
      adam.step({transpose(gradient)});
      other.step({transpose(gradient) + 0.0f});
    }
    REQUIRE(equal(x, contiguous));
    REQUIRE(allclose(abs(x.value()), full({n, 3}, 1.5e-3f), {.rtol = 0, .atol = 1.6e-3}));
  }
}

TEST_CASE("A learning rate is a Variable and may change between steps", "[optim]") {
  Variable x("x", tensor<double>({1.0, 2.0}));
  optim::SGD sgd({x}, {.learning_rate = 1});
  sgd.step({tensor<double>({1.0, 1.0})});
  sgd.learning_rate().assign(0.25);
  sgd.step({tensor<double>({1.0, 1.0})});
  require_near(x, {-0.25, 0.75});
}

TEST_CASE("A step leaves values that were read before as they were", "[optim]") {
  Variable x("x", tensor<double>({1.0, 2.0}));
  const Tensor before = x;
  optim::Adam adam({x}, {.learning_rate = 0.5});
  adam.step({tensor<double>({1.0, -1.0})});
  require_near(before, {1, 2});
  require_near(x, {0.5, 2.5}, 1e-7);
}

TEST_CASE("fields of an optimizer hold all that changes", "[optim]") {
  Variable x("x", tensor<double>({1.0, 2.0}));
  REQUIRE(parameters(optim::Adam({x})).size() == 4);
  REQUIRE(parameters(optim::SGD({x}, {.momentum = 0.9})).size() == 2);
}

TEST_CASE("the gradient of clip_by_global_norm reaches each of many tensors", "[optim]") {
  for (const double norm : {1.0, 100.0, std::numeric_limits<double>::infinity()}) {
    std::vector<Tensor> x, factors;
    for (int i = 0; i < 12; ++i) {
      const DType dtype = i % 3 ? DType::float32 : DType::float64;
      x.push_back(random::normal({i % 4 + 1}, {.dtype = dtype}));
      factors.push_back(random::normal({i % 4 + 1}, {.dtype = dtype}));
    }
    const auto gradients = [&](const auto& clip) {
      GradientTape tape;
      for (const Tensor& each : x) tape.watch(each);
      const std::vector<Tensor> y = clip(x);
      Tensor loss = tensor(0.0);
      for (std::size_t i = 0; i < y.size(); ++i) loss = loss + sum(y[i] * factors[i]);
      return tape.gradient(loss, x);
    };
    const auto fused =
        gradients([&](const auto& all) { return optim::clip_by_global_norm(all, norm); });
    const auto composed = gradients([&](std::vector<Tensor> all) {
      const Tensor length = optim::global_norm(all);
      if (length > norm)
        for (Tensor& each : all) each = each * cast(norm / length, each.dtype());
      return all;
    });
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(fused[i].dtype() == x[i].dtype());
      CHECK(allclose(fused[i], composed[i], {.rtol = 1e-5, .atol = 1e-6}));
    }
  }
}

TEST_CASE("clip_by_value cuts, clip_by_global_norm scales all by one factor", "[optim]") {
  const std::vector<Tensor> gradients = {tensor<double>({3.0, 0.0}),
                                         tensor<double>({{0.0}, {-4.0}})};
  require_near(optim::global_norm(gradients), {5});
  const auto cut = optim::clip_by_value(gradients, -1, 2);
  require_near(cut[0], {2, 0});
  require_near(cut[1], {0, -1});
  const auto scaled = optim::clip_by_global_norm(gradients, 2);
  require_near(scaled[0], {1.2, 0});
  require_near(scaled[1], {0, -1.6});
  const auto same = optim::clip_by_global_norm(gradients, 6);
  require_near(same[0], {3, 0});
  require_near(same[1], {0, -4});
  require_near(optim::clip_by_global_norm({zeros({2}, wide)}, 1)[0], {0, 0});
  REQUIRE(optim::clip_by_global_norm({tensor({3.0f}), tensor({4.0})}, 1)[0].dtype() ==
          DType::float32);
  REQUIRE(optim::clip_by_global_norm({}, 1).empty());
}

TEST_CASE("step refuses gradients that do not fit and changes nothing", "[optim]") {
  Variable w("w", ones({2, 3})), b("b", ones({3}));
  optim::Adam adam({w, b});
  require_parts(message<Error>([&] {
                  adam.step({ones({2, 3})});
                }),
                {"gradients: expected 2", "got 1"});
  require_parts(message<ShapeError>([&] {
                  adam.step({ones({2, 3}), ones({2})});
                }),
                {"gradient 1 (b)", "expected (3,)", "got (2,)"});
  require_parts(message<DTypeError>([&] {
                  adam.step({ones({2, 3}), ones({3}, wide)});
                }),
                {"gradient 1 (b)", "expected float32", "got float64"});
  require_parts(message<Error>([&] {
                  adam.step({ones({2, 3}), {}});
                }),
                {"gradient 1 (b)", "got nothing"});
  REQUIRE(equal(w, ones({2, 3})));
  REQUIRE(adam.steps().value().item<std::int64_t>() == 0);
}

TEST_CASE("step refuses a loss that is not one number and names its shape") {
  const Variable w("w", tensor({1.0f, 2.0f}));
  optim::SGD sgd({w});
  optim::Adam adam({w});
  const auto refused = [&](auto& optimizer, const std::string& name) {
    GradientTape tape;
    const Tensor losses = w * 2;
    std::string text;
    try {
      optimizer.step(tape, losses);
    } catch (const ShapeError& error) {
      text = error.what();
    }
    INFO(text);
    CHECK(text.find(name + ": loss: expected one number, got shape (2,)") != text.npos);
    CHECK(text.find("row_gradients") == text.npos);
    optimizer.step(tape, sum(losses));  // the tape is as it was
  };
  refused(sgd, "SGD");
  refused(adam, "Adam");
}

TEST_CASE("ReduceOnPlateau compares losses of either sign, by shares or differences") {
  const auto rate_after = [](optim::PlateauOptions options, std::vector<double> losses) {
    optim::SGD sgd({Variable("w", ones({1}))}, {.learning_rate = 1});
    options.patience = 0;
    options.factor = 0.5;
    optim::ReduceOnPlateau plateau(sgd, options);
    for (const double loss : losses) plateau.step(loss);
    return sgd.learning_rate().value().item<double>();
  };
  CHECK(rate_after({}, {4, 3, 2}) == 1);
  CHECK(rate_after({}, {4, 4}) == 0.5);
  CHECK(rate_after({}, {-1, -2, -3}) == 1);
  CHECK(rate_after({}, {-1, -1}) == 0.5);
  CHECK(rate_after({.threshold = 0.1}, {-1, -1.05}) == 0.5);
  CHECK(rate_after({.threshold = 0.1}, {-1, -1.2}) == 1);
  CHECK(rate_after({.threshold = 0.1, .absolute = true}, {10, 9.8, 9.5}) == 1);
  CHECK(rate_after({.threshold = 0.1, .absolute = true}, {10, 9.95}) == 0.5);
  CHECK(rate_after({.larger_is_better = true}, {-1, 0.5, 0.8}) == 1);
  CHECK(rate_after({.larger_is_better = true}, {0.5, 0.4}) == 0.5);
}

TEST_CASE("a step of a schedule whose factor throws does not count") {
  optim::SGD sgd({Variable("w", ones({1}))}, {.learning_rate = 1});
  bool fails = false;
  optim::Schedule schedule(sgd, [&](const Tensor& step) {
    if (fails) throw std::runtime_error("no factor");
    return 1 / (step + 1);
  });
  schedule.step();
  fails = true;
  CHECK_THROWS_AS(schedule.step(), std::runtime_error);
  CHECK(schedule.steps().value().item<std::int64_t>() == 1);
  fails = false;
  schedule.step();
  CHECK(sgd.learning_rate().value().item<double>() == Approx(1.0 / 3));
}

TEST_CASE("A rate that is no number is refused and changes nothing", "[optim][cpu]") {
  const Tensor start = ones({2, 3}) * 1;
  Variable w("w", start);
  optim::SGD sgd({w}), heavy({w}, {.momentum = 0.9});
  optim::Adam adam({w});
  const auto refuses = [&](auto& optimizer, double rate) {
    optimizer.learning_rate().assign(rate);
    require_parts(message<Error>([&] { optimizer.step({ones({2, 3})}); }), {"rate of", "finite"});
  };
  const auto refuses_negative = [&](auto& optimizer) {
    optimizer.learning_rate().assign(-1);
    require_parts(message<Error>([&] {
                    optimizer.step({ones({2, 3})});
                  }),
                  {"rate of", "expected 0 or more, got -1"});
  };
  refuses_negative(sgd);
  refuses_negative(heavy);
  refuses_negative(adam);
  for (double rate : {std::nan(""), std::numeric_limits<double>::infinity(), 1e300}) {
    refuses(sgd, rate);  // 1e300 is infinite in float32, the dtype of the Variable
    refuses(heavy, rate);
    refuses(adam, rate);
  }
  REQUIRE(equal(w, start));
  REQUIRE(adam.steps().value().item<std::int64_t>() == 0);
  REQUIRE(optim::global_norm({}).item<float>() == 0);
}

TEST_CASE("groups of float64 Variables take rates that float32 does not hold", "[optim]") {
  const Variable x("x", tensor<double>({1.0})), y("y", tensor<double>({1.0}));
  optim::SGD sgd({{{x}, {.learning_rate = 1e200}}, {{y}, {.learning_rate = 1}}});
  sgd.step({tensor<double>({0.25e-200}), tensor<double>({0.5})});
  require_near(x, {0.75});
  require_near(y, {0.5});
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

TEST_CASE("an optimizer steps through its base", "[optim]") {
  const Variable x("x", ones({2})), same("same", ones({2}));
  optim::AdamW adam({x});
  optim::AdamW other({same});
  optim::Optimizer& base = adam;
  for (int i = 0; i < 3; ++i) {
    base.step({tensor({1.0, -2.0})});
    other.step({tensor({1.0, -2.0})});
  }
  GradientTape tape, tape_of_other;
  base.step(tape, sum(square(x)));
  other.step(tape_of_other, sum(square(same)));
  CHECK(equal(x, same));
  std::vector<std::unique_ptr<optim::Optimizer>> several;
  several.push_back(std::make_unique<optim::SGD>(std::vector{x}));
  several.push_back(std::make_unique<optim::RMSprop>(std::vector{x}));
  several.push_back(std::make_unique<optim::Adagrad>(std::vector{x}));
  for (const auto& each : several) {
    const Tensor before = x;
    each->step({ones({2})});
    CHECK(all(x < before));
  }
}

TEST_CASE("an optimizer in a clone trains the clone's Variables", "[optim]") {
  struct Training {
    optim::Adam adam;
    nn::Linear layer;
    optim::Schedule schedule;
    optim::WeightAverage average;
    REEL_FIELDS(adam, layer, schedule, average)
  };
  const nn::Linear layer(2, 2);
  optim::Adam adam(parameters(layer), {.learning_rate = 0.5});
  const optim::Schedule schedule(adam, optim::exponential_decay(0.5));
  const Training first{adam, layer, schedule, optim::WeightAverage(parameters(layer))};
  Training copy = clone(first);
  const Tensor before = layer.weight;
  copy.schedule.step();
  CHECK(copy.adam.learning_rate().value().item<double>() == 0.25);
  CHECK(adam.learning_rate().value().item<double>() == 0.5);
  GradientTape tape;
  copy.adam.step(tape, sum(copy.layer(ones({1, 2}))));
  copy.average.update();
  CHECK(equal(layer.weight, before));
  CHECK_FALSE(equal(copy.layer.weight, before));
  CHECK(copy.adam.variables()[0].same_cell(copy.layer.weight));
  CHECK(copy.average.variables()[1].same_cell(copy.layer.bias));
  // Variables outside of what is cloned stay the same.
  CHECK(clone(adam).variables()[0].same_cell(layer.weight));
}
}  // namespace reel::tests
