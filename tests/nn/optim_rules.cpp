// SPDX-License-Identifier: BSD-3-Clause
// Optimizers against loops of the published formulas in double, groups, schedules and averages.
#include <cstdio>
#include <functional>
#include <numbers>

#include <reel/optim/average.hpp>
#include <reel/optim/rmsprop.hpp>
#include <reel/optim/schedule.hpp>

#include "nn/near.hpp"

namespace reel::tests {
namespace {
/// What one element of a Variable has, beside its value: up to three numbers.
struct Element {
  double x, a = 0, b = 0, c = 0;
};
using Formula = std::function<void(Element&, double g, int t)>;

/// Steps `optimizer` over two Variables six times, and compares with the formula.
template <class Optimizer, class Make>
void compare(const Make& make, double first_a, const Formula& formula) {
  Variable x("x", numbers({3, 1})), y("y", numbers({4}));
  std::vector<Element> elements;
  for (const Variable& each : {x, y})
    for (double value : each.value().to_vector<double>()) elements.push_back({value, first_a});
  Optimizer optimizer = make(std::vector<Variable>{x, y});
  for (int t = 1; t <= 6; ++t) {
    const Tensor g = numbers({7}) / t;  // so that a largest second moment stays
    optimizer.step({g(range(0, 3)).reshape({3, 1}), g(range(3, 7))});
    const std::vector<double> slopes = g.to_vector<double>();
    std::vector<double> expected;
    for (std::size_t i = 0; i < 7; ++i) {
      formula(elements[i], slopes[i], t);
      expected.push_back(elements[i].x);
    }
    require_near(x, {expected.begin(), expected.begin() + 3});
    require_near(y, {expected.begin() + 3, expected.end()});
  }
}
}  // namespace

TEST_CASE("SGD with weight decay adds it to the gradient", "[optim]") {
  for (const double momentum : {0.0, 0.8}) {
    for (const bool nesterov : {false, momentum > 0}) {
      const optim::SGDOptions options{0.1, momentum, nesterov, 0.05};
      compare<optim::SGD>([&](const auto& x) { return optim::SGD(x, options); }, 0,
                          [&](Element& e, double g, int) {
                            g += 0.05 * e.x;
                            e.a = momentum * e.a + g;
                            e.x -= 0.1 * (nesterov ? g + momentum * e.a : e.a);
                          });
    }
  }
}

TEST_CASE("RMSprop follows the formula, with momentum and weight decay", "[optim]") {
  for (const double momentum : {0.0, 0.7}) {
    for (const double decay : {0.0, 0.05}) {
      const optim::RMSpropOptions options{0.1, 0.9, 1e-3, momentum, decay};
      compare<optim::RMSprop>([&](const auto& x) { return optim::RMSprop(x, options); }, 0,
                              [&](Element& e, double g, int) {
                                g += decay * e.x;
                                e.a = 0.9 * e.a + 0.1 * g * g;
                                e.b = momentum * e.b + g / (std::sqrt(e.a) + 1e-3);
                                e.x -= 0.1 * e.b;
                              });
    }
  }
}

TEST_CASE("Adagrad follows the formula, with weight decay and a first sum", "[optim]") {
  for (const double decay : {0.0, 0.05}) {
    const optim::AdagradOptions options{0.1, 1e-3, decay, 0.25};
    compare<optim::Adagrad>([&](const auto& x) { return optim::Adagrad(x, options); }, 0.25,
                            [&](Element& e, double g, int) {
                              g += decay * e.x;
                              e.a += g * g;
                              e.x -= 0.1 * g / (std::sqrt(e.a) + 1e-3);
                            });
  }
}

TEST_CASE("Adam and AdamW with amsgrad divide by the largest second moment", "[optim]") {
  const auto formula = [](double decay) {
    return [=](Element& e, double g, int t) {
      e.a = 0.8 * e.a + 0.2 * g;
      e.b = 0.7 * e.b + 0.3 * g * g;
      e.c = std::max(e.c, e.b);
      e.x -= 0.1 * decay * e.x;
      e.x -=
          0.1 * (e.a / (1 - std::pow(0.8, t))) / (std::sqrt(e.c / (1 - std::pow(0.7, t))) + 1e-3);
    };
  };
  compare<optim::Adam>(
      [](const auto& x) {
        return optim::Adam(x, {0.1, 0.8, 0.7, 1e-3, true});
      },
      0, formula(0));
  compare<optim::AdamW>(
      [](const auto& x) {
        return optim::AdamW(x, {0.1, 0.8, 0.7, 1e-3, 0.2, true});
      },
      0, formula(0.2));
}

TEST_CASE("steps leave infinite weights alone, and keep a NaN", "[optim]") {
  const double infinity = std::numeric_limits<double>::infinity();
  Variable x("x", tensor<double>({infinity, -infinity, 1.0}));
  const Tensor g = tensor<double>({1.0, 1.0, std::nan("")});
  optim::SGD({x}, {.learning_rate = 0.1}).step({g});
  optim::RMSprop({x}, {.learning_rate = 0.1}).step({g});
  optim::Adagrad({x}, {.learning_rate = 0.1}).step({g});
  optim::Adam adam({x}, {.amsgrad = true});
  for (int t = 0; t < 2; ++t) adam.step({t == 0 ? g : ones({3}, wide)});
  const std::vector<double> values = x.value().to_vector<double>();
  CHECK(values[0] == infinity);
  CHECK(values[1] == -infinity);
  CHECK(std::isnan(values[2]));
}

TEST_CASE("each group of Variables has options and a learning rate of its own", "[optim]") {
  const auto variables = [] {
    return std::vector<Variable>{
        {"a", ones({2}, wide)}, {"b", ones({3}, wide)}, {"c", ones({1}, wide)}};
  };
  const std::vector<Tensor> slopes = {numbers({2}), numbers({3}), numbers({1})};
  // Two groups step as two optimizers do.
  const auto compare_groups = [&](auto type, auto first, auto second) {
    using Optimizer = typename decltype(type)::type;
    using Group = optim::Group<decltype(first)>;
    const auto x = variables(), y = variables();
    Optimizer together(std::vector<Group>{{{x[0], x[1]}, first}, {{x[2]}, second}});
    Optimizer one({y[0], y[1]}, first), two({y[2]}, second);
    for (int t = 0; t < 3; ++t) {
      together.learning_rate(1).assign(0.1 * (t + 1));
      two.learning_rate().assign(0.1 * (t + 1));
      together.step(slopes);
      one.step({slopes[0], slopes[1]});
      two.step({slopes[2]});
    }
    for (std::size_t i = 0; i < 3; ++i) CHECK(equal(x[i], y[i]));
    CHECK(together.learning_rates().size() == 2);
    require_parts(message<IndexError>([&] { together.learning_rate(2); }), {"group"});
  };
  using optim::AdamWOptions;
  compare_groups(std::type_identity<optim::SGD>(), optim::SGDOptions{.momentum = 0.9},
                 optim::SGDOptions{.weight_decay = 0.1});
  compare_groups(std::type_identity<optim::Adam>(), optim::AdamOptions{},
                 optim::AdamOptions{.amsgrad = true});
  compare_groups(std::type_identity<optim::AdamW>(), AdamWOptions{.weight_decay = 0.2},
                 AdamWOptions{.beta1 = 0.5, .weight_decay = 0});
  compare_groups(std::type_identity<optim::RMSprop>(), optim::RMSpropOptions{.momentum = 0.9},
                 optim::RMSpropOptions{.decay = 0.5});
  compare_groups(std::type_identity<optim::Adagrad>(), optim::AdagradOptions{.first_sum = 1},
                 optim::AdagradOptions{.weight_decay = 0.1});
}

TEST_CASE("optimizers refuse no Variables, a negative rate and a gradient of another shape",
          "[optim]") {
  const std::vector<Variable> x = {Variable("x", ones({2}))};
  require_parts(message<Error>([&] { optim::SGD(std::vector<optim::Group<optim::SGDOptions>>()); }),
                {"SGD: variables: expected at least one"});
  optim::RMSprop heavy(x, {.momentum = 0.5});
  heavy.learning_rate().assign(-1);
  require_parts(message<Error>([&] { heavy.step({ones({2})}); }),
                {"rate of", "expected 0 or more, got -1"});
  optim::Adam largest(x, {.amsgrad = true});
  require_parts(message<ShapeError>([&] { largest.step({ones({3})}); }), {"gradient 0 (x)"});
}

TEST_CASE("a wrong gradient in the last group leaves the first group as it was", "[optim]") {
  const Variable a("a", ones({2})), b("b", ones({3}));
  const auto check = [&]<class Options, class Optimizer>(Options options,
                                                         std::type_identity<Optimizer>) {
    Optimizer optimizer(std::vector<optim::Group<Options>>{{{a}, options}, {{b}, options}});
    require_parts(message<ShapeError>([&] {
                    optimizer.step({ones({2}), ones({2})});
                  }),
                  {"gradient 1 (b)", "expected (3,)", "got (2,)"});
    require_parts(message<Error>([&] { optimizer.step({ones({2})}); }), {"gradients: expected 2"});
    CHECK(equal(a, ones({2})));
    CHECK(equal(b, ones({3})));
  };
  check(optim::SGDOptions{}, std::type_identity<optim::SGD>());
  check(optim::AdamOptions{}, std::type_identity<optim::Adam>());
  check(optim::RMSpropOptions{}, std::type_identity<optim::RMSprop>());
  check(optim::RMSpropOptions{.momentum = 0.5}, std::type_identity<optim::RMSprop>());
  check(optim::AdagradOptions{}, std::type_identity<optim::Adagrad>());
}

TEST_CASE("a wrong rate or row of the last group leaves everything as it was", "[optim]") {
  const Variable a("a", ones({2})), b("b", ones({3, 2}));
  const auto check = [&]<class Options, class Optimizer>(Options options,
                                                         std::type_identity<Optimizer>) {
    Optimizer optimizer(std::vector<optim::Group<Options>>{{{a}, options}, {{b}, options}});
    const std::vector<Variable> all = parameters(std::pair(std::vector{a, b}, optimizer));
    std::vector<Variable> before;
    const auto refuses = [&](const auto& step, std::initializer_list<std::string> parts,
                             Caller caller = Caller::here()) {
      before.clear();
      for (const Variable& x : all) before.push_back(x.clone());
      require_parts(message<Error>(step, caller), parts);
      if (!(a.device() == cpu())) return;  // other devices find it late
      for (std::size_t i = 0; i < all.size(); ++i) CHECK(equal(all[i], before[i]));
    };
    const std::vector<Tensor> dense = {ones({2}), ones({3, 2})};
    for (const double rate : {-1.0, double(INFINITY), 1e39}) {
      optimizer.learning_rate(1).assign(rate);
      refuses([&] { optimizer.step(dense); },
              {"rate of step: expected ", rate < 0 ? "0 or more, got -1" : "a finite number"});
    }
    optimizer.learning_rate(1).assign(0.5);
    for (const std::int64_t row : {std::int64_t{-2}, std::int64_t{3}}) {
      const Tensor rows = tensor(std::vector<std::int64_t>{1, row});
      const std::vector<RowGradient> mixed = {{ones({2})}, {ones({2, 2}), rows}};
      refuses([&] { optimizer.step(mixed); },
              {"rows of gradients: expected -1 to 2, got " + std::to_string(row) + " at [1]"});
    }
    optimizer.step(dense);
    CHECK_FALSE(equal(a, ones({2})));
  };
  check(optim::SGDOptions{}, std::type_identity<optim::SGD>());
  check(optim::SGDOptions{.momentum = 0.5}, std::type_identity<optim::SGD>());
  check(optim::AdamOptions{}, std::type_identity<optim::Adam>());
  check(optim::AdamWOptions{.amsgrad = true}, std::type_identity<optim::AdamW>());
  check(optim::RMSpropOptions{}, std::type_identity<optim::RMSprop>());
  check(optim::RMSpropOptions{.momentum = 0.5}, std::type_identity<optim::RMSprop>());
  check(optim::AdagradOptions{}, std::type_identity<optim::Adagrad>());
}

TEST_CASE("a wrong rate leaves a Variable whose value is held elsewhere", "[optim]") {
  const auto check = [](std::string_view what, auto optimizer, const std::vector<Variable>& all) {
    INFO(what);
    const std::vector<Tensor> held(all.begin(), all.end());  // so an update needs new buffers
    std::vector<Variable> before;
    for (const double rate : {-1.0, double(INFINITY)}) {
      optimizer.learning_rate().assign(rate);
      before.clear();
      for (const Variable& x : all) before.push_back(x.clone());
      message<Error>([&] {
        optimizer.step({ones({3, 2})});
        await_errors();
      });
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].device() == cpu() || !all[i].name().ends_with("steps"))
          CHECK(equal(all[i], before[i]));
    }
    optimizer.learning_rate().assign(0.5);
    optimizer.step({ones({3, 2})});
    CHECK_FALSE(equal(all[0], before[0]));
  };
  const Variable x("x", full({3, 2}, 2.0));
  optim::SGD sgd({x}, {.momentum = 0.5});
  check("SGD", sgd, parameters(std::pair(x, sgd)));
  optim::Adam adam({x});
  check("Adam", adam, parameters(std::pair(x, adam)));
}

