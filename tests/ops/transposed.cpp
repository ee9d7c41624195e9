// SPDX-License-Identifier: BSD-3-Clause
// Pointwise ops of a row-major and a transposed matrix, compared element by element.
#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
struct Case {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> op;
  std::function<double(double, double)> one;
};
const Case cases[] = {
    {"add", [](auto& x, auto& y) { return x + y; }, [](double x, double y) { return x + y; }},
    {"subtract", [](auto& x, auto& y) { return x - y; }, [](double x, double y) { return x - y; }},
    {"multiply", [](auto& x, auto& y) { return x * y; }, [](double x, double y) { return x * y; }},
    {"maximum", [](auto& x, auto& y) { return maximum(x, y); },
     [](double x, double y) { return std::fmax(x, y); }},
    {"power", [](auto& x, auto& y) { return power(x * x, y); },
     [](double x, double y) { return std::pow(x * x, y); }},
    {"less", [](auto& x, auto& y) { return x < y; }, [](double x, double y) { return x < y; }}};

/// Checks that op(x, y) has the values of one(). x or y is column-major.
void check(const Case& c, const Tensor& x, const Tensor& y) {
  const auto rows = x.shape()[0], columns = x.shape()[1];
  INFO(c.name << " of " << rows << " x " << columns << ", " << name_of(x.dtype()));
  const auto a = cast(x, DType::float64).to_vector<double>(),
             b = cast(y, DType::float64).to_vector<double>();
  const double most = x.dtype() == DType::float32 ? 1e-5 : 1e-13;
  // rows are computed from the first and from the last in turn
  for (int time = 0; time < 2; ++time) {
    const auto got = cast(c.op(x, y), DType::float64).to_vector<double>();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double wanted = c.one(a[i], b[i]);
      wrong += !(std::abs(got[i] - wanted) <= most * std::abs(wanted));
    }
    CHECK(wrong == 0);
  }
}
/// Smaller than a square of registers, exactly one, some that overlap, several blocks, and sizes
/// that threads share.
const std::vector<std::pair<std::int64_t, std::int64_t>> lengths = {
    {3, 5},     {16, 16},   {17, 33},    {16, 40},   {40, 15},
    {130, 300}, {300, 129}, {257, 1100}, {600, 700}, {256, 256}};

/// Checks that a transposed matrix is copied in the right order.
template <class T>
void check_copy(std::int64_t rows, std::int64_t columns, DType dtype) {
  INFO(rows << " x " << columns << ", " << name_of(dtype));
  const Tensor x = cast(remainder(arange(0, rows * columns), 251).reshape({rows, columns}), dtype);
  const auto in_order = x.to_vector<T>(), by_columns = transpose(x).to_vector<T>();
  std::size_t wrong = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      wrong += by_columns[static_cast<std::size_t>(c * rows + r)] !=
               in_order[static_cast<std::size_t>(r * columns + c)];
  CHECK(wrong == 0);
}
}  // namespace

TEST_CASE("a transposed matrix is copied in order", "[transposed]") {
  for (const auto& [rows, columns] : lengths) {
    check_copy<std::uint8_t>(rows, columns, DType::uint8);
    check_copy<float>(rows, columns, DType::float32);
    check_copy<double>(rows, columns, DType::float64);
    check_copy<std::int64_t>(rows, columns, DType::int64);
  }
}

TEST_CASE("a transposed operand on either side", "[transposed]") {
  const GeneratorScope here(Generator(3));
  for (const auto& [rows, columns] : lengths)
    for (const DType dtype : {DType::float32, DType::float64}) {
      const Tensor x = random::uniform({rows, columns}, {0.5, 1.5, dtype});
      const Tensor y = random::uniform({columns, rows}, {0.5, 1.5, dtype});
      for (const Case& c : cases) {
        if (rows * columns > 100'000 && c.name != std::string_view("subtract")) continue;
        check(c, x, transpose(y));
        check(c, transpose(y), x);
      }
    }
}

TEST_CASE("a transposed operand's gradient", "[transposed]") {
  const Tensor x = random::normal({20, 18}), y = random::normal({18, 20});
  for (const bool first : {false, true}) {
    GradientTape tape;
    tape.watch(x);
    tape.watch(y);
    const Tensor z = first ? transpose(y) * x : x * transpose(y);
    const auto gradients = tape.gradient(sum(z), {x, y});
    CHECK(allclose(gradients[0], transpose(y)));
    CHECK(allclose(gradients[1], transpose(x)));
  }
}

TEST_CASE("neither operand is written to", "[transposed]") {
  const Tensor x = full({32, 32}, 1.0f), y = full({32, 32}, 2.0f);
  // an op may take over the memory of these temporaries
  const Tensor z = (x + 0) - transpose(y + 0);
  CHECK(allclose(z, full({32, 32}, -1.0f)));
  CHECK(allclose(x + transpose(y), full({32, 32}, 3.0f)));
  CHECK(allclose(y, full({32, 32}, 2.0f)));
}

TEST_CASE("every second column of a transposed operand", "[transposed]") {
  for (const std::int64_t n : {16, 33, 64}) {
    const Tensor wide = arange(0.0f, static_cast<float>(2 * n * n)).reshape({n, 2 * n});
    const Tensor half = transpose(wide(all, range({}, {}, 2)));
    const Tensor other = arange(0.0f, static_cast<float>(n * n)).reshape({n, n}) * 0.5f;
    const std::vector<float> sums = (half + other).to_vector<float>();
    const std::vector<float> less = (other - half).to_vector<float>();
    std::int64_t wrong = 0;
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t c = 0; c < n; ++c) {
        const auto at = static_cast<std::size_t>(r * n + c);
        const auto a = static_cast<float>(c * 2 * n + 2 * r), b = static_cast<float>(at) * 0.5f;
        wrong += sums[at] != a + b || less[at] != b - a;
      }
    CHECK(wrong == 0);
  }
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
}  // namespace reel::tests
