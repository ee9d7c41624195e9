// SPDX-License-Identifier: BSD-3-Clause
// Kernels that move elements: copies, casts, fills, joins, gathers.
#include <cmath>
#include <limits>

#include "kernels/kernels.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/create.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/join.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
template <class T>
std::vector<T> counting(std::int64_t n) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<T>(i % 127));
  return values;
}

/// Copies a view and compares each element with the one that its strides give.
template <class T>
void check_copy(const InstructionSet& set, const Body& view) {
  Array<T> out(view.shape);
  call_kernel(set, "cast", {&view}, out.body);
  std::int64_t position[8] = {};
  bool right = true;
  for (std::int64_t i = 0; i < view.elements; ++i) {
    std::int64_t from = 0;
    for (int axis = 0; axis < view.rank(); ++axis) from += position[axis] * view.strides[axis];
    right &= view.as<T>()[from] == out[i];
    for (int axis = view.rank() - 1; axis >= 0 && ++position[axis] == view.shape[axis]; --axis)
      position[axis] = 0;
  }
  CHECK(right);
}

template <class T>
void check_copies(const InstructionSet& set) {
  INFO(set.name << ", " << sizeof(T) << " bytes");
  Array<T> x({300, 70}, counting<T>(21000));
  check_copy<T>(set, x.body);
  check_copy<T>(set, x.view({70, 300}, {1, 70}));
  for (std::int64_t rows : {1, 3, 4, 7, 8, 9, 16, 63, 65})
    for (std::int64_t columns : {1, 2, 4, 8, 11, 64, 67}) {
      check_copy<T>(set, x.view({rows, columns}, {1, 70}));
      check_copy<T>(set, x.view({2, rows, columns}, {5000, 1, 70}));
      check_copy<T>(set, x.view({rows, 2, columns}, {1, 5000, 70}, 3));
    }
  check_copy<T>(set, x.view({5, 6}, {-70, -1}, 700));
  check_copy<T>(set, x.view({5, 6}, {0, 1}));
  check_copy<T>(set, x.view({5, 6}, {2, 0}));
  check_copy<T>(set, x.view({5, 3, 6, 2}, {7, 0, -2, 1}, 50));
  check_copy<T>(set, x.view({}, {}, 9));
  check_copy<T>(set, x.view({1, 1}, {5, 7}, 9));
  check_copy<T>(set, x.view({0, 4}, {1, 1}));
}

template <class From, class To>
void check_cast(const InstructionSet& set, const std::vector<From>& from,
                const std::vector<To>& expected) {
  const auto n = static_cast<std::int64_t>(from.size());
  // First contiguous and repeated, so that vectors get each value; then strided.
  Array<From> x({64, n});
  Array<To> y({64, n}), stepped({n});
  for (std::int64_t i = 0; i < 64 * n; ++i) x[i] = from[static_cast<std::size_t>(i % n)];
  call_kernel(set, "cast", {&x.body}, y.body);
  bool right = true;
  for (std::int64_t i = 0; i < 64 * n; ++i)
    right &= static_cast<To>(y[i]) == expected[static_cast<std::size_t>(i % n)];
  CHECK(right);
  const Body view = x.view({n}, {n + 1});
  call_kernel(set, "cast", {&view}, stepped.body);
  for (std::int64_t i = 0; i < n; ++i)
    CHECK(static_cast<To>(stepped[i]) == expected[static_cast<std::size_t>(i)]);
}
template <class T>
PassFunction function_of(const InstructionSet& set, const char* op) {
  return find_passes(set, op)->value[static_cast<int>(dtype_of<T>())];
}
/// The sum of two rows, stored past the caches at every offset from a cache line.
template <class T>
void check_streamed(const InstructionSet& set) {
  constexpr std::int64_t space = 16;  // elements before the row
  const PassFunction add = function_of<T>(set, "add");
  for (std::int64_t start = space; start < 2 * space; ++start)
    for (const std::int64_t n : {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100}) {
      Array<T> x({n}), y({n}), out({n + 3 * space}, T(-1));
      for (std::int64_t i = 0; i < n; ++i) {
        x[i] = static_cast<T>(i + 1);
        y[i] = static_cast<T>(2 * i);
      }
      const void* inputs[] = {x.body.data, y.body.data};
      add(n, inputs, pass_streams, &out[start]);
      bool right = true;
      for (std::int64_t i = 0; i < n + 3 * space; ++i) {
        const std::int64_t k = i - start;
        right &= out[i] == (k >= 0 && k < n ? static_cast<T>(3 * k + 1) : T(-1));
      }
      INFO(set.name << ": " << n << " elements at " << start);
      CHECK(right);
    }
}
}  // namespace

TEST_CASE("copies of any layout") {
  for_each_set([](const InstructionSet& set) {
    check_copies<std::uint8_t>(set);
    check_copies<float>(set);
    check_copies<double>(set);
  });
}