TEST_CASE("a wrong rate of the last group is found before a traced step writes", "[optim]") {
  const Variable a("a", ones({2})), b("b", ones({3}));
  optim::Adam adam({{{a}, {}}, {{b}, {}}});
  const auto step = trace([a, b, adam](Tensor x) mutable {
    GradientTape tape;
    const Tensor loss = sum(a * a) + sum(b * x);
    adam.step(tape.gradient(loss, adam.variables()));
    return loss;
  });
  for (int i = 0; i < 3; ++i) step(ones({3}));
  CHECK(step.trace_count() == 1);
  const Variable before = a.clone();
  adam.learning_rate(1).assign(-1);
  std::string text;
  try {
    step(ones({3}));
    await_errors();
  } catch (const Error& error) {
    text = error.what();
  }
  CHECK_THAT(text, Catch::Contains("expected 0 or more, got -1"));
  if (a.device() == cpu()) {  // other devices find it late
    CHECK_THAT(text, Catch::Contains("Adam: rate of step: "));
    CHECK(equal(a, before));
  }
  adam.learning_rate(1).assign(1e-3);
  step(ones({3}));
  CHECK_FALSE(equal(a, before));
}

TEST_CASE("optimizers have the state that their options need, and no other", "[optim]") {
  const std::vector<Variable> x = {Variable("x", ones({2})), Variable("y", ones({1}))};
  const auto names = [](auto optimizer) {
    std::string all;
    for (const auto& [path, variable] : named_parameters(optimizer)) all += path + " ";
    return all;
  };
  CHECK(names(optim::RMSprop(x)) == "learning_rate v.0 v.1 ");
  CHECK(names(optim::RMSprop(x, {.momentum = 0.1})) ==
        "learning_rate v.0 v.1 velocity.0 velocity.1 ");
  using Group = optim::Group<optim::RMSpropOptions>;
  CHECK(names(optim::RMSprop(std::vector<Group>{{{x[0]}, {.momentum = 0.1}}, {{x[1]}, {}}})) ==
        "learning_rate learning_rate.1 v.0 v.1 velocity.0 velocity.1 ");
  CHECK(names(optim::Adagrad(x)) == "learning_rate sum.0 sum.1 ");
}

