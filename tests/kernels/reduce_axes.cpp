// SPDX-License-Identifier: BSD-3-Clause
// Reductions over every choice of axes against loops in float64, for each instruction set.
#include <cmath>
#include <limits>
#include <random>

#include "kernels/kernels.hpp"
#include "lib/table/options/reduce.hpp"
#include "lib/table/options/reshape.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// A reduction as a sequence of steps, one for each element.
struct Fold {
  const char* op;
  double first;
  long double (*step)(long double, double);
};
constexpr Fold sum{"sum", 0, [](long double a, double x) { return a + x; }};
constexpr Fold squares{"sum_squares", 0, [](long double a, double x) { return a + x * x; }};
constexpr Fold mean{"mean", 0, [](long double a, double x) { return a + x; }};
constexpr Fold max{"max", -infinity,
                   [](long double a, double x) { return x > a || x != x ? x : a; }};
constexpr Fold min{"min", infinity,
                   [](long double a, double x) { return x < a || x != x ? x : a; }};
constexpr Fold any{"any", 0,
                   [](long double a, double x) { return a != 0 || x != 0 ? 1.0L : 0.0L; }};
constexpr Fold all{"all", 1,
                   [](long double a, double x) { return a != 0 && x != 0 ? 1.0L : 0.0L; }};

struct Position {
  std::int64_t axis[3];
};
/// f(position) over all positions of a shape of rank 3.
template <class F>
void for_positions(const Shape& shape, const F& f) {
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t j = 0; j < shape[1]; ++j)
      for (std::int64_t k = 0; k < shape[2]; ++k) f(Position{{i, j, k}});
}
template <class T>
double element(const Body& x, const Position& at) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < 3; ++axis) offset += at.axis[axis] * x.strides[axis];
  if (x.dtype == DType::boolean) return x.as<std::uint8_t>()[offset];
  return static_cast<double>(x.as<T>()[offset]);
}

/// The axes that are reduced, as bits.
struct Gone {
  unsigned bits;
  bool holds(int axis) const { return bits >> axis & 1; }
  ReduceOptions options() const {
    std::vector<int> axes;
    for (int axis = 0; axis < 3; ++axis)
      if (holds(axis)) axes.push_back(axis);
    return {.axes = std::span<const int>(axes), .keep = Keepdims::yes};
  }
  Shape kept(const Shape& shape) const {
    return {holds(0) ? 1 : shape[0], holds(1) ? 1 : shape[1], holds(2) ? 1 : shape[2]};
  }
  std::int64_t place(const Shape& shape, const Position& at) const {
    std::int64_t place = 0;
    for (int axis = 0; axis < 3; ++axis)
      if (!holds(axis)) place = place * shape[axis] + at.axis[axis];
    return place;
  }
};

template <class T>
std::vector<T> numbers(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, bool>)
      values[i] = random() % 3 != 0;
    else if constexpr (std::is_floating_point_v<T>)
      values[i] = std::uniform_real_distribution<T>(T(-1), T(1))(random);
    else
      values[i] = static_cast<T>(random() % 19) - static_cast<T>(std::is_signed_v<T> ? 9 : 0);
  }
  return values;
}

template <class T, class Out>
void check(const InstructionSet& set, const Fold& fold, const Body& x, Gone gone,
           unsigned accumulate = 0) {
  const Shape kept = gone.kept(x.shape);
  Array<Out> out(kept, Out(1));
  const std::size_t count = static_cast<std::size_t>(kept.elements());
  std::vector<long double> exact(count, fold.first);
  std::vector<double> sizes(count, 1);
  for_positions(x.shape, [&](const Position& at) {
    const auto place = static_cast<std::size_t>(gone.place(x.shape, at));
    exact[place] = fold.step(exact[place], element<T>(x, at));
    sizes[place] += std::abs(element<T>(x, at));
  });
  const double each = static_cast<double>(x.elements) / static_cast<double>(kept.elements());
  if (std::string_view(fold.op) == "mean")
    for (long double& value : exact) value /= each;
  const ReduceOptions options = gone.options();
  call_kernel(set, fold.op, {&x}, out.body, &options, accumulate);
  for (std::size_t i = 0; i < count; ++i) {
    const double expected = static_cast<double>(exact[i] + (accumulate ? 1 : 0));
    const double got = static_cast<double>(out[static_cast<std::int64_t>(i)]);
    const double tolerance =
        std::is_floating_point_v<Out>
            ? 40 * sizes[i] * static_cast<double>(std::numeric_limits<Out>::epsilon())
            : 0;
    if (got == expected || std::abs(got - expected) <= tolerance) continue;
    FAIL(fold.op << " on " << set.name << ", shape " << x.shape[0] << " " << x.shape[1] << " "
                 << x.shape[2] << ", axes " << gone.bits << ": got " << got << ", expected "
                 << expected);
  }
  SUCCEED();
}