TEST_CASE("casts saturate, cut towards zero and take NaN for 0") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr auto least = std::numeric_limits<std::int32_t>::min();
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  constexpr auto least64 = std::numeric_limits<std::int64_t>::min();
  constexpr auto most64 = std::numeric_limits<std::int64_t>::max();
  for_each_set([&](const InstructionSet& set) {
    INFO(set.name);
    const std::vector<float> x{0, -0.5f, 1.9f, -1.9f, 300, 3e9f, -3e9f, inf, -inf, NAN, 1e20f};
    check_cast<float, std::int32_t>(set, x, {0, 0, 1, -1, 300, most, least, most, least, 0, most});
    check_cast<float, std::int64_t>(
        set, x, {0, 0, 1, -1, 300, 3000000000, -3000000000, most64, least64, 0, most64});
    check_cast<float, std::uint8_t>(set, x, {0, 0, 1, 0, 255, 255, 0, 255, 0, 0, 255});
    check_cast<float, bool>(set, x, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    check_cast<double, std::int32_t>(set, {2147483646.5, 2147483647.5, -2147483648.5, 1e300},
                                     {2147483646, most, least, most});
    check_cast<double, float>(set, {0.1, 1e300}, {0.1f, inf});
    check_cast<std::int64_t, double>(set, {0, -5, 1LL << 40}, {0, -5, 1099511627776.0});
    check_cast<std::int64_t, std::int32_t>(set, {7, -7, (1LL << 32) + 3}, {7, -7, 3});
    check_cast<std::int32_t, bool>(set, {0, 256, -1}, {0, 1, 1});
    check_cast<bool, float>(set, {0, 1}, {0, 1});
    check_cast<std::uint8_t, std::int64_t>(set, {0, 200}, {0, 200});
  });
}

TEST_CASE("where takes the one or the other") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    const PassFunction function =
        find_passes(set, "where")->value[static_cast<int>(DType::float32)];
    for (std::int64_t n : {0, 1, 7, 64, 100})
      for (unsigned scalars = 0; scalars < 8; ++scalars) {
        Array<bool> condition({n + 1});
        Array<float> x({n + 1}), y({n + 1}), out({n + 1});
        for (std::int64_t i = 0; i <= n; ++i) {
          condition[i] = i * i % 3 == 1;
          x[i] = static_cast<float>(i);
          y[i] = static_cast<float>(-i);
        }
        const void* inputs[] = {condition.body.data, x.body.data, y.body.data};
        function(n, inputs, scalars, out.body.data);
        for (std::int64_t i = 0; i < n; ++i) {
          const float expected =
              condition[scalars & 1 ? 0 : i] ? x[scalars & 2 ? 0 : i] : y[scalars & 4 ? 0 : i];
          CHECK(out[i] == expected);
        }
      }
  });
}

TEST_CASE("fill: constants, ranges, identities") {
  using Kind = FillOptions::Kind;
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    FillOptions options{.kind = Kind::constant, .start = 1.5, .first = 3};
    Array<float> x({37});
    call_kernel(set, "fill", {}, x.body, &options);
    CHECK(x.elements == std::vector<float>(37, 1.5f));
    Array<bool> truth({5});
    call_kernel(set, "fill", {}, truth.body, &options);
    CHECK(truth.elements == std::vector<std::uint8_t>(5, 1));
    options = {.kind = Kind::range, .start = 1, .step = 0.1, .first = 5, .stride = -2};
    call_kernel(set, "fill", {}, x.body, &options);
    for (std::int64_t i = 0; i < 37; ++i)
      CHECK(x[i] == static_cast<float>(1 + static_cast<double>(i) * 0.1));
    Array<std::int64_t> y({4});
    call_kernel(set, "fill", {}, y.body, &options);
    CHECK(y.elements == std::vector<std::int64_t>{5, 3, 1, -1});
    options = {.kind = Kind::identity};
    Array<double> z({2, 3}, 7.0);
    call_kernel(set, "fill", {}, z.body, &options);
    CHECK(z.elements == std::vector<double>{1, 0, 0, 0, 1, 0});
    for (std::int64_t offset = -4; offset <= 6; ++offset) {
      options = {.kind = Kind::triangle, .first = offset};
      Array<bool> triangle({3, 5});
      call_kernel(set, "fill", {}, triangle.body, &options);
      for (std::int64_t i = 0; i < 15; ++i) CHECK(triangle[i] == (i % 5 <= i / 5 + offset));
    }
  });
}

TEST_CASE("concat and unslice") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    Array<float> x({2, 2}, {1, 2, 3, 4}), y({1, 2}, {5, 6}), out({2, 4});
    const Body transposed = x.view({2, 2}, {1, 2}), column = y.view({2, 1}, {1, 1}),
               none = y.view({2, 0}, {1, 1});
    const AxisOptions options{1};
    Array<float> joined({2, 3});
    call_kernel(set, "concat", {&transposed, &none, &column}, joined.body, &options);
    CHECK(joined.elements == std::vector<float>{1, 3, 5, 2, 4, 6});

    UnsliceOptions place{{{1, 3}, {2, 2}, {1, 2}}, {2, 4}};
    for (std::size_t axis = 0; axis < 2; ++axis) place.slice.steps.data()[axis] *= -1;
    call_kernel(set, "unslice", {&x.body}, out.body, &place);
    CHECK(out.elements == std::vector<float>{0, 4, 0, 3, 0, 2, 0, 1});
    call_kernel(set, "unslice", {&transposed}, out.body, &place, 1);
    CHECK(out.elements == std::vector<float>{0, 8, 0, 5, 0, 5, 0, 2});
  });
}