namespace {
/// The learning rates of `count` steps.
std::vector<double> rates_of(const optim::Factor& factor, int count) {
  Variable x("x", ones({1}));
  optim::SGD sgd({x}, {.learning_rate = 0.5});
  optim::Schedule schedule(sgd, factor);
  std::vector<double> rates;
  for (int step = 0; step < count; ++step, schedule.step())
    rates.push_back(sgd.learning_rate().value().item<double>());
  CHECK(schedule.steps().value().item<std::int64_t>() == count);
  return rates;
}
void require_rates(const optim::Factor& factor, const std::function<double(double)>& expected) {
  std::vector<double> all;
  for (int step = 0; step < 12; ++step) all.push_back(0.5 * expected(step));
  require_near(rates_of(factor, 12), all, 1e-13);
}
double half_wave(double from, double to, double t) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * t)) / 2;
}
}  // namespace

TEST_CASE("schedules follow their formulas", "[optim]") {
  require_rates(optim::step_decay(4, 0.3),
                [](double t) { return std::pow(0.3, std::floor(t / 4)); });
  require_rates(optim::exponential_decay(0.9), [](double t) { return std::pow(0.9, t); });
  require_rates(optim::linear_decay(8, 0.2),
                [](double t) { return 1 - 0.8 * std::min(t / 8, 1.0); });
  require_rates(optim::cosine_decay(8, 0.1),
                [](double t) { return half_wave(1, 0.1, std::min(t / 8, 1.0)); });
  require_rates(optim::warm_up(5), [](double t) { return std::min((t + 1) / 5, 1.0); });
  require_rates(optim::warm_up(3, optim::cosine_decay(6)), [](double t) {
    return t < 3 ? (t + 1) / 3 : half_wave(1, 0, std::min((t - 3) / 6, 1.0));
  });
  require_rates(optim::warm_up(3, [](const Tensor& step) { return 0.5 / (step + 1); }),
                [](double t) { return t < 3 ? (t + 1) / 3 : 0.5 / (t - 2); });
  require_rates(optim::one_cycle(10, {.first = 0.25, .last = 0.01, .rising = 0.5}), [](double t) {
    return t <= 4 ? half_wave(0.25, 1, t / 4) : half_wave(1, 0.01, std::min((t - 4) / 5, 1.0));
  });
  require_rates([](const Tensor& step) { return 1 / (step + 1); },
                [](double t) { return 1 / (t + 1); });
}