/// f(body) for arrays of many shapes, row-major and as views.
template <class T, class F>
void for_layouts(bool empty, const F& f) {
  const Shape shapes[] = {{1, 1, 1},   {2, 3, 4},    {5, 1, 7},   {1, 70, 33},
                          {67, 3, 5},  {3, 130, 1},  {4, 5, 300}, {1, 1, 5000},
                          {200, 1, 9}, {2, 2050, 3}, {128, 2, 2}, {3, 1024, 2},
                          {63, 1, 2},  {64, 1, 2},   {65, 2, 16}, {64, 1, 17}};
  unsigned seed = 0;
  for (const Shape& shape : shapes) {
    const std::int64_t a = shape[0], b = shape[1], c = shape[2];
    Array<T> x({3 * a * b * c + 4}, numbers<T>(3 * a * b * c + 4, ++seed));
    Body rows = x.view(shape, {b * c, c, 1});
    rows.contiguous = true;
    f(rows);
    f(x.view(shape, {1, a, a * b}));
    f(x.view(shape, {b * c, -c, 2}, b * c));
    f(x.view(shape, {0, c, 1}));
  }
  if (!empty) return;
  Array<T> none({4});
  for (const Shape& shape : {Shape{0, 2, 3}, Shape{2, 0, 3}, Shape{2, 3, 0}}) {
    Body body = none.view(shape, {1, 1, 1});
    body.contiguous = true;
    f(body);
  }
}

template <class T, class Out>
void check_fold(const InstructionSet& set, const Fold& fold, bool empty) {
  for_layouts<T>(empty, [&](const Body& x) {
    for (unsigned bits = 1; bits < 8; ++bits) check<T, Out>(set, fold, x, Gone{bits});
  });
}

/// Checks that argmax is `at` for a row of n numbers, and for a column next to others. `at` is the
/// position of the first NaN, or of the first largest number.
template <class T>
void check_places(const InstructionSet& set, std::int64_t n, std::int64_t at) {
  constexpr T nan = std::numeric_limits<T>::quiet_NaN(), inf = std::numeric_limits<T>::infinity();
  const ReduceOptions every, first{.axes = 0};
  struct Numbers {
    T before, here, after, last;
  };
  for (const auto& [before, here, after, last] : {Numbers{1, 2, 1, 2},
                                                  {-2, -1, -1, -2},
                                                  {-inf, 0, -inf, -inf},
                                                  {inf, nan, 1, inf},
                                                  {-inf, nan, nan, 7},
                                                  {1, nan, inf, nan},
                                                  {-1, inf, inf, 5}}) {
    Array<T> x({n}, after);
    for (std::int64_t i = 0; i < at; ++i) x[i] = before;
    if (n > 1) x[n - 1] = last;
    x[at] = here;
    Array<std::int64_t> out(Shape{}), places({3});
    call_kernel(set, "argmax", {&x.body}, out.body, &every);
    Array<T> columns({n, 3}, T(5));
    for (std::int64_t i = 0; i < n; ++i) columns[3 * i + 1] = x[i];
    call_kernel(set, "argmax", {&columns.body}, places.body, &first);
    if (out[0] != at || places[1] != at || places[0] != 0 || places[2] != 0)
      FAIL("argmax on " << set.name << " of " << n << " numbers " << before << " " << here << " "
                        << after << " " << last << ": got " << out[0] << " and " << places[1]
                        << ", expected " << at);
  }
  SUCCEED();
}
/// The largest and the smallest of numbers that are all equal but for their sign.
template <class T>
void check_zeros(const InstructionSet& set) {
  constexpr std::int64_t columns = 70, n = 2048;
  const ReduceOptions down{.axes = 0}, every;
  for (const char* op : {"max", "min"})
    for (const T first : {T(0), T(-0.0)}) {
      INFO(set.name << ": " << op << " of zeros, the first is " << first);
      Array<T> x({4, columns}, -first), row({n}, -first), out({columns}), one(Shape{});
      for (std::int64_t i = 0; i < columns; ++i) x[i] = first;
      for (std::int64_t i = 0; i < n / 2; ++i) row[i] = first;
      call_kernel(set, op, {&x.body}, out.body, &down);
      call_kernel(set, op, {&row.body}, one.body, &every);
      bool same = true;
      for (std::int64_t i = 0; i < columns; ++i)
        same &= std::signbit(out[i]) == std::signbit(first);
      CHECK(same);
      CHECK(std::signbit(one[0]) == std::signbit(first));
    }
}
}  // namespace

