// SPDX-License-Identifier: BSD-3-Clause
// Sorting, the largest elements, searching and counting.
#include <reel/ops/sort.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
using Places = std::vector<std::int64_t>;

/// The stable order of a row, NaN as the largest.
template <class T>
Places order_of(const std::vector<T>& x, bool descending) {
  Places places(x.size());
  std::iota(places.begin(), places.end(), 0);
  const auto before = [&](T a, T b) { return a < b || (b != b && a == a); };
  std::stable_sort(places.begin(), places.end(), [&](std::int64_t a, std::int64_t b) {
    const T first = x[static_cast<std::size_t>(a)], second = x[static_cast<std::size_t>(b)];
    return descending ? before(second, first) : before(first, second);
  });
  return places;
}
template <class T>
void check_order(const Tensor& x) {
  for (const bool descending : {false, true}) {
    INFO(name_of(x.dtype()) << ", " << x.size() << " elements, descending " << descending);
    CHECK(argsort(x, 0, {descending}).template to_vector<std::int64_t>() ==
          order_of(x.template to_vector<T>(), descending));
  }
}
}  // namespace

TEST_CASE("argsort is stable for every dtype and length") {
  for (const std::int64_t n :
       {0, 1, 2, 15, 16, 17, 32, 33, 48, 49, 65, 96, 97, 300, 1024, 1025, 2049, 5000}) {
    const Tensor many = random::integers(-300, 300, {n}), few = random::integers(0, 3, {n});
    check_order<std::int64_t>(many * (std::int64_t{1} << 40));
    check_order<std::int64_t>(few);
    check_order<std::int32_t>(cast(many, DType::int32) * 100000);
    check_order<std::uint8_t>(cast(few, DType::uint8));
    check_order<bool>(few > 1);
    check_order<float>(cast(many, DType::float32) / 7);
    check_order<double>(cast(many, DType::float64) * 1e300);
  }
}

TEST_CASE("NaN is the largest, and -0 equals 0") {
  const Tensor x = tensor<double>({nan, 0.0, inf, -0.0, -nan, -inf, 0.0, 5e-324, -5e-324});
  check_order<double>(x);
  check_order<float>(cast(x, DType::float32));
  CHECK(argsort(x).to_vector<std::int64_t>() == Places{5, 8, 1, 3, 6, 7, 2, 0, 4});
  const Tensor many = random::integers(0, 300, {5000});
  check_order<double>(
      where(many < 30, nan, where(many < 60, -0.0, cast(many, DType::float64) - 100)));
}

TEST_CASE("lines along any axis are sorted, strided ones too") {
  const Tensor x = numbers({4, 70, 5});
  for (const int axis : {0, 1, 2}) {
    const Tensor y = sort(x, axis), along_other = sort(transpose(x), 2 - axis);
    CHECK(equal(y, transpose(along_other)));
    CHECK(equal(sort(x(range({}, {}, 2)), axis).shape().data()[1], 70));
    const Tensor lines = axis == 0   ? transpose(y, {1, 2, 0})
                         : axis == 1 ? transpose(y, {0, 2, 1})
                                     : y;
    CHECK(all(lines(ellipsis, range(1, {})) >= lines(ellipsis, range({}, -1))).item<bool>());
    CHECK(allclose(sum(y, axis), sum(x, axis), {.rtol = 0, .atol = 1e-12}));
  }
  const Tensor tall = random::integers(0, 200, {3, 2100, 2}), order = argsort(tall, 1);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j) CHECK(equal(order(i, all, j), argsort(tall(i, all, j) + 0)));
  CHECK(equal(sort(broadcast_to(tensor({2, 1}), {3, 2}), 0), broadcast_to(tensor({2, 1}), {3, 2})));
  CHECK(sort(zeros({0, 3}), 0).shape() == Shape{0, 3});
}