TEST_CASE("a schedule sets the rate of each group, also in a trace", "[optim]") {
  const auto run = [](bool traced) {
    Variable x("x", ones({2}, wide)), y("y", ones({2}, wide));
    optim::SGD sgd({{{x}, {.learning_rate = 0.5}}, {{y}, {.learning_rate = 2}}});
    optim::Schedule schedule(sgd, optim::warm_up(2, optim::cosine_decay(4)));
    // By value: a reference to an object on the stack leads to the bytes beside it too.
    auto f = [x, sgd, schedule](const Tensor& g) mutable {
      sgd.step({g, g});
      schedule.step();
      return x * 1;
    };
    auto step = trace(f);
    for (int i = 0; i < 6; ++i) traced ? step(ones({2}, wide)) : f(ones({2}, wide));
    if (traced) CHECK(step.trace_count() == 1);
    require_near(sgd.learning_rates()[1], {4 * sgd.learning_rate().value().item<double>()});
    return concat({x, y});
  };
  CHECK(equal(run(true), run(false)));
}

TEST_CASE("ReduceOnPlateau waits, then reduces down to the least rate", "[optim]") {
  Variable x("x", ones({1}));
  optim::SGD sgd({x}, {.learning_rate = 1});
  optim::ReduceOnPlateau plateau(sgd,
                                 {.factor = 0.5, .patience = 1, .threshold = 0.1, .least = 0.3});
  const std::vector<std::pair<double, double>> losses = {
      {4, 1},     {3, 1},      {2.9, 1},
      {2.8, 0.5}, {2.75, 0.5},  // not a tenth better
      {2.6, 0.5}, {2.5, 0.5},  {std::nan(""), 0.3},
      {9, 0.3},   {9, 0.3},    {1, 0.3}};
  for (const auto& [loss, rate] : losses) {
    plateau.step(tensor(loss));
    require_near(sgd.learning_rate(), {rate}, 1e-15);
  }
  require_near(plateau.best(), {1});
  plateau.step(0.5);
  require_near(plateau.best(), {0.5});
  require_parts(message<ShapeError>([&] { plateau.step(ones({2})); }), {"ReduceOnPlateau"});
  require_parts(message<Error>([&] { optim::ReduceOnPlateau(sgd, {.factor = 1}); }),
                {"ReduceOnPlateau: factor"});
  require_parts(message<Error>([&] { optim::ReduceOnPlateau(sgd, {.patience = -1}); }),
                {"ReduceOnPlateau: patience"});
  require_parts(message<Error>([&] { optim::ReduceOnPlateau(sgd, {.threshold = -1}); }),
                {"ReduceOnPlateau: threshold"});
  require_parts(message<Error>([&] { optim::ReduceOnPlateau(sgd, {.least = -1}); }),
                {"ReduceOnPlateau: least"});
  // A loss at the threshold is bad, and a factor of 0 goes to the least rate.
  optim::SGD other({x}, {.learning_rate = 1});
  optim::ReduceOnPlateau sharp(other, {.factor = 0, .patience = 0, .threshold = 0.5, .least = 0.1});
  sharp.step(4);
  require_near(other.learning_rate(), {1}, 0);
  sharp.step(2);
  require_near(other.learning_rate(), {0.1}, 0);
  require_near(sharp.best(), {4}, 0);
  // No bad step is counted before the first one.
  optim::SGD third({x}, {.learning_rate = 1});
  optim::ReduceOnPlateau patient(third, {.patience = 1});
  patient.step(std::nan(""));
  require_near(third.learning_rate(), {1}, 0);
  patient.step(std::nan(""));
  require_near(third.learning_rate(), {0.1}, 1e-15);
}

