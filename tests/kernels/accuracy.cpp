// SPDX-License-Identifier: BSD-3-Clause
// Functions of one number against exact values: those of float32 at most 2 units of the last place
// off, over a sample of all bit patterns (every pattern with REEL_TEST_LONG), those of float64 at
// most 1. The C library is the reference, in float64 and in long double.
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
};
const Function<double> functions[] = {
    {"abs", [](double x) { return std::abs(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"negative", [](double x) { return -x; }},
    {"relu", [](double x) { return x > 0 || std::isnan(x) ? x : 0.0; }},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"square", [](double x) { return x * x; }},
    {"tanh", [](double x) { return std::tanh(x); }},
};
const Function<long double> functions64[] = {
    {"exp", [](long double x) { return std::exp(x); }},
    {"log", [](long double x) { return std::log(x); }},
    {"sigmoid",
     [](long double x) {
       return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
     }},
    {"sqrt", [](long double x) { return std::sqrt(x); }},
    {"tanh", [](long double x) { return std::tanh(x); }},
};

/// Distance in units of the last place of the exact value.
template <class T, class Exact>
double ulps(T got, Exact exact) {
  const auto rounded = static_cast<T>(exact);
  if (std::isnan(rounded) && std::isnan(got)) return 0;
  if (std::isnan(rounded) || std::signbit(got) != std::signbit(rounded)) return 1e9;
  if (got == rounded && (got == 0 || std::isinf(got))) return 0;
  if (!std::isfinite(got) || !std::isfinite(rounded)) return 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  constexpr int digits = std::numeric_limits<T>::digits;
  const int place = std::max(exponent, std::numeric_limits<T>::min_exponent) - digits;
  return static_cast<double>(std::abs(static_cast<Exact>(got) - exact) /
                             std::ldexp(Exact(1), place));
}

template <class T>
void run(const InstructionSet& set, const char* op, const std::vector<T>& x, std::vector<T>& y) {
  const void* inputs[] = {x.data()};
  y.resize(x.size());
  find_tiles(set, op)->value[static_cast<int>(dtype_of<T>())](static_cast<std::int64_t>(x.size()),
                                                              inputs, 0, y.data());
}

/// The largest error so far, and where.
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
    run(set, function.op, x, y);
    for (std::size_t i = 0; i < x.size(); ++i)
      here.see(ulps(y[i], exact[i]), static_cast<double>(x[i]));
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

/// Every 2039th bit pattern (NaN, infinities and subnormals among them), and where the formulas
/// change.
std::vector<float> sample() {
  // The last is where a quotient without fused products was once 2.18 units off.
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, NAN, 0.19420378f};
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 2039)
    values.push_back(from_bits(bits));
  for (int i = -110'000; i < 110'000; ++i) values.push_back(static_cast<float>(i) * 0.001f);
  return values;
}

/// All 2^32 patterns, in blocks that threads take.
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

/// Numbers of every exponent and both signs, those of the ranges in which functions change, and
/// neighbours of where they change their way.
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

/// Runs of neighbouring numbers from many places on.
std::vector<double> neighbours() {
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

TEST_CASE("functions of float32 are at most 2 units of the last place off") {
  for (const Function<double>& function : functions) {
    WorstOfSets worst = no_errors();
    see_all(function, sample(), worst);
    if (std::getenv("REEL_TEST_LONG")) worst = over_all_patterns(function);
    check(function.op, worst, 2);
  }
}

TEST_CASE("functions of float64 are at most 1 unit of the last place off") {
  if (std::numeric_limits<long double>::digits < 64) SKIP("long double has no more places");
  const std::vector<double> x = sample64();
  for (const Function<long double>& function : functions64) {
    WorstOfSets worst = no_errors();
    see_all(function, x, worst);
    check(function.op, worst, 1);
  }
}

TEST_CASE("functions of float64 never fall, and tanh is never larger than its argument") {
  const std::vector<double> x = neighbours();
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