TEST_CASE("topk gives the largest elements and their positions") {
  const Tensor x = tensor({{3.0, 7.0, 5.0}, {7.0, nan, 7.0}});
  const auto [values, positions] = topk(x, 2);
  CHECK(positions.to_vector<std::int64_t>() == Places{1, 2, 1, 0});
  CHECK(equal(values(0), tensor({7.0, 5.0})));
  CHECK(topk(x, 0).values.shape() == Shape{2, 0});
  check_refused<ShapeError>([&] { topk(tensor(1.0f), 0); },
                            "topk: k: expected 1 of a single number, got 0");
  CHECK(equal(topk(x, 2, 0).positions, tensor({{1, 1, 1}, {0, 0, 0}})));
}

namespace {
/// topk and quantiles against the whole order, for ranks near both ends and in the middle.
template <class T>
void check_ranks(const Tensor& x) {
  const std::int64_t n = x.size();
  const auto order = argsort(x, 0, {.descending = true});
  for (const std::int64_t k : {std::int64_t{1}, n / 100, n / 9, n / 3, n - 1, n}) {
    INFO(name_of(x.dtype()) << ", " << k << " of " << n);
    CHECK(equal(topk(x, k).positions, order(range(0, k))));
  }
  const Tensor sorted = sort(x);
  for (const double q : {0.0, 0.01, 0.3, 0.5, 0.97, 1.0}) {
    const double place = q * static_cast<double>(n - 1), behind = place - std::floor(place);
    const auto below = static_cast<std::int64_t>(place);
    const auto at = [&](std::int64_t i) {
      return static_cast<double>(sorted(std::min(i, n - 1)).template item<T>());
    };
    INFO(name_of(x.dtype()) << ", quantile " << q << " of " << n);
    CHECK(cast(quantile(x, q), DType::float64).template item<double>() ==
          Approx(at(below) * (1 - behind) + at(below + 1) * behind).epsilon(1e-6));
  }
}
}  // namespace

TEST_CASE("topk and quantile select what the whole order has") {
  for (const std::int64_t n : {8, 9, 100, 3000, 20000}) {
    const Tensor many = random::integers(-300, 300, {n}), few = random::integers(0, 3, {n});
    const Tensor rising = arange(0, n), falling = n - rising;
    for (const Tensor& x : {many, few, rising, falling, zeros({n}, {DType::int64})}) {
      check_ranks<std::int64_t>(x * (std::int64_t{1} << 40));
      check_ranks<std::int32_t>(cast(x, DType::int32));
      check_ranks<std::uint8_t>(cast(x, DType::uint8));
      check_ranks<bool>(x > 1);
      check_ranks<float>(cast(x, DType::float32) / 7);
      check_ranks<double>(cast(x, DType::float64) * 1e300);
    }
  }
}

TEST_CASE("topk and median of lines along any axis are those of each line") {
  const Tensor x = numbers({3, 70, 40}), holes = where(x > 2, nan, x);
  for (const int axis : {0, 1, 2})
    for (const Tensor& each : {x, holes}) {
      const Tensor order = swap_axes(argsort(each, axis, {.descending = true}), axis, 2);
      for (const std::int64_t k : {1, 2, 3})
        CHECK(
            equal(swap_axes(topk(each, k, axis).positions, axis, 2), order(all, all, range(0, k))));
      const Tensor middle = median(each, axis), lines = swap_axes(each, axis, 2);
      const Tensor moved = swap_axes(expand_dims(middle, axis), axis, 2);
      for (std::int64_t i = 0; i < lines.shape()[0]; ++i)
        for (std::int64_t j = 0; j < lines.shape()[1]; ++j)
          CHECK(to_string(moved(i, j, 0)) == to_string(median(lines(i, j))));
    }
}

TEST_CASE("gradients of sort and topk belong to the elements that they give") {
  const Variable x("x", numbers({3, 6}));
  for (const int axis : {0, 1}) {
    check_gradients({x}, [&] { return sort(x, axis); });
    check_gradients({x}, [&] { return sort(x, axis, {.descending = true}); });
    check_gradients({x}, [&] { return topk(x, 2, axis).values; });
  }
}

TEST_CASE("searchsorted counts smaller elements") {
  const Tensor line = tensor({1, 3, 3, 5});
  CHECK(equal(searchsorted(line, tensor({0, 1, 3, 4, 9})), tensor({0, 0, 1, 3, 4})));
  CHECK(
      equal(searchsorted(line, tensor({0, 1, 3, 4, 9}), {.right = true}), tensor({0, 1, 3, 3, 4})));
  CHECK(searchsorted(line, 3.5).item<std::int64_t>() == 3);
  CHECK(equal(searchsorted(tensor({1.0, inf, nan, nan}), tensor({nan, inf, -inf})),
              tensor({2, 1, 0})));
}

