// SPDX-License-Identifier: BSD-3-Clause
// Distributions and random choices against what is known of them, with fixed seeds.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr int count = 20'000;
/// The statistic of Kolmogorov and Smirnov times the root of the number. Of 1000 samples of the
/// distribution, one has more than 1.95.
double distance(const Tensor& drawn, const std::function<double(double)>& distribution) {
  std::vector<double> x = drawn.to(DType::float64).to_vector<double>();
  std::sort(x.begin(), x.end());
  const auto n = static_cast<double>(x.size());
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = distribution(x[i]), before = static_cast<double>(i) / n;
    most = std::max({most, p - before, before + 1 / n - p});
  }
  return most * std::sqrt(n);
}
/// The sum of (seen - expected)^2 / expected over the classes that can be drawn.
double chi_square(const Tensor& counts, const std::vector<double>& shares) {
  const auto seen = counts.to_vector<std::int64_t>();
  std::int64_t all = 0;
  for (std::int64_t each : seen) all += each;
  double sum = 0;
  for (std::size_t k = 0; k < shares.size(); ++k) {
    const double expected = shares[k] * static_cast<double>(all);
    if (shares[k] == 0)
      CHECK(seen[k] == 0);
    else
      sum += std::pow(static_cast<double>(seen[k]) - expected, 2) / expected;
  }
  return sum;
}
double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
/// The distribution function of the gamma distribution, by the series of the incomplete gamma
/// function.
double gamma_below(double alpha, double x) {
  if (x <= 0) return 0;
  double term = std::exp(alpha * std::log(x) - x - std::lgamma(alpha + 1)), sum = 0;
  for (int k = 1; k < 10'000 && term > sum * 1e-17; ++k) {
    sum += term;
    term *= x / (alpha + k);
  }
  return sum;
}
constexpr DType floats[] = {DType::float32, DType::float64};
}  // namespace

TEST_CASE("exponential and gumbel numbers have their distributions") {
  for (const DType dtype : floats) {
    const GeneratorScope scope(Generator(1));
    const Tensor e = random::exponential({count}, {.scale = 2, .dtype = dtype});
    CHECK(e.dtype() == dtype);
    CHECK(distance(e, [](double x) { return 1 - std::exp(-x / 2); }) < 1.95);
    CHECK(mean(e).to(DType::float64).item<double>() == Approx(2).epsilon(0.03));
    CHECK(all(e > 0));
    const Tensor g = random::gumbel({count}, {.location = 1, .scale = 3, .dtype = dtype});
    CHECK(distance(g, [](double x) { return std::exp(-std::exp(-(x - 1) / 3)); }) < 1.95);
    CHECK(mean(g).to(DType::float64).item<double>() == Approx(1 + 3 * 0.5772157).margin(0.12));
    CHECK(var(g).to(DType::float64).item<double>() == Approx(9 * M_PI * M_PI / 6).epsilon(0.05));
    CHECK(all(isfinite(random::gumbel({1 << 20}, {.dtype = dtype}))));
  }
}

TEST_CASE("truncated normal numbers have their distribution, also far out") {
  const GeneratorScope scope(Generator(2));
  const double infinity = std::numeric_limits<double>::infinity();
  const double bounds[][2] = {{-2, 2}, {0, 1},   {-infinity, infinity}, {1.5, infinity}, {3, 3.5},
                              {7, 9},  {-9, -7}, {-infinity, -4},       {-0.1, 6},       {20, 21}};
  for (const DType dtype : floats)
    for (const auto& [low, high] : bounds) {
      INFO(low << " to " << high);
      const Tensor x = random::truncated_normal(
          {count}, {.mean = 3, .stddev = 0.5, .low = low, .high = high, .dtype = dtype});
      const bool right = low > 0;  // probabilities of the upper tail, which keep their digits
      const double from = normal_below(right ? -high : low), to = normal_below(right ? -low : high);
      const auto distribution = [&](double v) {
        const double z = (v - 3) / 0.5;
        const double share = (normal_below(right ? -z : z) - from) / (to - from);
        return right ? 1 - share : share;
      };
      CHECK(distance(x, distribution) < 1.95);
      CHECK(all(x >= 3 + 0.5 * low - 1e-5));
      CHECK(all(x <= 3 + 0.5 * high + 1e-5));
    }
  CHECK(equal(random::truncated_normal({5}, {.mean = 2, .stddev = 0}), full({5}, 2.0f)));
  const Tensor beyond = random::truncated_normal({9}, {.low = 50, .high = 51, .dtype = float64});
  CHECK(all((beyond >= 50) & (beyond <= 51)));
}

