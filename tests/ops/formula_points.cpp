// SPDX-License-Identifier: BSD-3-Clause
// Formulas at the points where they choose between two ways, against values in float64.
#include <cfenv>
#include <cmath>
#include <limits>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
using Vector = std::vector<double>;
constexpr DType floats[] = {DType::float32, DType::float64};

Tensor row(const Vector& x, DType dtype) {
  return from_span(x, {static_cast<std::int64_t>(x.size())}).to(dtype);
}
Vector values(const Tensor& x) { return x.to(DType::float64).to_vector<double>(); }
/// The gradients of f(x, y) for both, by the passes of the CPU, or by ops where another tape
/// listens.
template <class F>
std::vector<Vector> slopes(const F& f, const Vector& x, const Vector& y, DType dtype,
                           bool listened) {
  const Tensor a = row(x, dtype), b = row(y, dtype);
  GradientTape outer;
  if (listened) outer.watch(a);
  GradientTape tape;
  tape.watch(a);
  tape.watch(b);
  const std::vector<Tensor> found = tape.gradient(f(a, b), {a, b});
  return {values(found[0]), values(found[1])};
}
void check_near(const Vector& found, const Vector& expected, DType dtype) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(name_of(dtype) << ", element " << i);
    CHECK(found[i] == Approx(expected[i]).epsilon(dtype == DType::float32 ? 1e-5 : 1e-13));
  }
}

/// Philox4x32-10, from its paper.
struct Words {
  std::uint32_t at[4];
};
Words philox_words(Words x, std::uint64_t key) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * x.at[0],
                        b = std::uint64_t{0xCD9E8D57} * x.at[2];
    x = {{static_cast<std::uint32_t>(b >> 32) ^ x.at[1] ^ k0, static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ x.at[3] ^ k1, static_cast<std::uint32_t>(a)}};
  }
  return x;
}
/// (word + 1/2) / 2^32
double unit(std::uint32_t word) { return std::ldexp(static_cast<double>(word) + 0.5, -32); }
/// The logarithm of a gamma number by the method of Marsaglia and Tsang. Its random words have the
/// counter (number, attempt, series).
double log_gamma_number(double alpha, std::uint64_t seed, std::uint64_t number,
                        std::uint32_t series) {
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1 / 3.0, c = 1 / std::sqrt(9 * d);
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Words words = philox_words({{static_cast<std::uint32_t>(number),
                                       static_cast<std::uint32_t>(number >> 32), attempt, series}},
                                     seed);
    const double normal =
        std::sqrt(-2 * std::log(unit(words.at[0]))) * std::cos(2 * M_PI * unit(words.at[1]));
    const double v = std::pow(1 + c * normal, 3);
    if (v <= 0) continue;
    if (std::log(unit(words.at[2])) < normal * normal / 2 + d * (1 - v + std::log(v)))
      return std::log(d * v) + (alpha < 1 ? std::log(unit(words.at[3])) / alpha : 0);
  }
}
}  // namespace

TEST_CASE("logaddexp, hypot and atan2 have these gradients where arguments are equal, 0 or 1") {
  for (const DType dtype : floats)
    for (const bool listened : {false, true}) {
      INFO(name_of(dtype) << ", listened " << listened);
      const auto sums = slopes([](Tensor a, Tensor b) { return logaddexp(a, b); },
                               {0, 2, -3, inf, -inf, 1}, {0, 2, -3, inf, -inf, 0}, dtype, listened);
      const double share = 1 / (1 + std::exp(-1.0));
      check_near(sums[0], {.5, .5, .5, .5, .5, share}, dtype);
      check_near(sums[1], {.5, .5, .5, .5, .5, 1 - share}, dtype);
      const auto lengths = slopes([](Tensor a, Tensor b) { return hypot(a, b); },
                                  {0, 1, 0, -1, 3, 0}, {0, 0, 1, 0, 4, -0.0}, dtype, listened);
      check_near(lengths[0], {0, 1, 0, -1, 0.6, 0}, dtype);
      check_near(lengths[1], {0, 0, 1, 0, 0.8, 0}, dtype);
      const auto angles = slopes([](Tensor a, Tensor b) { return atan2(a, b); },
                                 {0, 1, 0, -1, 3, 0}, {0, 0, 1, 0, 4, -1}, dtype, listened);
      check_near(angles[0], {0, 0, 1, 0, 4 / 25.0, -1}, dtype);   // x / r^2
      check_near(angles[1], {0, -1, 0, 1, -3 / 25.0, 0}, dtype);  // -y / r^2
    }
}

