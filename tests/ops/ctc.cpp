// SPDX-License-Identifier: BSD-3-Clause
// The CTC loss against the sum over all paths.
#include <cmath>
#include <limits>
#include <vector>

#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
using Labels = std::vector<std::int64_t>;

Labels collapsed(const Labels& path, std::int64_t blank) {
  Labels labels;
  for (std::size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  return labels;
}
/// Minus the logarithm of the sum over all paths of `steps` classes.
double slow_loss(const Tensor& log_probs, int sequence, std::int64_t steps, const Labels& labels,
                 std::int64_t blank) {
  const std::int64_t classes = log_probs.shape(2);
  Labels path(static_cast<std::size_t>(steps), 0);
  double sum = 0;
  for (;;) {
    if (collapsed(path, blank) == labels) {
      double score = 0;
      for (std::size_t t = 0; t < path.size(); ++t)
        score += log_probs(static_cast<int>(t), sequence, static_cast<int>(path[t])).item<double>();
      sum += std::exp(score);
    }
    std::size_t t = 0;
    for (; t < path.size() && ++path[t] == classes; ++t) path[t] = 0;
    if (t == path.size()) break;
  }
  return -std::log(sum);
}
}  // namespace

TEST_CASE("ctc_loss is minus the logarithm of the probability of all paths") {
  const GeneratorScope scope(Generator(1));
  const Tensor x = log_softmax(random::normal({5, 4, 3}, {.stddev = 2, .dtype = float64}));
  const Tensor steps = tensor({5, 4, 3, 5}), counts = tensor({2, 0, 1, 3});
  const std::vector<Labels> used[] = {{{1, 1}, {}, {2}, {1, 2, 1}}, {{0, 0}, {}, {2}, {0, 2, 0}}};
  const Tensor padded[] = {tensor({{1, 1, 9}, {-7, 9, 9}, {2, 1, 1}, {1, 2, 1}}),
                           tensor({{0, 0, 9}, {-7, 9, 9}, {2, 0, 0}, {0, 2, 0}})};
  for (const std::int64_t blank : {0, 1}) {
    const auto number = static_cast<std::size_t>(blank);
    const Tensor losses =
        ctc_loss(x, padded[number], steps, counts, {.blank = blank, .reduction = Reduction::none});
    double sum = 0, mean = 0;
    for (int i = 0; i < 4; ++i) {
      const Labels& labels = used[number][static_cast<std::size_t>(i)];
      const double exact = slow_loss(x, i, steps(i).item<int>(), labels, blank);
      CHECK(losses(i).item<double>() == Approx(exact).epsilon(1e-12));
      sum += exact;
      mean += exact / std::max(1.0, static_cast<double>(labels.size())) / 4;
    }
    const Tensor y = padded[number];
    CHECK(ctc_loss(x, y, steps, counts, {blank, Reduction::sum}).item<double>() == Approx(sum));
    CHECK(ctc_loss(x, y, steps, counts, {.blank = blank}).item<double>() == Approx(mean));
    CHECK(ctc_loss(x.to(float32), y, steps, counts, {.blank = blank}).item<float>() ==
          Approx(mean).epsilon(1e-5));
  }
}

TEST_CASE("the gradients of ctc_loss, first and second, agree with differences") {
  const GeneratorScope scope(Generator(2));
  const Tensor x = random::normal({4, 2, 3}, {.dtype = float64});
  const Tensor labels = tensor({{1, 1}, {2, 1}}), steps = tensor({4, 3}), counts = tensor({2, 2});
  const auto loss = [&](const Tensor& scores) {
    return ctc_loss(log_softmax(scores), labels, steps, counts);
  };
  const auto slope = [&](const Tensor& scores) {
    GradientTape tape;
    tape.watch(scores);
    return tape.gradient(loss(scores), scores);
  };
  const Tensor dx = slope(x), direction = random::normal(x.shape(), {.dtype = float64});
  const double h = 1e-5;
  const double along =
      ((loss(x + h * direction) - loss(x - h * direction)) / (2 * h)).item<double>();
  CHECK(sum(dx * direction).item<double>() == Approx(along).epsilon(1e-8));
  CHECK(all(dx(3, 1) == 0));  // behind the second sequence
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor first = inner.gradient(loss(x), x);
  const Tensor second = outer.gradient(sum(first * direction), x);
  const Tensor expected = (slope(x + h * direction) - slope(x - h * direction)) / (2 * h);
  CHECK(allclose(second, expected, {.rtol = 1e-6, .atol = 1e-8}));
}