TEST_CASE("gamma numbers have their distribution for small and large parameters") {
  for (const DType dtype : floats)
    for (const double alpha : {0.05, 0.3, 0.99, 1.0, 2.5, 30.0, 400.0}) {
      INFO("alpha " << alpha);
      const GeneratorScope scope(Generator(3));
      const Tensor x = random::gamma(alpha, {count}, {.scale = 2, .dtype = dtype});
      // float32 has no numbers below 1e-45, which small parameters give
      if (alpha > 0.1 || dtype == DType::float64)
        CHECK(distance(x, [&](double v) { return gamma_below(alpha, v / 2); }) < 1.95);
      CHECK(mean(x).to(DType::float64).item<double>() == Approx(2 * alpha).epsilon(0.1));
      CHECK(var(x).to(DType::float64).item<double>() == Approx(4 * alpha).epsilon(0.25));
    }
  CHECK(random::gamma(2, {0, 3}).shape() == Shape({0, 3}));
  CHECK(random::gamma(2, {}).rank() == 0);
}

TEST_CASE("beta numbers have their distribution, and no NaN where both parameters are tiny") {
  struct Known {
    double a, b;
    double (*below)(double);
  };
  const Known known[] = {{1, 1, [](double x) { return x; }},
                         {3, 1, [](double x) { return x * x * x; }},
                         {1, 4, [](double x) { return 1 - std::pow(1 - x, 4); }},
                         {2, 2, [](double x) { return x * x * (3 - 2 * x); }},
                         {0.5, 0.5, [](double x) { return 2 / M_PI * std::asin(std::sqrt(x)); }}};
  for (const DType dtype : floats)
    for (const Known& each : known) {
      INFO(each.a << ", " << each.b);
      const GeneratorScope scope(Generator(4));
      const Tensor x = random::beta(each.a, each.b, {count}, {.dtype = dtype});
      CHECK(distance(x, each.below) < 1.95);
      CHECK(all((x >= 0) & (x <= 1)));
    }
  const GeneratorScope scope(Generator(5));
  const Tensor ends = random::beta(1e-4, 1e-4, {1000}, {.dtype = float64});
  CHECK(all((ends >= 0) & (ends <= 1)));
  CHECK(mean(ends).item<double>() == Approx(0.5).margin(0.06));
  const Tensor middle = random::beta(1e9, 1e9, {1000}, {.dtype = float64});
  CHECK(all(abs(middle - 0.5) < 1e-4));
}

TEST_CASE("a draw depends on its place in the stream alone, and takes the blocks it says") {
  Generator generator(6);
  const GeneratorScope scope(generator);
  const auto blocks = [&](const auto& draw) {
    generator.set_position(0);
    draw();
    return generator.position();
  };
  CHECK(blocks([] { random::exponential({5}); }) == 2);
  CHECK(blocks([] { random::gumbel({5}, {.dtype = float64}); }) == 3);
  CHECK(blocks([] { random::truncated_normal({8}); }) == 2);
  CHECK(blocks([] { random::gamma(0.5, {7}); }) == 7);
  CHECK(blocks([] { random::beta(2, 3, {7}, {.dtype = float64}); }) == 7);
  CHECK(blocks([] { random::categorical(ones({6, 3})); }) == 3);
  generator.set_position(0);
  const Tensor all_of = random::gamma(0.7, {1000});
  generator.set_position(400);
  CHECK(equal(random::gamma(0.7, {600}), all_of(range(400, 1000))));
}

