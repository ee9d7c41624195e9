// SPDX-License-Identifier: BSD-3-Clause
// Functions of one number against exact values. The errors are within limits, in units of the
// last place: for float32 over a sample of all bit patterns, or over all of them with
// REEL_TEST_LONG. The limit is 2 for float32 and 1 for float64 where a function of this library
// computes, and 4 where xsimd does. Some functions have limits of their own. The reference is the C
// library in float64 and in long double.
#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <limits>
#include <random>
#include <thread>

#include "kernels/kernels.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
template <class Exact>
struct Function {
  const char* op;
  Exact (*exact)(Exact);
  double limit = sizeof(Exact) == sizeof(double) ? 2 : 1;  // units of the last place
  double second = 0;                                       // input 1, if the op has one
  double least = 0;   // the units are those of the result, and at least those of this number
  double growth = 0;  // so many units more at a result of 1 / e, twice as many at 1 / e^2, ...
};
constexpr double elu_alpha = 1.5, leaky_slope = 0.0625;  // exact in float32
template <class X>
X sigmoid(X x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
template <class X>
X elu(X x) {
  return x > 0 ? x : X(elu_alpha) * std::expm1(x);
}
/// x times a distribution function, which is 0 at -infinity.
template <class X>
X of_gate(X x, X gate) {
  return gate == 0 ? -X(0) : x * gate;
}
template <class X>
X gelu(X x) {
  return of_gate(x, std::erfc(-x / std::sqrt(X(2))) / 2);
}
template <class X>
X gelu_tanh(X x) {
  const X pi = std::acos(X(-1));
  return of_gate(x, sigmoid(2 * std::sqrt(2 / pi) * (x + X(0.044715L) * x * x * x)));
}
template <class X>
X leaky_relu(X x) {
  return x > 0 ? x : X(leaky_slope) * x;
}
template <class X>
X silu(X x) {
  return of_gate(x, sigmoid(x));
}
template <class X>
X softplus(X x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
/// The derivative of log gamma: the recurrence up to 16, then the asymptotic series.
template <class X>
X digamma(X x) {
  if (x == 0) return -std::numeric_limits<X>::infinity();
  if (x < 0) {
    const X rest = x - std::nearbyint(x), pi = std::acos(X(-1));
    return rest != 0 ? digamma(1 - x) - pi / std::tan(pi * rest) : X(NAN);
  }
  X sum = 0;
  for (; x < 16; ++x) sum += 1 / x;
  const X w = 1 / (x * x);
  const X series =
      w * (X(1) / 12 -
           w * (X(1) / 120 -
                w * (X(1) / 252 - w * (X(1) / 240 - w * (X(1) / 132 - w * X(691) / 32760)))));
  return std::log(x) - 1 / (2 * x) - series - sum;
}
const Function<double> functions[] = {
    {"abs", [](double x) { return std::abs(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"negative", [](double x) { return -x; }},
    {"relu", [](double x) { return x > 0 || std::isnan(x) ? x : 0.0; }},
    {"sigmoid", sigmoid, 2.5},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"square", [](double x) { return x * x; }},
    {"tanh", [](double x) { return std::tanh(x); }, 2.5},
    {"acos", [](double x) { return std::acos(x); }, 4},
    {"acosh", [](double x) { return std::acosh(x); }, 4},
    {"asin", [](double x) { return std::asin(x); }, 4},
    {"asinh", [](double x) { return std::asinh(x); }, 4},
    {"atan", [](double x) { return std::atan(x); }, 4},
    {"atanh", [](double x) { return std::atanh(x); }, 4},
    {"cos", [](double x) { return std::cos(x); }, 4},
    {"cosh", [](double x) { return std::cosh(x); }, 4},
    {"erf", [](double x) { return std::erf(x); }, 4},
    {"erfc", [](double x) { return std::erfc(x); }, 5},
    {"exp2", [](double x) { return std::exp2(x); }, 4},
    {"expm1", [](double x) { return std::expm1(x); }, 4},
    {"lgamma", [](double x) { return std::lgamma(x); }, 2},
    {"log1p", [](double x) { return std::log1p(x); }, 4},
    {"log2", [](double x) { return std::log2(x); }, 4},
    {"sin", [](double x) { return std::sin(x); }, 4},
    {"sinh", [](double x) { return std::sinh(x); }, 4},
    {"tan", [](double x) { return std::tan(x); }, 4},
    {"digamma", digamma, 1, 0, 32},
    {"elu", elu, 4, elu_alpha},
    {"gelu", gelu, 4, 0, 0, 3},
    {"gelu_tanh", gelu_tanh, 4, 0, 0, 3},
    {"leaky_relu", leaky_relu, 1, leaky_slope},
    {"reciprocal", [](double x) { return 1 / x; }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"silu", silu, 4, 0, 128 * FLT_MIN},
    {"softplus", softplus, 4},
};
const Function<long double> functions64[] = {
    {"exp", [](long double x) { return std::exp(x); }},
    {"log", [](long double x) { return std::log(x); }},
    {"sigmoid", sigmoid},
    {"sqrt", [](long double x) { return std::sqrt(x); }},
    {"tanh", [](long double x) { return std::tanh(x); }},
    {"acos", [](long double x) { return std::acos(x); }, 4},
    {"acosh", [](long double x) { return std::acosh(x); }, 4},
    {"asin", [](long double x) { return std::asin(x); }, 4},
    {"asinh", [](long double x) { return std::asinh(x); }, 4},
    {"atan", [](long double x) { return std::atan(x); }, 4},
    {"atanh", [](long double x) { return std::atanh(x); }, 4},
    {"cos", [](long double x) { return std::cos(x); }, 4},
    {"cosh", [](long double x) { return std::cosh(x); }, 4},
    {"erf", [](long double x) { return std::erf(x); }, 4},
    {"erfc", [](long double x) { return std::erfc(x); }, 5},
    {"exp2", [](long double x) { return std::exp2(x); }, 4},
    {"expm1", [](long double x) { return std::expm1(x); }, 4},
    {"log1p", [](long double x) { return std::log1p(x); }, 4},
    {"log2", [](long double x) { return std::log2(x); }, 4},
    {"sin", [](long double x) { return std::sin(x); }, 4},
    {"sinh", [](long double x) { return std::sinh(x); }, 4},
    {"tan", [](long double x) { return std::tan(x); }, 4},
    {"digamma", digamma, 10, 0, 32},
    {"elu", elu, 4, elu_alpha},
    {"gelu", gelu, 4, 0, 0, 3},
    {"gelu_tanh", gelu_tanh, 4, 0, 0, 3},
    {"leaky_relu", leaky_relu, 1, leaky_slope},
    {"reciprocal", [](long double x) { return 1 / x; }},
    {"rsqrt", [](long double x) { return 1 / std::sqrt(x); }, 2},
    {"silu", silu, 4, 0, 1024 * DBL_MIN},
    {"softplus", softplus, 4},
};

/// The distance from the exact value in units of its last place, or of the last place of `least` if
/// that is larger.
template <class T, class Exact>
double ulps(T got, Exact exact, double least) {
  const auto rounded = static_cast<T>(exact);
  if (std::isnan(rounded) && std::isnan(got)) return 0;
  if (std::isnan(rounded)) return 1e9;
  if (std::signbit(got) != std::signbit(rounded) && !(std::abs(exact) < Exact(least))) return 1e9;
  if (got == rounded && (got == 0 || std::isinf(got))) return 0;
  if (!std::isfinite(got) || !std::isfinite(rounded)) return 1e9;
  int exponent = 0;
  std::frexp(std::max(std::abs(exact), Exact(least)), &exponent);
  constexpr int digits = std::numeric_limits<T>::digits;
  const int place = std::max(exponent, std::numeric_limits<T>::min_exponent) - digits;
  return static_cast<double>(std::abs(static_cast<Exact>(got) - exact) /
                             std::ldexp(Exact(1), place));
}

template <class T>
void run(const InstructionSet& set, const char* op, const std::vector<T>& x, std::vector<T>& y,
         double second = 0) {
  const T number = static_cast<T>(second);
  const void* inputs[] = {x.data(), &number};
  y.resize(x.size());
  find_passes(set, op)->value[static_cast<int>(dtype_of<T>())](static_cast<std::int64_t>(x.size()),
                                                               inputs, 2, y.data());
}

/// The largest error so far, and its argument.
struct Worst {
  double error = 0, at = 0;
  void see(double seen, double x) {
    if (seen <= error) return;
    error = seen;
    at = x;
  }
};
using WorstOfSets = std::vector<Worst>;  // in the order of instruction_sets()

template <class T, class Exact>
void see_all(const Function<Exact>& function, const std::vector<T>& x, WorstOfSets& worst) {
  std::vector<Exact> exact;
  for (const T value : x) exact.push_back(function.exact(static_cast<Exact>(value)));
  std::vector<T> y;
  std::size_t number = 0;
  for (const InstructionSet& set : kernels::instruction_sets()) {
    Worst& here = worst[number++];
    if (!set.supported()) continue;
    run(set, function.op, x, y, function.second);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double size = static_cast<double>(std::abs(exact[i]));
      const double more = size > 0 && size < 1 ? function.growth * -std::log(size) : 0;
      here.see(ulps(y[i], exact[i], function.least) - more, static_cast<double>(x[i]));
    }
  }
}
void check(const char* op, const WorstOfSets& worst, double limit) {
  std::size_t number = 0;
  for (const InstructionSet& set : kernels::instruction_sets()) {
    const Worst& here = worst[number++];
    INFO(op << " on " << set.name << ": " << here.error << " units of the last place at "
            << std::setprecision(17) << here.at);
    CHECK(here.error <= limit);
  }
}
WorstOfSets no_errors() { return WorstOfSets(std::size(kernels::instruction_sets())); }

float from_bits(std::uint64_t bits) {
  const auto pattern = static_cast<std::uint32_t>(bits);
  float value = 0;
  std::memcpy(&value, &pattern, sizeof value);
  return value;
}

/// Every 8111th bit pattern, which includes NaN, infinities and subnormals, and values where the
/// formulas change.
std::vector<float> sample() {
  // At the last value a quotient without fused multiply-add once had an error of 2.18 units.
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, NAN, 0.19420378f};
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 8111)
    values.push_back(from_bits(bits));
  for (int i = -110'000; i < 110'000; ++i) values.push_back(static_cast<float>(i) * 0.001f);
  return values;
}