TEST_CASE("schedules refuse numbers that make no sense", "[optim]") {
  require_parts(message<Error>([] { optim::cosine_decay(0); }), {"cosine_decay: steps", "got 0"});
  require_parts(message<Error>([] { optim::step_decay(0); }), {"step_decay: every"});
  require_parts(message<Error>([] { optim::exponential_decay(-1); }), {"exponential_decay: decay"});
  require_parts(message<Error>([] { optim::step_decay(2, -1); }), {"step_decay: decay"});
  require_parts(message<Error>([] { optim::linear_decay(0); }), {"linear_decay: steps"});
  require_parts(message<Error>([] { optim::linear_decay(2, -1); }), {"linear_decay: last"});
  require_parts(message<Error>([] { optim::cosine_decay(2, -1); }), {"cosine_decay: last"});
  require_parts(message<Error>([] { optim::warm_up(0); }), {"warm_up: steps"});
  require_parts(message<Error>([] { optim::one_cycle(3, {.rising = 1}); }), {"one_cycle: rising"});
  require_parts(message<Error>([] { optim::one_cycle(0); }), {"one_cycle: steps"});
  require_parts(message<Error>([] { optim::one_cycle(10, {.first = -1}); }), {"one_cycle: first"});
  require_parts(message<Error>([] { optim::one_cycle(10, {.last = -1}); }), {"one_cycle: last"});
  // A rise of a step, and a fall of one, are the shortest.
  require_parts(message<Error>([] { optim::one_cycle(8, {.rising = 0.125}); }), {"rising"});
  require_parts(message<Error>([] { optim::one_cycle(8, {.rising = 1}); }), {"rising"});
  require_rates(optim::one_cycle(8, {.first = 0.5, .last = 0.25, .rising = 0.25}), [](double t) {
    return t <= 1 ? half_wave(0.5, 1, t) : half_wave(1, 0.25, std::min((t - 1) / 6, 1.0));
  });
  require_rates(optim::one_cycle(8, {.first = 0.5, .last = 0.25, .rising = 0.875}), [](double t) {
    return t <= 6 ? half_wave(0.5, 1, t / 6) : half_wave(1, 0.25, std::min(t - 6, 1.0));
  });
  require_rates(optim::step_decay(1, 0.5), [](double t) { return std::pow(0.5, t); });
  require_rates(optim::linear_decay(1, 0.5), [](double t) { return t < 1 ? 1 : 0.5; });
  require_rates(optim::cosine_decay(1, 0.5), [](double t) { return t < 1 ? 1 : 0.5; });
  require_rates(optim::warm_up(1), [](double) { return 1; });
  optim::SGD sgd({Variable("x", ones({1}))});
  require_parts(message<Error>([&] { optim::Schedule(sgd, {}); }), {"Schedule: factor"});
}