TEST_CASE("sums and means agree with exact sums over every axis", "[reduce]") {
  for_each_set([](const InstructionSet& set) {
    check_fold<float, float>(set, sum, true);
    check_fold<double, double>(set, sum, true);
    check_fold<bool, std::int64_t>(set, sum, true);
    check_fold<std::uint8_t, std::int64_t>(set, sum, true);
    check_fold<std::int32_t, std::int64_t>(set, sum, true);
    check_fold<std::int64_t, std::int64_t>(set, sum, true);
    check_fold<float, double>(set, squares, true);
    check_fold<double, double>(set, squares, true);
    check_fold<float, float>(set, mean, false);
    check_fold<double, double>(set, mean, false);
  });
}

TEST_CASE("extremes and truths are exact over every axis", "[reduce]") {
  for_each_set([](const InstructionSet& set) {
    for (const Fold& fold : {max, min}) {
      check_fold<float, float>(set, fold, false);
      check_fold<double, double>(set, fold, false);
      check_fold<std::uint8_t, std::uint8_t>(set, fold, false);
      check_fold<std::int32_t, std::int32_t>(set, fold, false);
      check_fold<std::int64_t, std::int64_t>(set, fold, false);
    }
    for (const Fold& fold : {any, all}) {
      check_fold<bool, bool>(set, fold, true);
      check_fold<float, bool>(set, fold, true);
      check_fold<std::int64_t, bool>(set, fold, true);
    }
  });
}

TEST_CASE("sums add to what is there", "[reduce]") {
  for_each_set([](const InstructionSet& set) {
    for_layouts<float>(true, [&](const Body& x) {
      for (unsigned bits = 0; bits < 8; ++bits) {
        const Gone gone{bits};
        check<float, float>(set, sum, x, gone, 1);
        Array<float> out(gone.kept(x.shape), 1.f), again(gone.kept(x.shape), 1.f);
        const ReduceOptions options = gone.options();
        const ShapeOptions target{out.body.shape};
        call_kernel(set, "sum", {&x}, out.body, &options, 1);
        call_kernel(set, "sum_to", {&x}, again.body, &target, 1);
        for (std::int64_t i = 0; i < out.body.elements; ++i)
          if (std::abs(out[i] - again[i]) > 1e-3f) FAIL("sum_to differs from sum");
      }
    });
  });
}

TEST_CASE("sums of bytes and squares of float32 do not overflow", "[reduce]") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    constexpr std::int64_t n = 100'003;
    const ReduceOptions every;
    Array<std::uint8_t> bytes({n}, 255);
    Array<std::int64_t> sum(Shape{});
    call_kernel(set, "sum", {&bytes.body}, sum.body, &every);
    CHECK(sum[0] == 255 * n);
    for (const float size : {3e38f, 1e-45f}) {
      Array<float> x({n}, size);
      Array<double> total(Shape{});
      call_kernel(set, "sum_squares", {&x.body}, total.body, &every);
      const double square = static_cast<double>(size) * size;
      CHECK(std::abs(total[0] / (n * square) - 1) < 1e-13);
    }
  });
}

TEST_CASE("NaN goes through the extremes, wherever it stands", "[reduce]") {
  for_each_set([](const InstructionSet& set) {
    const ReduceOptions every;
    for (const std::int64_t n : {1, 7, 31, 32, 33, 100, 1500})
      for (std::int64_t at = 0; at < n; at += 1 + n / 40) {
        Array<float> x({n}, 1.f), out(Shape{});
        x[at] = std::numeric_limits<float>::quiet_NaN();
        for (const char* op : {"max", "min"}) {
          call_kernel(set, op, {&x.body}, out.body, &every);
          INFO(set.name << ": " << op << " of " << n << ", NaN at " << at);
          CHECK(std::isnan(out[0]));
        }
      }
    constexpr std::int64_t rows = 130;
    const ReduceOptions last{.axes = 1};
    for (const std::int64_t n : {2, 3, 8, 15, 16})  // short rows are folded as columns
      for (const std::int64_t row : {0, 1, 7, 127, 128, 129})
        for (std::int64_t at = 0; at < n; ++at) {
          Array<float> x({rows, n}, 1.f), out({rows});
          x[row * n + at] = std::numeric_limits<float>::quiet_NaN();
          Array<std::int64_t> places({rows});
          for (const char* op : {"argmax", "argmin"}) {
            call_kernel(set, op, {&x.body}, places.body, &last);
            for (std::int64_t i = 0; i < rows; ++i)
              if (places[i] != (i == row ? at : 0))
                FAIL(set.name << ": " << op << " of row " << i << " of " << n << ", NaN at " << at
                              << " of row " << row << ": got " << places[i]);
          }
          for (const char* op : {"max", "min"}) {
            call_kernel(set, op, {&x.body}, out.body, &last);
            for (std::int64_t i = 0; i < rows; ++i)
              if (i == row ? !std::isnan(out[i]) : out[i] != 1)
                FAIL(set.name << ": " << op << " of row " << i << " of " << n << ", NaN at " << at
                              << " of row " << row << ": got " << out[i]);
          }
        }
  });
}