TEST_CASE("categorical draws each class with its probability") {
  const GeneratorScope scope(Generator(7));
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> shares = {0, 0.1, 0.2, 0, 0.7, 0};
  const Tensor logits = log(tensor(shares)) + 1000;
  const Tensor one = random::categorical(broadcast_to(logits, {30'000, 6}));
  CHECK(one.dtype() == DType::int64);
  CHECK(one.shape() == Shape({30'000}));
  CHECK(chi_square(bincount(one, 6), shares) < 13.8);  // 2 degrees of freedom, 0.1%
  const Tensor many = random::categorical(logits, 30'000);
  CHECK(many.shape() == Shape({30'000}));
  CHECK(chi_square(bincount(many, 6), shares) < 13.8);

  const Tensor rows = random::categorical(
      tensor({{{0.0, -infinity, -infinity}, {-infinity, 0.0, 0.0}}}).to(DType::float32), 500);
  CHECK(rows.shape() == Shape({1, 2, 500}));
  CHECK(all(rows(0, 0) == 0));
  CHECK(sum(rows(0, 1) == 1).item<std::int64_t>() == Approx(250).margin(45));
  CHECK(all(rows(0, 1) > 0));
  CHECK(random::categorical(ones({0, 4})).shape() == Shape({0}));
  CHECK(random::categorical(ones({3, 4}), 0).shape() == Shape({3, 0}));
  CHECK(random::categorical(tensor({5.0})).item<std::int64_t>() == 0);
  CHECK(all(random::categorical(tensor({{3, 3}, {1, 1}}), 9) < 2));
}

TEST_CASE("categorical refuses rows without probabilities") {
  const GeneratorScope scope(Generator(8));
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor certain =
      random::categorical(tensor({{0.0, -infinity}, {-infinity, 0.0}, {-infinity, 3.0}}), 50);
  CHECK(equal(certain, broadcast_to(tensor({{0}, {1}, {1}}), {3, 50})));
  for (const auto& wrong :
       {tensor({nan, 0.0}), tensor({-infinity, -infinity}), tensor({infinity, 0.0})}) {
    const Tensor logits = stack({zeros({2}), wrong});
    const double largest = cast(max(wrong), float64).item<double>();
    check_refused<Error>([&] { random::categorical(logits, 50); },
                         "categorical: logits: expected rows whose largest number is finite, got " +
                             fmt::format("{}", largest));
  }
}

TEST_CASE("many rows of categorical are drawn from their own probabilities") {
  const GeneratorScope scope(Generator(9));
  const Tensor classes = arange(0, 50'000) % 7;
  const Tensor sure = where(one_hot(classes, 7, DType::boolean), 0.0, -1e9);
  CHECK(equal(random::categorical(sure), classes));
  CHECK(equal(random::categorical(sure, 2)(all, 1), classes));
}

TEST_CASE("shuffle moves whole slices") {
  const GeneratorScope scope(Generator(10));
  const Tensor x = reshape(arange(0, 60), {3, 4, 5});
  for (const int axis : {0, 1, -1}) {
    const Tensor y = random::shuffle(x, axis);
    CHECK(y.shape() == x.shape());
    CHECK(equal(sort(y, axis), x));
    const Tensor offsets = y - x;
    CHECK(equal(max(offsets, axis == 0   ? Axes{1, 2}
                             : axis == 1 ? Axes{0, 2}
                                         : Axes{0, 1}),
                min(offsets, axis == 0   ? Axes{1, 2}
                             : axis == 1 ? Axes{0, 2}
                                         : Axes{0, 1})));
  }
  CHECK_FALSE(equal(random::shuffle(arange(0, 100)), arange(0, 100)));
  CHECK(random::shuffle(zeros({0, 2})).shape() == Shape({0, 2}));
}

TEST_CASE("choice draws slices with and without replacement, with and without weights") {
  const GeneratorScope scope(Generator(11));
  const Tensor x = arange(0, 4);
  const std::vector<double> even(4, 0.25), uneven = {0.5, 0, 0.125, 0.375};
  const Tensor weights = tensor(uneven) * 16;
  CHECK(chi_square(bincount(random::choice(x, 40'000), 4), even) < 16.3);
  CHECK(chi_square(bincount(random::choice(x, 40'000, {.weights = weights}), 4), uneven) < 16.3);
  for (int i = 0; i < 20; ++i) {
    CHECK(equal(sort(random::choice(x, 4, {.replace = false})), x));
    const auto three = random::choice(x, 3, {.weights = weights, .replace = false});
    CHECK(equal(sort(three), tensor({0L, 2L, 3L})));
  }
  // The first of several draws without replacement has the probabilities of the weights.
  std::vector<std::int64_t> first;
  for (int i = 0; i < 3000; ++i)
    first.push_back(
        random::choice(x, 2, {.weights = weights, .replace = false})(0).item<std::int64_t>());
  CHECK(chi_square(bincount(tensor(first), 4), uneven) < 16.3);
  for (const auto& [wrong, text] :
       {std::pair(-1.0, "-1"), {std::nan(""), "nan"}, {HUGE_VAL, "inf"}})
    for (const bool replace : {true, false})
      check_refused<Error>(
          [&, number = wrong] {
            random::choice(x, 2, {.weights = tensor({1.0, 1.0, number, 1.0}), .replace = replace});
          },
          std::string("choice: weights: expected finite numbers of at least 0, got ") + text);
  check_refused<Error>([&] { random::choice(x, 2, {.weights = zeros({4})}); },
                       "choice: weights: expected a positive, finite sum, got 0");
  const Tensor huge = full({4}, 1e308, {.dtype = float64});
  check_refused<Error>([&] { random::choice(x, 2, {.weights = huge}); },
                       "choice: weights: expected a positive, finite sum, got inf");
  CHECK(random::choice(ones({5, 2, 3}), 7).shape() == Shape({7, 2, 3}));
  CHECK(random::choice(x, 0).shape() == Shape({0}));
  CHECK(random::choice(zeros({0, 2}), 0).shape() == Shape({0, 2}));
}

TEST_CASE("a traced function goes on in the stream as an eager one does") {
  const auto step = [](Tensor logits) {
    const Tensor g = random::gamma(0.4, {3}, {.dtype = float64});
    const Tensor b = random::beta(2, 3, {3}, {.dtype = float64});
    const Tensor e = random::exponential({3}) + random::gumbel({3}) + random::truncated_normal({3});
    const Tensor c = random::categorical(logits, 3);
    const Tensor p = random::choice(arange(0, 9), 3, {.weights = exp(arange(0, 9) * 0.1)});
    return g + b + cast(e, float64) + cast(random::shuffle(c + p), float64);
  };
  auto traced = trace(step);
  const Tensor logits = random::normal({4});
  std::vector<Tensor> expected;
  {
    const GeneratorScope scope(Generator(12));
    for (int i = 0; i < 5; ++i) expected.push_back(step(logits));
  }
  const GeneratorScope scope(Generator(12));
  for (int i = 0; i < 5; ++i) CHECK(equal(traced(logits), expected[static_cast<std::size_t>(i)]));
  CHECK_FALSE(equal(expected[3], expected[4]));
}
}  // namespace reel::tests
