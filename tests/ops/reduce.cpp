// SPDX-License-Identifier: BSD-3-Clause
// Reductions of views that are not in row-major order, and of integers.
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/peak.hpp"
#include "support/short.hpp"

namespace reel::tests {
namespace {
Tensor drawn(Shape shape, DType dtype) {
  static Generator generator(1);
  const GeneratorScope scope(generator);
  return (3 * random::normal(shape)).to(dtype);
}
/// Views of more elements than are copied at once, in layouts that cut blocks of rows, of parts of
/// rows, and of parts of columns.
std::vector<std::pair<const char*, Tensor>> large_views(DType dtype) {
  const Tensor row = drawn({1, 2001}, dtype), column = drawn({1301, 1}, dtype);
  return {{"transposed", transpose(drawn({1900, 1111}, dtype))},
          {"long rows", transpose(drawn({70001, 31}, dtype))},
          {"very long rows", transpose(drawn({700001, 3}, dtype))},
          {"short rows", transpose(drawn({9, 200001}, dtype))},
          {"reversed", drawn({1500, 1001}, dtype)(range({}, {}, -1), range({}, {}, -1))},
          {"stepped", drawn({1300, 2001}, dtype)(ellipsis, range(1, {}, 2))},
          {"repeated rows", broadcast_to(row, {1001, 2001})},
          {"repeated columns", broadcast_to(column, {1301, 1201})},
          {"one number", broadcast_to(drawn({1}, dtype), {2000001})},
          {"three axes", transpose(drawn({5, 700, 551}, dtype), {1, 0, 2})},
          {"four axes", transpose(drawn({20, 31, 40, 60}, dtype), {2, 0, 3, 1})}};
}
}  // namespace

TEST_CASE("reductions of large views have the bits of those of their copies", "[slow]") {
  for (const DType dtype : {DType::float64, DType::float32, DType::uint8}) {
    int number = 0;
    for (const auto& [name, view] : large_views(dtype)) {
      if (dtype != DType::float64 && (is_short() || number++ % 3 != 1)) continue;
      const Tensor copy = view + zeros({}, {dtype});
      const int rank = static_cast<int>(view.rank());
      for (unsigned gone = 1; gone < 1u << rank; ++gone) {
        INFO(name << " of " << name_of(dtype) << ", axes " << gone);
        std::vector<int> chosen;
        for (int axis = 0; axis < rank; ++axis)
          if (gone >> axis & 1) chosen.push_back(axis);
        const Axes axes{std::span<const int>(chosen)};
        CHECK(equal(sum(view, axes), sum(copy, axes)));
        CHECK(equal(max(view, axes), max(copy, axes)));
        CHECK(equal(norm(view, axes), norm(copy, axes)));
        if (chosen.size() == 1) CHECK(equal(argmin(view, axes), argmin(copy, axes)));
      }
      INFO(name << " of " << name_of(dtype));
      CHECK(equal(argmax(view), argmax(copy)));
    }
  }
}

TEST_CASE("NaN in a large view is the extreme, at its first position", "[slow]") {
  const Tensor places = reshape(arange(std::int64_t{0}, 700001 * 3), {700001, 3});
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x =
      where((places == 2000000) | (places == 1200001), nan, cast(places, DType::float64));
  const Tensor view = transpose(x), copy = view + 0;
  CHECK(equal(argmax(view), argmax(copy)));
  CHECK(equal(argmin(view, 1), argmin(copy, 1)));
  CHECK(isnan(max(view)).item<bool>());
}

TEST_CASE("reductions of views and of bytes take a block of memory", "[cpu][fork]") {
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  constexpr std::int64_t n = 1 << 24, limit = 24 * mebibyte;
  const auto check = [&](const char* name, auto f) {
    const std::int64_t peak = peak_of(f);
    INFO(name << ": " << peak / mebibyte << " MiB");
    CHECK(peak >= 0);
    CHECK(peak <= limit);
  };
  const Tensor x = ones({1024, n / 1024}), one = ones({1}), bytes = ones({2 * n}, {DType::uint8});
  check("broadcast", [&] { sum(broadcast_to(one, {n})); });
  check("transposed", [&] { sum(transpose(x)); });
  check("rows", [&] { sum(transpose(x), 1); });
  check("columns", [&] { max(transpose(x), 0); });
  check("reversed", [&] { argmax(x(range({}, {}, -1)), 0); });
  check("mean of bytes", [&] { mean(bytes); });
  check("unique bytes", [&] { unique(bytes); });
}

TEST_CASE("the mean of narrow integers is that of their exact sum") {
  const std::int64_t n = 1 << 20;
  const Tensor large = full({n}, std::int64_t{2147483647}, DType::int32);
  CHECK(mean(large).dtype() == DType::float32);
  CHECK(mean(large).item<float>() == 2147483648.0f);
  CHECK(mean(full({n}, std::int64_t{255}, DType::uint8)).item<float>() == 255);
  CHECK(equal(mean(tensor({{true, false}, {true, true}}), 0), tensor({1.0, 0.5})));
  CHECK(mean(tensor({{1, 2}, {5, 6}}).to(DType::int32), 1, keepdims).shape() == Shape{2, 1});
  CHECK(isnan(mean(zeros({0}, {DType::int32}))).item<bool>());
  CHECK(mean(zeros({0, 3}, {DType::int32}), 1).shape() == Shape{0});
  // int64 may be too large for its own sum.
  const Tensor huge = full({4}, std::int64_t{1} << 62);
  CHECK(mean(huge).item<float>() == 0x1p62f);
}

TEST_CASE("unique gives the values of bytes in order") {
  const Tensor x = cast(arange(std::int64_t{0}, 1000) * 7 % 256, DType::uint8);
  CHECK(equal(unique(x), cast(arange(std::int64_t{0}, 256), DType::uint8)));
  CHECK(equal(unique(cast(tensor({{255, 0}, {3, 255}}), DType::uint8)),
              cast(tensor({0, 3, 255}), DType::uint8)));
  CHECK(unique(zeros({0}, {DType::uint8})).shape() == Shape{0});
}
}  // namespace reel::tests