TEST_CASE("take, scatter and one_hot") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    Array<float> x({2, 3, 2}, counting<float>(12)), out({2, 2, 2});
    Array<std::int32_t> at({2}, {-1, 0});
    AxisOptions axis{1};
    call_kernel(set, "take", {&x.body, &at.body}, out.body, &axis);
    CHECK(out.elements == std::vector<float>{4, 5, 0, 1, 10, 11, 6, 7});
    axis.axis = 2;
    Array<float> last({2, 3, 2});
    call_kernel(set, "take", {&x.body, &at.body}, last.body, &axis);
    CHECK(last.elements == std::vector<float>{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10});

    Array<std::int64_t> same({2}, {1, 1});
    Array<float> sums({2, 3, 2}, 9.0f);
    const UnTakeOptions options{{2, 3, 2}, 1};
    call_kernel(set, "scatter", {&out.body, &same.body}, sums.body, &options);
    CHECK(sums.elements == std::vector<float>{0, 0, 4, 6, 0, 0, 0, 0, 16, 18, 0, 0});
    call_kernel(set, "scatter", {&out.body, &same.body}, sums.body, &options, 1);
    CHECK(sums.elements == std::vector<float>{0, 0, 8, 12, 0, 0, 0, 0, 32, 36, 0, 0});

    const OneHotOptions depth{3};
    Array<float> hot({2, 3}, 5.0f);
    at[0] = 2;
    call_kernel(set, "one_hot", {&at.body}, hot.body, &depth);
    CHECK(hot.elements == std::vector<float>{0, 0, 1, 1, 0, 0});

    at[1] = 3;
    axis.axis = 1;
    const KernelResult result = call_kernel(set, "take", {&x.body, &at.body}, out.body, &axis);
    CHECK(std::string_view(result.failure) == "index out of range");
    CHECK((result.input == 1 && result.got == 3 && result.limit == 3));
    at[1] = -4;
    CHECK(call_kernel(set, "scatter", {&out.body, &at.body}, sums.body, &options).got == -4);
    CHECK(call_kernel(set, "one_hot", {&at.body}, hot.body, &depth).input == 0);
  });
}

TEST_CASE("gather and scatter_elements") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    Array<double> x({2, 3}, {0, 1, 2, 3, 4, 5}), out({2, 2}), sums({2, 3}, 1.0);
    Array<std::int64_t> at({2, 2}, {2, -3, 1, 1});
    AxisOptions axis{1};
    call_kernel(set, "gather", {&x.body, &at.body}, out.body, &axis);
    CHECK(out.elements == std::vector<double>{2, 0, 4, 4});
    const UnTakeOptions options{{2, 3}, 1};
    call_kernel(set, "scatter_elements", {&out.body, &at.body}, sums.body, &options);
    CHECK(sums.elements == std::vector<double>{0, 0, 2, 0, 8, 0});
    call_kernel(set, "scatter_elements", {&out.body, &at.body}, sums.body, &options, 1);
    CHECK(sums.elements == std::vector<double>{0, 0, 4, 0, 16, 0});

    axis.axis = 0;
    Array<std::int32_t> down({1, 2}, {1, 0});
    Array<double> row({1, 2});
    call_kernel(set, "gather", {&x.body, &down.body}, row.body, &axis);
    CHECK(row.elements == std::vector<double>{3, 1});
    at[0] = 9;
    axis.axis = 1;
    CHECK(call_kernel(set, "gather", {&x.body, &at.body}, out.body, &axis).got == 9);
  });
}

TEST_CASE("stores past the caches write each element of a row, and nothing beside it") {
  for_each_set([](const InstructionSet& set) {
    check_streamed<float>(set);
    check_streamed<double>(set);
  });
}

TEST_CASE("a value with an axis of one element is assigned to every position along it") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    Array<float> before({2, 3}, {10, 20, 30, 40, 50, 60}), out({2, 3});
    Array<float> memory({6}, {1, 2, 3, 100, 100, 100});
    const Body row = memory.view({1, 3}, {3, 1}), column = memory.view({2, 1}, {1, 1});
    call_kernel(set, "assign", {&before.body, &row}, out.body);
    CHECK(out.elements == std::vector<float>{1, 2, 3, 1, 2, 3});
    call_kernel(set, "assign_add", {&before.body, &row}, out.body);
    CHECK(out.elements == std::vector<float>{11, 22, 33, 41, 52, 63});
    call_kernel(set, "assign_sub", {&before.body, &column}, out.body);
    CHECK(out.elements == std::vector<float>{9, 19, 29, 38, 48, 58});
  });
}
}  // namespace reel::tests
