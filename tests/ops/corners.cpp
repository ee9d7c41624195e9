// SPDX-License-Identifier: BSD-3-Clause
// Layouts and sizes of inputs that other tests of ops pass by.
#include <algorithm>
#include <numeric>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
// A result of 16 MB or more is stored past the caches, but not over an input.
TEST_CASE("a large result that takes over the memory of an operand is computed once") {
  constexpr std::int64_t n = 4'300'003;
  const Tensor x = cast(arange(0, n) % 1000, DType::float32);
  const std::vector<float> from = x.to_vector<float>();
  const auto right = [&](const Tensor& got, float factor, float shift) {
    const std::vector<float> y = got.to_vector<float>();
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i) wrong += y[i] != factor * from[i] + shift;
    return y.size() == from.size() && wrong == 0;
  };
  CHECK(right(-(x + 1.0f), -1, -1));
  CHECK(right((x + 1.0f) * 2.0f, 2, 2));
  CHECK(right((x * 2.0f) - x, 1, 0));
  CHECK(right(x - (x * 2.0f), -1, 0));
}

TEST_CASE("a cube in the opposite order is added to one in row-major order") {
  const Tensor x = cast(arange(0, 20 * 17 * 18), DType::float32).reshape({20, 17, 18});
  const Tensor y = cast(arange(0, 18 * 17 * 20), DType::float32).reshape({18, 17, 20});
  const auto check = [](const Tensor& sum) {
    const std::vector<float> got = sum.to_vector<float>();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < 20; ++i)
      for (std::int64_t j = 0; j < 17; ++j)
        for (std::int64_t k = 0; k < 18; ++k) {
          const std::int64_t in_order = (i * 17 + j) * 18 + k, opposite = (k * 17 + j) * 20 + i;
          wrong += got[static_cast<std::size_t>(in_order)] !=
                   static_cast<float>(in_order) + static_cast<float>(opposite);
        }
    CHECK(wrong == 0);
  };
  check(x + transpose(y));
  check(transpose(y) + x);
}

TEST_CASE("where takes three inputs that repeat along other axes of eight") {
  const std::vector<float> twos = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const Tensor x = from_span(twos, {2, 1, 2, 1, 2, 1, 2, 1});
  const Tensor y = -from_span(twos, {1, 2, 1, 2, 1, 2, 1, 2});
  const Tensor condition = tensor({true, false}).reshape({1, 1, 1, 1, 1, 1, 1, 2});
  const std::vector<float> got = where(condition, x, y).to_vector<float>();
  REQUIRE(got.size() == 256);
  for (std::size_t i = 0; i < got.size(); ++i) {
    // bits 7, 5, 3 and 1 of the place are the place in x, the others that in y
    const auto bit = [&](int number) { return i >> number & 1; };
    const std::size_t of_x = bit(7) * 8 + bit(5) * 4 + bit(3) * 2 + bit(1);
    const std::size_t of_y = bit(6) * 8 + bit(4) * 4 + bit(2) * 2 + bit(0);
    CHECK(got[i] == (bit(0) == 0 ? twos[of_x] : -twos[of_y]));
  }
}

namespace {
/// The order of each of `count` columns, as one list in row-major order.
template <class T>
std::vector<std::int64_t> order_of_columns(const std::vector<T>& x, std::int64_t count) {
  const auto rows = static_cast<std::int64_t>(x.size()) / count;
  std::vector<std::int64_t> order(x.size());
  for (std::int64_t c = 0; c < count; ++c) {
    std::vector<std::int64_t> places(static_cast<std::size_t>(rows));
    std::iota(places.begin(), places.end(), 0);
    const auto at = [&](std::int64_t row) { return x[static_cast<std::size_t>(row * count + c)]; };
    std::stable_sort(places.begin(), places.end(),
                     [&](std::int64_t a, std::int64_t b) { return at(a) < at(b); });
    for (std::int64_t r = 0; r < rows; ++r)
      order[static_cast<std::size_t>(r * count + c)] = places[static_cast<std::size_t>(r)];
  }
  return order;
}
}  // namespace

TEST_CASE("columns beside one, two and three others are sorted alone") {
  for (const std::int64_t columns : {2, 3, 4})
    for (const std::int64_t rows : {9, 60}) {
      INFO(rows << " rows of " << columns);
      const Tensor x = (arange(0, rows * columns) * 37 % 101).reshape({rows, columns});
      const auto check = [&]<class T>(const Tensor& each, T) {
        CHECK(argsort(each, 0).to_vector<std::int64_t>() ==
              order_of_columns(each.to_vector<T>(), columns));
      };
      check(x, std::int64_t());
      check(cast(x, DType::int32), std::int32_t());
      check(cast(x, DType::uint8), std::uint8_t());
      check(cast(x, DType::float32), float());
      check(cast(x, DType::float64), double());
      check(x > 50, bool());
    }
}

TEST_CASE("no lines are sorted without memory for a line") {
  const std::int64_t length = std::int64_t{1} << 44;
  const Tensor none = zeros({0, length});
  CHECK(argsort(none, 1).shape() == Shape{0, length});
  CHECK(sort(none, 1).shape() == Shape{0, length});
}

TEST_CASE("whole numbers are counted in parts that begin above 0") {
  const Tensor x = tensor({0, 1, 2, 2, 3, 3, 3, 4, 5, -1});
  CHECK(equal(histogram(x, 4, 2, 4), tensor({2, 0, 3, 1})));
  CHECK(equal(histogram(x, 4, -4, 4), tensor({0, 1, 2, 6})));
  CHECK(equal(histogram(x, 4, 0, 4), tensor({1, 1, 2, 4})));
}
}  // namespace reel::tests