TEST_CASE("ctc_loss of a long sequence has all its digits") {
  // If all classes are equally probable, the loss counts the paths: binomial(time + n - r, 2 n) for
  // n labels, of which r equal the label before.
  const std::int64_t time = 2'000, n = 50;
  const double score = -30;  // the probability of a path is e^-60000
  std::vector<std::int64_t> apart, pairs;
  for (std::int64_t i = 0; i < n; ++i) apart.push_back(1 + i % 7), pairs.push_back(1 + i / 2 % 7);
  const Tensor labels = stack({tensor(apart), tensor(pairs)}, 0);
  const Tensor steps = full({2}, time, int64), counts = full({2}, n, int64);
  const auto paths = [&](std::int64_t repeated) {  // the logarithm of their number
    const auto all = static_cast<double>(time + n - repeated), chosen = static_cast<double>(2 * n);
    return std::lgamma(all + 1) - std::lgamma(chosen + 1) - std::lgamma(all - chosen + 1);
  };
  for (const DType dtype : {float32, float64}) {
    const Tensor x = full({time, 2, 9}, score, dtype);
    GradientTape tape;
    tape.watch(x);
    const Tensor losses = ctc_loss(x, labels, steps, counts, {.reduction = Reduction::none});
    const double rounding = dtype == float32 ? 1e-7 : 1e-13;
    const double whole = -score * static_cast<double>(time);
    CHECK(losses(0).to(float64).item<double>() == Approx(whole - paths(0)).epsilon(rounding));
    CHECK(losses(1).to(float64).item<double>() == Approx(whole - paths(n / 2)).epsilon(rounding));
    // A path has one class at each step.
    const Tensor dx = tape.gradient(losses, x);
    CHECK(allclose(sum(dx, 2), full({time, 2}, -1, dtype), {.rtol = 1e-5}));
    CHECK(all(dx(all, all, 8) == 0));
    CHECK(all(dx <= 0));
  }
}

TEST_CASE("one sequence of ctc_loss does not change another") {
  const GeneratorScope scope(Generator(4));
  const Tensor x = log_softmax(random::normal({4, 3, 3}));
  const Tensor labels = tensor({{1, 2}, {1, 1}, {2, 0}});
  const Tensor steps = tensor({4, 4, 3}), counts = tensor({2, 2, 1});
  const auto run = [&](const Tensor& scores) {
    GradientTape tape;
    tape.watch(scores);
    const Tensor y = ctc_loss(scores, labels, steps, counts, {.reduction = Reduction::none});
    return std::pair(y, tape.gradient(y * tensor({3.0f, 1.0f, 0.5f}), scores));
  };
  const auto [y, dx] = run(x);
  const Tensor second = (arange(0, 3) == 1).reshape({1, 3, 1});
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), infinity}) {
    const auto [z, dz] = run(where(second, bad, x));
    for (const int b : {0, 2}) {
      CHECK(equal(z(b), y(b)));
      CHECK(equal(dz(all, b), dx(all, b)));
    }
    CHECK(std::isnan(z(1).item<float>()));
    CHECK(all(isnan(dz(all, 1, range(0, 2)))));
  }
  // Scores behind the end of a sequence are not read.
  const Tensor behind =
      (arange(0, 4) == 3).reshape({4, 1, 1}) & (arange(0, 3) == 2).reshape({1, 3, 1});
  CHECK(equal(run(where(behind, std::nan(""), x)).first, y));
}

TEST_CASE("labels that do not fit have an infinite loss and no gradient") {
  const Tensor x = log_softmax(random::normal({3, 3, 4}, {.dtype = float64}));
  const Tensor labels = tensor({{1, 1, 2}, {1, 2, 3}, {2, 2, 2}});
  const Tensor steps = tensor({3, 3, 0}), counts = tensor({3, 3, 0});
  GradientTape tape;
  tape.watch(x);
  const Tensor losses = ctc_loss(x, labels, steps, counts, {.reduction = Reduction::none});
  CHECK(losses(0).item<double>() == infinity);  // the two equal labels need a blank between
  CHECK(std::isfinite(losses(1).item<double>()));
  CHECK(losses(2).item<double>() == 0);
  CHECK_FALSE(std::signbit(losses(2).item<double>()));  // no -0
  const Tensor dx = tape.gradient(losses, x);
  CHECK(all(dx(all, 0) == 0));
  CHECK(allclose(sum(dx(all, 1)), tensor<double>({-3.0})(0)));
  CHECK(all(dx(all, 2) == 0));
  const Tensor sure = where(one_hot(tensor({{1}, {0}, {2}}), 4, DType::boolean), 0.0, -infinity);
  CHECK(ctc_loss(sure, tensor({{1, 2}}), tensor({3}), tensor({2})).item<float>() == 0);
}