TEST_CASE("WeightAverage keeps a moving average, or the mean", "[optim]") {
  for (const bool equal_parts : {false, true}) {
    Variable x("x", tensor<double>({5.0, -2.0})), y("y", ones({1}, wide));
    optim::WeightAverage average({x, y}, {.decay = 0.75, .equal = equal_parts});
    double expected = 5, sum = 0;  // the first update of a mean replaces the 5
    for (int t = 1; t <= 5; ++t) {
      const double value = 1.0 / t;
      x.assign(tensor<double>({value, 3.0}));
      average.update();
      sum += value;
      expected = equal_parts ? sum / t : 0.75 * expected + 0.25 * value;
      require_near(average.averages()[0].value()(0), {expected});
    }
    require_near(average.averages()[1], {1}, 0);
    average.swap();
    require_near(x.value()(0), {expected});
    require_near(average.averages()[0], {0.2, 3});
    average.swap();
    require_near(x, {0.2, 3});
  }
  require_parts(message<Error>([] { optim::WeightAverage({}, {}); }), {"WeightAverage: variables"});
  require_parts(
      message<Error>([] { optim::WeightAverage({Variable("x", ones({1}))}, {.decay = 1}); }),
      {"WeightAverage: decay"});
  const Variable x("x", ones({1}));
  require_parts(message<Error>([&] { optim::WeightAverage({x}, {.decay = -0.1}); }),
                {"WeightAverage: decay"});
  require_parts(message<Error>([&] {
                  optim::WeightAverage({x, x});
                }),
                {"WeightAverage: variable 1 (x)", "variable 0 again"});
  require_parts(message<DTypeError>([] { optim::WeightAverage({Variable("n", tensor({1}))}); }),
                {"WeightAverage: variable 0 (n)", "got int32"});
  // The first average is the value, also with a decay of 0; it is no handle to the Variable.
  Variable y("y", full({2}, 3.0));
  optim::WeightAverage last({y}, {.decay = 0});
  CHECK(equal(last.averages()[0], full({2}, 3.0)));
  y.assign(5);
  CHECK(equal(last.averages()[0], full({2}, 3.0)));
  last.update();
  CHECK(equal(last.averages()[0], full({2}, 5.0)));
  CHECK(last.variables()[0].same_cell(y));
}