/// All 2^32 bit patterns, divided into blocks among threads.
WorstOfSets over_all_patterns(const Function<double>& function) {
  constexpr std::uint64_t block = 1 << 20, all = std::uint64_t{1} << 32;
  std::atomic<std::uint64_t> next = 0;
  std::vector<WorstOfSets> found(std::max(1u, std::thread::hardware_concurrency()), no_errors());
  std::vector<std::thread> threads;
  for (WorstOfSets& worst : found)
    threads.emplace_back([&] {
      std::vector<float> x(block);
      for (std::uint64_t first; (first = next.fetch_add(block)) < all;) {
        for (std::uint64_t i = 0; i < block; ++i) x[i] = from_bits(first + i);
        see_all(function, x, worst);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const WorstOfSets& worst : found)
    for (std::size_t i = 0; i < worst.size(); ++i) found[0][i].see(worst[i].error, worst[i].at);
  return found[0];
}

/// Numbers of every exponent and both signs, numbers in the ranges where functions change, and
/// numbers next to the points where a formula is replaced by another one.
std::vector<double> sample64() {
  std::vector<double> values{0.0, -0.0, INFINITY, -INFINITY, NAN, DBL_MIN, DBL_TRUE_MIN, DBL_MAX};
  std::mt19937_64 random(11);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const int count = std::getenv("REEL_TEST_LONG") ? 2'000'000 : 20'000;
  const double ranges[][2] = {{-0.2, 0.2}, {-1, 1},     {-4, 4},      {-25, 25},
                              {0.5, 2},    {-745, 710}, {-746, -700}, {0, 1e300}};
  for (const auto& [low, high] : ranges)
    for (int i = 0; i < count; ++i) values.push_back(uniform(low, high));
  for (int i = 0; i < 4 * count; ++i)
    values.push_back(std::ldexp(uniform(-2, 2), static_cast<int>(random() % 2098) - 1074));
  for (double edge : {0.1875, 0.34657359027997264, 0.70710678118654752, 1.0, 1.4142135623730951,
                      20.0, 37.0, 708.4, 709.78, 745.13})
    for (int sign : {-1, 1}) {
      double x = sign * (edge - 100 * (std::nextafter(edge, 1e9) - edge));
      for (int i = 0; i < 200; ++i, x = std::nextafter(x, sign * 1e9)) values.push_back(x);
    }
  return values;
}

/// Runs of adjacent numbers at many places.
std::vector<double> adjacent_numbers() {
  std::mt19937_64 random(12);
  std::vector<double> values;
  for (int i = 0; i < (std::getenv("REEL_TEST_LONG") ? 200'000 : 4'000); ++i) {
    double x = std::uniform_real_distribution<double>(0, i % 3 ? 1 : 24)(random);
    if (i % 5 == 0) x = std::ldexp(x, -static_cast<int>(random() % 30));
    if (i < 4) x = 0.1875 - i * 8 * DBL_EPSILON / 8;
    for (int k = 0; k < 32; ++k, x = std::nextafter(x, 100)) values.push_back(x);
  }
  std::sort(values.begin(), values.end());
  return values;
}
}  // namespace

TEST_CASE("functions of float32 are accurate to some units of the last place") {
  const std::vector<float> x = sample();
  for (const Function<double>& function : functions) {
    WorstOfSets worst = no_errors();
    see_all(function, x, worst);
    if (std::getenv("REEL_TEST_LONG")) worst = over_all_patterns(function);
    check(function.op, worst, function.limit);
  }
}

TEST_CASE("functions of float64 are accurate to some units of the last place") {
  if (std::numeric_limits<long double>::digits < 64) SKIP("long double has no more places");
  const std::vector<double> x = sample64();
  for (const Function<long double>& function : functions64) {
    WorstOfSets worst = no_errors();
    see_all(function, x, worst);
    check(function.op, worst, function.limit);
  }
}

TEST_CASE("functions of float64 never fall, and tanh is never larger than its argument") {
  const std::vector<double> x = adjacent_numbers();
  std::vector<double> y;
  for_each_set([&](const InstructionSet& set) {
    for (const char* op : {"exp", "log", "sigmoid", "sqrt", "tanh"}) {
      run(set, op, x, y);
      for (std::size_t i = 1; i < x.size(); ++i)
        if (y[i] < y[i - 1]) FAIL_CHECK(op << " falls on " << set.name << " at " << x[i]);
    }
    std::vector<double> small = x, mirrored;
    for (int exponent = -1074; exponent < 0; ++exponent)
      for (double part : {1.0, 1.1, 1.999}) small.push_back(std::ldexp(part, exponent));
    run(set, "tanh", small, y);
    for (std::size_t i = 0; i < small.size(); ++i)
      if (!(y[i] <= small[i] && y[i] >= 0)) FAIL_CHECK(set.name << ": tanh " << small[i]);
    for (double& value : small) value = -value;
    run(set, "tanh", small, mirrored);
    for (double& value : mirrored) value = -value;
    CHECK(mirrored == y);
  });
}
}  // namespace reel::tests
