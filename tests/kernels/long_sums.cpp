// SPDX-License-Identifier: BSD-3-Clause
// Sums of many terms against exact ones. Errors are counted in half units of the last place of the
// sum of the terms' sizes; at 65,536 terms a single running sum of float32 is off by hundreds.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>

#include <reel/reel.hpp>

#include "kernels/kernels.hpp"
#include "lib/dispatch/op_options.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
const bool in_full = std::getenv("REEL_TEST_LONG") != nullptr;

/// A sum of terms, and of their sizes.
struct Exact {
  long double sum = 0, size = 0;
  void add(long double term) {
    sum += term;
    size += std::abs(term);
  }
  template <class T>
  double error(T got) const {
    const long double half = std::numeric_limits<T>::epsilon() / 2;
    return static_cast<double>(std::abs(static_cast<long double>(got) - sum) / (half * size));
  }
};

/// Uniform in (0, 1), or in (-1, 1).
template <class T>
std::vector<T> drawn(std::int64_t n, unsigned seed, bool positive) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<T> values(positive ? T(0) : T(-1), T(1));
  std::vector<T> all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(values(random));
  return all;
}

struct Shapes {
  std::int64_t n, m;
  bool x_turned, y_turned;
};
// Each way that products go: small and wide tiles, one row, bands of rows, dots from either side,
// transposes, columns, and (of 256 by 256) a library of products.
const Shapes shapes[] = {{4, 3, false, false},    {3, 40, false, false},  {1, 700, false, false},
                         {1, 387, false, false},  {5, 400, false, false}, {64, 128, false, false},
                         {110, 80, false, false}, {70, 90, true, false},  {1, 30, false, true},
                         {2, 9, false, true},     {40, 3, false, false},  {64, 12, true, false},
                         {50, 1, false, false},   {1, 1, false, false},   {64, 64, false, true},
                         {30, 128, true, true}};
const Shapes large = {256, 256, false, false};

template <class T>
void check_product(const InstructionSet& set, const Shapes& s, std::int64_t k, double limit,
                   bool accumulate) {
  for (const bool positive : {true, false}) {
    Array<T> x({s.n, k}, drawn<T>(s.n * k, 1, positive)),
        y({k, s.m}, drawn<T>(k * s.m, 2, positive));
    Array<T> out({s.n, s.m}, T(0.5));
    const Body left = x.view({s.n, k}, {s.x_turned ? 1 : k, s.x_turned ? s.n : 1});
    const Body right = y.view({k, s.m}, {s.y_turned ? 1 : s.m, s.y_turned ? k : 1});
    call_kernel(set, "matmul", {&left, &right}, out.body, nullptr, accumulate);
    double worst = 0;
    for (const std::int64_t i : {std::int64_t{0}, s.n / 2, s.n - 1})
      for (const std::int64_t j : {std::int64_t{0}, s.m / 3, s.m - 1}) {
        Exact exact;
        if (accumulate) exact.add(0.5L);
        for (std::int64_t l = 0; l < k; ++l)
          exact.add(
              static_cast<long double>(left.as<T>()[i * left.strides[0] + l * left.strides[1]]) *
              right.as<T>()[l * right.strides[0] + j * right.strides[1]]);
        worst = std::max(worst, exact.error(out[i * s.m + j]));
      }
    INFO(set.name << (sizeof(T) == 4 ? ", float32: " : ", float64: ") << s.n << " x " << k << " x "
                  << s.m << ", turned " << s.x_turned << s.y_turned << ", positive " << positive
                  << ", accumulate " << accumulate << ": " << worst);
    CHECK(worst <= limit);
  }
}
template <class T>
void check_products(const InstructionSet& set) {
  for (const Shapes& s : shapes)
    for (const bool accumulate : {false, true}) check_product<T>(set, s, 65'536, 16, accumulate);
  check_product<T>(set, large, 16'384, 16, false);
  if (!in_full) return;
  check_product<T>(set, large, 65'536, 16, true);
  for (const Shapes& s : {shapes[0], shapes[2], shapes[4], shapes[8], shapes[10]})
    check_product<T>(set, s, 1'000'000, 32, false);
}

/// The sum of many updates to few places.
template <class T>
void check_scatter(const InstructionSet& set, const char* op, std::int64_t updates,
                   std::int64_t width, bool accumulate) {
  INFO(set.name << ": " << op << " of " << updates << " rows of " << width);
  const bool elements = std::string_view(op) == "scatter_elements";
  Array<T> from({updates, width}, drawn<T>(updates * width, 5, true));
  for (std::int64_t i = 0; i < updates; i += 3) from[i * width] = T(0.1);
  Array<std::int64_t> at(elements ? Shape{updates, width} : Shape{updates});
  const auto place = [&](std::int64_t i) {
    return i % 1000 == 7 ? i / 1000 % 90 : i % 5 == 1 ? 3 : 0;
  };
  for (std::int64_t i = 0; i < updates; ++i)
    if (elements)
      for (std::int64_t j = 0; j < width; ++j) at[i * width + j] = place(i);
    else
      at[i] = place(i);
  Array<T> out({100, width}, T(0.25));
  const UnTakeOptions options{{100, width}, 0};
  call_kernel(set, op, {&from.body, &at.body}, out.body, &options, accumulate);
  for (const std::int64_t j : {std::int64_t{0}, width - 1}) {
    std::vector<Exact> exact(100);
    for (Exact& e : exact) e.add(accumulate ? 0.25L : 0);
    for (std::int64_t i = 0; i < updates; ++i)
      exact[static_cast<std::size_t>(place(i))].add(from[i * width + j]);
    double worst = 0;
    for (std::size_t p = 0; p < 100; ++p)
      if (exact[p].size > 0)
        worst = std::max(worst, exact[p].error(out[static_cast<std::int64_t>(p) * width + j]));
    CHECK(worst <= (updates > 10'000 ? 2 : 64));
  }
}
}  // namespace

TEST_CASE("products of a long k are as exact as blocks make them", "[products]") {
  for_each_set([](const InstructionSet& set) {
    check_products<float>(set);
    check_products<double>(set);
  });
}

TEST_CASE("many updates of one place are rounded once") {
  for_each_set([](const InstructionSet& set) {
    for (const char* op : {"scatter", "scatter_elements"})
      for (const std::int64_t width : {1, 5, 67})
        for (const bool accumulate : {false, true}) {
          check_scatter<float>(set, op, 100'000, width, accumulate);
          check_scatter<double>(set, op, 20'000, width, accumulate);
          check_scatter<float>(set, op, 64, width, accumulate);
        }
  });
  const std::int64_t n = in_full ? 10'000'000 : 1'000'000;
  const Tensor sum = scatter_add(zeros({2}), zeros({n}, {.dtype = DType::int64}), full({n}, 0.1f));
  CHECK(sum[0].item<float>() == static_cast<float>(n / 10));
}
}  // namespace reel::tests