TEST_CASE("an average of extreme values does not overflow, and equal values stay", "[optim]") {
  const float most = std::numeric_limits<float>::max();
  Variable x("x", tensor({most, 0.1f, -most}));
  average_update(std::vector{x}, std::vector{tensor({-most, 0.1f, -most})}, 0.25);
  CHECK(equal(x, tensor({0.5f * most, 0.1f, -most})));
  average_update(std::vector{x}, std::vector{tensor({1e-9f, 0.3f, -most})}, 1);
  CHECK(equal(x, tensor({1e-9f, 0.3f, -most})));
}

TEST_CASE("GradientSum gives the mean of what was added, and starts again", "[optim]") {
  Variable x("x", ones({2})), y("y", ones({1}, wide));
  optim::GradientSum sum({x, y});
  for (int round = 0; round < 2; ++round) {
    sum.add({tensor({1.0f, 2.0f}), tensor<double>({3.0})});
    sum.add({tensor({3.0f, -2.0f}), tensor<double>({4.0})});
    const std::vector<Tensor> means = sum.take();
    CHECK(equal(means[0], tensor({2.0f, 0.0f})));
    CHECK(equal(means[1], tensor<double>({3.5})));
  }
  require_parts(message<ShapeError>([&] {
                  sum.add({ones({3}), ones({1}, wide)});
                }),
                {"GradientSum: gradient 0 (x)"});
  // An error has added nothing.
  require_parts(message<ShapeError>([&] {
                  sum.add({ones({2}), ones({2}, wide)});
                }),
                {"GradientSum: gradient 1 (y)"});
  sum.add({ones({2}), ones({1}, wide)});
  CHECK(equal(sum.take()[0], ones({2})));
  for (const Tensor& each : sum.take()) CHECK(all(isnan(each)));
  require_parts(message<Error>([&] { optim::GradientSum({}); }), {"GradientSum: variables"});
  require_parts(message<Error>([&] {
                  optim::GradientSum({x, x});
                }),
                {"GradientSum: variable 1 (x)"});
  require_parts(message<DTypeError>([] { optim::GradientSum({Variable("n", tensor({1}))}); }),
                {"GradientSum: variable 0 (n)"});
}