TEST_CASE("argmax finds the first of the largest, or the first NaN", "[reduce]") {
  for_each_set([](const InstructionSet& set) {
    for_layouts<std::int32_t>(false, [&](const Body& x) {
      for (int axis = 0; axis < 3; ++axis) {
        const Gone gone{1u << axis};
        Array<std::int64_t> out(gone.kept(x.shape), -1);
        const ReduceOptions options = gone.options();
        call_kernel(set, "argmax", {&x}, out.body, &options);
        std::vector<double> best(out.elements.size(), -infinity);
        std::vector<std::int64_t> places(best.size(), -1);
        for_positions(x.shape, [&](const Position& at) {
          const auto place = static_cast<std::size_t>(gone.place(x.shape, at));
          if (element<std::int32_t>(x, at) <= best[place]) return;
          best[place] = element<std::int32_t>(x, at);
          places[place] = at.axis[axis];
        });
        CHECK(out.elements == places);
      }
    });
  });
}

TEST_CASE("argmax finds the first NaN and the first of equals at every place of a row",
          "[reduce]") {
  for_each_set([](const InstructionSet& set) {
    for (std::int64_t n = 1; n <= 70; ++n)
      for (std::int64_t at = 0; at < n; ++at) {
        check_places<float>(set, n, at);
        check_places<double>(set, n, at);
      }
    for (const std::int64_t at : {0, 1, 500, 1498, 1499}) check_places<float>(set, 1500, at);
  });
}

TEST_CASE("a sum of a million equal numbers is exact to the last places", "[reduce]") {
  for_each_set([](const InstructionSet& set) {
    constexpr std::int64_t n = 1 << 20;
    Array<float> x({n}, 0.1f), out(Shape{});
    const ReduceOptions every;
    call_kernel(set, "sum", {&x.body}, out.body, &every);
    INFO(set.name);
    Array<float> sums({4});
    const ReduceOptions first{.axes = 0};
    const Body columns = x.view({n / 4, 4}, {4, 1});
    call_kernel(set, "sum", {&columns}, sums.body, &first);
    for (const float column : sums.elements)
      CHECK(std::abs(4 * static_cast<double>(column) / (n * static_cast<double>(0.1f)) - 1) < 4e-6);
    CHECK(std::abs(static_cast<double>(out[0]) / (n * static_cast<double>(0.1f)) - 1) < 1e-6);
  });
}

TEST_CASE("of equal elements max and min give the first, down columns and of the halves of a row") {
  for_each_set([](const InstructionSet& set) {
    check_zeros<float>(set);
    check_zeros<double>(set);
  });
}

TEST_CASE("argmax of a large transposed matrix reads a whole copy of it") {
  constexpr std::int64_t rows = 2000, columns = 33;
  const ReduceOptions down{.axes = 0};
  for_each_set([&](const InstructionSet& set) {
    for (std::int64_t shift = 0; shift < 100; shift += 7) {
      const auto place = [&](std::int64_t column) { return rows - 1 - (column + shift) % 100; };
      Array<float> x({columns * rows});
      for (std::int64_t c = 0; c < columns; ++c) {
        for (std::int64_t r = 0; r < rows; ++r) x[c * rows + r] = static_cast<float>(r % 50);
        x[c * rows + place(c)] = 1000;
      }
      const Body view = x.view({rows, columns}, {1, rows});
      Array<std::int64_t> out({columns}, -1);
      call_kernel(set, "argmax", {&view}, out.body, &down);
      bool right = true;
      for (std::int64_t c = 0; c < columns; ++c) right &= out[c] == place(c);
      INFO(set.name << ", shift " << shift);
      CHECK(right);
    }
  });
}
}  // namespace reel::tests