TEST_CASE("binary cross-entropy is bounded at 100, not before and not behind") {
  for (const DType dtype : floats) {
    const auto loss = [&](double x, double y) {
      return values(binary_cross_entropy(row({x}, dtype), row({y}, dtype), Reduction::none))[0];
    };
    CHECK(loss(std::exp(-100.5), 1) == 100);
    CHECK(loss(std::exp(-101.5), 1) == 100);
    CHECK(loss(std::exp(-87.0), 1) == Approx(87).epsilon(1e-6));
    CHECK(loss(0, 1) == 100);
    CHECK(loss(1, 0) == 100);
    CHECK(loss(1, 1) == 0);
    CHECK(std::isnan(loss(2, 0)));  // no probability: log(1 - 2)
  }
  CHECK(values(binary_cross_entropy(row({std::exp(-99.5)}, DType::float64),
                                    row({1}, DType::float64)))[0] == Approx(99.5));
}

TEST_CASE("lgamma and digamma of ordinary positive numbers divide nothing by zero") {
  for (const DType dtype : floats)
    for (const Vector& x :
         {Vector{0.25, 0.5, 1, 2, 3, 7, 12, 30}, Vector{1, 2, 3, 4, 5, 6, 7, 8}}) {
      const Tensor at = row(x, dtype);
      std::feclearexcept(FE_ALL_EXCEPT);
      const Tensor a = lgamma(at), b = digamma(at);
      CHECK(std::fetestexcept(FE_DIVBYZERO) == 0);
      for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(values(a)[i] == Approx(std::lgamma(x[i])).epsilon(1e-5).margin(1e-12));
    }
}

TEST_CASE("polygamma is exact to the last digits in float64") {
  // zeta(2) and -2 zeta(3), and the same less their first terms
  const Vector found = values(polygamma(1, row({1, 2, 3}, DType::float64)));
  const double zeta2 = M_PI * M_PI / 6, zeta3 = 1.2020569031595942854;
  check_near(found, {zeta2, zeta2 - 1, zeta2 - 1.25}, DType::float64);
  check_near(values(polygamma(2, row({1, 2}, DType::float64))), {-2 * zeta3, 2 - 2 * zeta3},
             DType::float64);
}

TEST_CASE("of equal largest elements cummax keeps the first, so the sign of a zero stays") {
  for (const DType dtype : floats) {
    const Vector plus = values(cummax(row({0.0, -0.0, -1}, dtype)));
    const Vector minus = values(cummax(row({-0.0, 0.0, -1}, dtype)));
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(plus[i] == 0);
      CHECK_FALSE(std::signbit(plus[i]));
      CHECK(minus[i] == 0);
      CHECK(std::signbit(minus[i]));
    }
  }
}

TEST_CASE("a number on the edge of a part of a histogram is in the part above") {
  // (x - low) * bins / (high - low) is rounded to a number below 1 and below 2
  const double first = -1 + 1 * (2.0 / 6), second = 0.7 / 3 * 2;
  CHECK(equal(histogram(tensor<double>({first}), 6, -1, 1),
              tensor<std::int64_t>({0, 1, 0, 0, 0, 0})));
  CHECK(equal(histogram(tensor<double>({second}), 3, 0, 0.7), tensor<std::int64_t>({0, 0, 1})));
  // the sum of the bounds is nearly 0
  CHECK(equal(histogram(tensor<double>({0.5, -1, 0}), 4, -1, 1 - std::ldexp(1.0, -40)),
              tensor<std::int64_t>({1, 0, 1, 1})));
}

TEST_CASE("gamma and beta numbers are those of the method, word for word") {
  constexpr std::uint64_t seed = 0x123456789abcdef0;
  for (const double alpha : {0.3, 1.0, 2.5, 30.0}) {
    INFO("alpha " << alpha);
    const GeneratorScope scope{Generator(seed)};
    const Vector drawn = values(random::gamma(alpha, {500}, {.dtype = DType::float64}));
    for (std::size_t i = 0; i < drawn.size(); ++i)
      CHECK(drawn[i] == Approx(std::exp(log_gamma_number(alpha, seed, i, 0))).epsilon(1e-10));
  }
  const GeneratorScope scope{Generator(seed)};
  const Vector drawn = values(random::beta(0.7, 2.5, {500}, {.dtype = DType::float64}));
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double a = log_gamma_number(0.7, seed, i, 0), b = log_gamma_number(2.5, seed, i, 1);
    CHECK(drawn[i] == Approx(1 / (1 + std::exp(b - a))).epsilon(1e-10));
  }
}
}  // namespace reel::tests