TEST_CASE("all that trains is saved and goes on as if it had not stopped", "[optim]") {
  struct Run {
    nn::Linear model{2, 1};
    optim::RMSprop rms;
    optim::AdamW adam;
    optim::Schedule schedule{adam, optim::cosine_decay(6)};
    optim::ReduceOnPlateau plateau{rms, {.patience = 0}};
    optim::WeightAverage average{parameters(model)};
    optim::GradientSum sum{parameters(model)};
    using Group = optim::Group<optim::AdamWOptions>;
    Run()
        : rms(parameters(model), {.momentum = 0.9}),
          adam(std::vector<Group>{{{model.weight}, {.amsgrad = true}},
                                  {{model.bias}, {.learning_rate = 0.1, .weight_decay = 0}}}) {}
    void step(double x) {
      const std::vector<Tensor> slopes = {full({2, 1}, x), full({1}, -x)};
      sum.add(slopes);
      rms.step(slopes);
      adam.step(slopes);
      schedule.step();
      plateau.step(x);
      average.update();
    }
    REEL_FIELDS(model, rms, adam, schedule, plateau, average, sum)
  };
  Run first, second;
  first.step(1);
  first.step(2);
  const std::string path = "optim_rules.safetensors";
  io::save(path, first);
  io::load(path, second);
  first.step(3);
  second.step(3);
  const auto a = io::tensors_of(first.model), b = io::tensors_of(second.model);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(equal(a[i].second, b[i].second));
  CHECK(equal(first.adam.learning_rate(1), second.adam.learning_rate(1)));
  CHECK(equal(first.rms.learning_rate(), second.rms.learning_rate()));
  CHECK(equal(first.average.averages()[0], second.average.averages()[0]));
  CHECK(equal(first.sum.take()[0], second.sum.take()[0]));
  nn::Linear alone(2, 1);
  io::save(path, first.model, first.adam, first.schedule, first.average);
  io::load(path, alone);  // without the optimizer's state
  CHECK(equal(alone.weight, first.model.weight));
  io::load(path, second.model, second.adam, second.schedule, second.average);
  std::remove(path.c_str());
}
}  // namespace reel::tests