TEST_CASE("bincount counts") {
  CHECK(equal(bincount(tensor({{1, 0}, {1, 3}}), 5), tensor({1, 2, 0, 1, 0})));
  CHECK(bincount(tensor({1}), 2).dtype() == DType::int64);
  CHECK(equal(bincount(cast(zeros({0}), DType::int64), 2), tensor({0, 0})));
  const Tensor many = cast(zeros({1000}), DType::uint8);
  CHECK(equal(bincount(many, 1), tensor({1000})));
}

TEST_CASE("sorting refuses wrong arguments") {
  check_refused<ShapeError>([] { sort(ones({2}), 1); }, "sort: axis: expected ");
  check_refused<ShapeError>([] { argsort(tensor(1.0), 1); }, "argsort: axis: expected ");
  check_refused<Error>([] { sort(Tensor()); }, "sort: x: expected ");
  check_refused<ShapeError>([] { topk(ones({2}), 3); }, "topk: k: expected 0 to 2, got 3");
  check_refused<ShapeError>([] { topk(ones({2}), -1); }, "topk: k: expected 0 to 2, got -1");
  check_refused<ShapeError>(
      [] {
        searchsorted(ones({2, 2}), 1);
      },
      "searchsorted: sorted: expected one axis, got (2, 2)");
  check_refused<IndexError>(
      [] {
        bincount(tensor({1, 3}), 3);
      },
      "bincount: x: expected 0 to 2, got 3 at [1]");
  check_refused<IndexError>(
      [] {
        bincount(tensor({{0, 1}, {2, -1}}), 3);
      },
      "bincount: x: expected 0 to 2, got -1 at [1, 1]");
  check_refused<IndexError>([] { bincount(tensor({0}), 0); },
                            "bincount: x: expected no number, got 0 at [0]");
  check_refused<DTypeError>([] { bincount(ones({2}), 3); }, "bincount: x: expected ");
  check_refused<Error>([] { bincount(Tensor(), 3); }, "bincount: x: expected ");
}

TEST_CASE("columns beside one, two and three others are sorted alone") {
  for (const std::int64_t columns : {2, 3, 4})
    for (const std::int64_t rows : {9, 60}) {
      INFO(rows << " rows of " << columns);
      const Tensor x = (arange(0, rows * columns) * 37 % 101).reshape({rows, columns});
      const auto check = [&]<class T>(const Tensor& each, T) {
        const Tensor order = argsort(each, 0);
        for (std::int64_t c = 0; c < columns; ++c)
          CHECK(order(all, c).to_vector<std::int64_t>() ==
                order_of(each(all, c).template to_vector<T>(), false));
      };
      check(x, std::int64_t());
      check(cast(x, DType::int32), std::int32_t());
      check(cast(x, DType::uint8), std::uint8_t());
      check(cast(x, DType::float32), float());
      check(cast(x, DType::float64), double());
      check(x > 50, bool());
    }
  // No line needs memory for a line.
  CHECK(sort(zeros({0, std::int64_t{1} << 44}), 1).size() == 0);
}

TEST_CASE("a single number is sorted as a line of one element") {
  const Tensor x = tensor(2.5);
  for (const int axis : {0, -1}) {
    CHECK(equal(sort(x, axis), x));
    CHECK(equal(sort(x, axis, {.descending = true}), x));
    CHECK(equal(argsort(x, axis), tensor(std::int64_t{0})));
    const auto [values, positions] = topk(x, 1, axis);
    CHECK(equal(values, x));
    CHECK(equal(positions, tensor(std::int64_t{0})));
  }
  const Variable w("w", x);
  GradientTape tape;
  CHECK(tape.gradient(square(sort(w)), w).item<float>() == 5);
  check_refused<ShapeError>([&] { sort(x, 1); }, "sort: axis: expected ");
}
}  // namespace reel::tests