TEST_CASE("ctc_loss refuses shapes, classes and lengths that do not fit") {
  const Tensor x = log_softmax(zeros({3, 2, 4})), labels = tensor({{1, 2}, {3, 3}});
  const Tensor steps = tensor({3, 3}), counts = tensor({2, 1});
  CHECK(std::isfinite(ctc_loss(x, labels, steps, counts, {.blank = 0}).item<float>()));
  check_refused<ShapeError>([&] { ctc_loss(x(0), labels, steps, counts); },
                            "ctc_loss: log_probs: expected [time, batch, classes], got (2, 4)");
  check_refused<ShapeError>([&] { ctc_loss(x, labels(0), steps, counts); },
                            "labels: expected [batch, longest] with the batch of log_probs, 2");
  check_refused<ShapeError>([&] { ctc_loss(x, labels(range(0, 1)), steps, counts); },
                            "labels: expected [batch, longest] with the batch of log_probs, 2");
  check_refused<ShapeError>([&] { ctc_loss(x, labels, tensor({3}), counts); },
                            "input_lengths: expected (2,), got (1,)");
  check_refused<ShapeError>(
      [&] {
        ctc_loss(x, labels, steps, tensor({{2, 1}}));
      },
      "label_lengths: expected (2,), got (1, 2)");
  check_refused<IndexError>([&] { ctc_loss(x, labels, steps, counts, {.blank = -1}); },
                            "blank: expected 0 to 3, got -1");
  check_refused<IndexError>([&] { ctc_loss(x, labels, steps, counts, {.blank = 4}); },
                            "blank: expected 0 to 3, got 4");
  CHECK(std::isfinite(ctc_loss(x, labels - 1, steps, counts, {.blank = 3}).item<float>()));
  for (const auto& [taken, written] : {std::pair(tensor({4, 3}), counts),
                                       {tensor({-1, 3}), counts},
                                       {steps, tensor({3, 1})},
                                       {steps, tensor({2, -1})}}) {
    CHECK_THROWS_AS(ctc_loss(x, labels, taken, written).item<float>(), IndexError);
  }
  check_refused<IndexError>(
      [&] {
        ctc_loss(x, labels, tensor({3, -1}), counts);
      },
      "ctc_loss: input_lengths: expected 0 to 3, got -1 at [1]");
  check_refused<IndexError>(
      [&] {
        ctc_loss(x, labels, steps, tensor({3, 0}));
      },
      "ctc_loss: label_lengths: expected 0 to 2, got 3 at [0]");
  check_refused<IndexError>(
      [&] {
        ctc_loss(x, tensor({{1, 2}, {-2, 9}}), steps, counts);
      },
      "ctc_loss: labels: expected 0 to 3, got -2 at [1, 0]");
  check_refused<DTypeError>([&] { ctc_loss(x, labels, ones({2}), counts); },
                            "ctc_loss: input_lengths: expected uint8, int32 or int64");
}

TEST_CASE("ctc_loss takes integers as float32, and lengths of any integer dtype") {
  const Tensor scores = tensor({{{0, -1}}, {{-2, 0}}}), labels = tensor({{1}});
  const Tensor loss = ctc_loss(scores, labels, tensor({2}), tensor({1}));
  CHECK(loss.dtype() == float32);
  CHECK(loss.item<float>() ==
        ctc_loss(scores.to(float32), labels.to(uint8), tensor({2}).to(uint8), tensor({1}).to(int64))
            .item<float>());
  CHECK(ctc_loss(scores.to(float64), labels, tensor({2}), tensor({1})).dtype() == float64);
  // The paths are 01, 10 and 11.
  CHECK(loss.item<float>() == Approx(-std::log(1 + std::exp(-3.0) + std::exp(-1.0))));
}

TEST_CASE("a network learns a sequence by ctc_loss") {
  const GeneratorScope scope(Generator(3));
  Variable scores("scores", random::normal({6, 1, 4}));
  const Tensor labels = tensor({{3, 1, 1}});
  float last = 0;
  for (int i = 0; i < 60; ++i) {
    GradientTape tape;
    const Tensor loss = ctc_loss(log_softmax(scores), labels, tensor({6}), tensor({3}));
    last = loss.item<float>();
    scores.assign_sub(3 * tape.gradient(loss, scores));
  }
  CHECK(last < 0.05f);
}

TEST_CASE("infinite losses count as 0 if asked, and have no gradient") {
  const Variable x("x", log_softmax(random::normal({3, 2, 4}, {.dtype = float64})));
  const Tensor labels = tensor({{1, 1, 2}, {1, 2, 3}}), counts = tensor({3, 3});
  const Tensor steps = tensor({3, 3});
  GradientTape tape;
  const Tensor losses =
      ctc_loss(x, labels, steps, counts, {.reduction = Reduction::none, .zero_infinity = true});
  CHECK(losses(0).item<double>() == 0);
  CHECK(equal(losses(1), ctc_loss(x, labels, steps, counts, {.reduction = Reduction::none})(1)));
  CHECK(ctc_loss(x, labels, steps, counts, {.zero_infinity = true}).item<double>() ==
        Approx(losses(1).item<double>() / 6));
  const Tensor dx = tape.gradient(losses, x);
  CHECK(all(dx(all, 0) == 0));
  CHECK(sum(dx(all, 1)).item<double>() == Approx(-3));
}
}  // namespace reel::tests
