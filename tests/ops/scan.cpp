// SPDX-License-Identifier: BSD-3-Clause
// Scans: special values, zeros, ties, long and wide tensors.
#include <reel/ops/scan.hpp>

#include <cmath>
#include <limits>

#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
Tensor row(std::vector<double> x) { return from_span(x, {static_cast<std::int64_t>(x.size())}); }
Variable source(std::vector<double> x) { return Variable("x", row(x)); }
}  // namespace

TEST_CASE("scans go on behind infinities and NaN") {
  const auto check = [](const Tensor& got, std::vector<double> expected) {
    const std::vector<double> values = got.to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("element " << i);
      CHECK((values[i] == expected[i] || (values[i] != values[i] && expected[i] != expected[i])));
    }
  };
  check(cumsum(row({1, inf, 2, -inf, 3})), {1, inf, inf, nan, nan});
  check(cumprod(row({2, inf, 0, 1})), {2, inf, nan, nan});
  check(cummax(row({-inf, 1, nan, 5})), {-inf, 1, nan, nan});
  check(cummax(row({3, nan, 5}), 0, {.reverse = true}), {nan, nan, 5});
  check(logcumsumexp(row({-inf, -inf, 0, inf, 1})), {-inf, -inf, 0, inf, inf});
  check(logcumsumexp(row({nan, 0})), {nan, nan});
  check(logcumsumexp(row({1000, 1000})), {1000, 1000 + std::log(2)});
}

TEST_CASE("scans of integers are those of int64") {
  CHECK(equal(cumsum(tensor({true, true, false, true})), tensor({1, 2, 2, 3})));
  CHECK(cumsum(tensor({true})).dtype() == DType::int64);
  CHECK(equal(cumprod(cast(tensor({200, 200, 2}), DType::uint8)), tensor({200, 40000, 80000})));
  CHECK(cummax(tensor({1, 3, 2})).dtype() == DType::int32);
  CHECK(logcumsumexp(tensor({0, 0})).dtype() == DType::float32);
}

TEST_CASE("a float32 sum of a million small numbers keeps its digits") {
  const Tensor y = cumsum(full({1 << 20}, 0.1f));
  const double expected = (1 << 20) * static_cast<double>(0.1f);
  CHECK(std::abs(y(-1).item<float>() - expected) < 1e-6 * expected);
}

TEST_CASE("rows and columns of large tensors are scanned as short ones are") {
  const Tensor x = numbers({3, 700, 300});
  const std::vector<double> values = x.to_vector<double>();
  const std::vector<std::size_t> steps = {700 * 300, 300, 1};
  for (const std::size_t axis : {0, 1, 2})
    for (const bool reverse : {false, true}) {
      std::vector<double> expected = values;
      const std::size_t step = steps[axis], n = static_cast<std::size_t>(x.shape().data()[axis]);
      for (std::size_t k = 0; k < expected.size(); ++k) {
        const std::size_t i = reverse ? expected.size() - 1 - k : k, at = i / step % n;
        if (at != (reverse ? n - 1 : 0)) expected[i] += expected[reverse ? i + step : i - step];
      }
      require_near(cumsum(x, static_cast<int>(axis), {reverse}), expected, 1e-11);
    }
}

TEST_CASE("the gradient of cumprod is exact at zeros, and so is its second") {
  const std::vector<std::vector<double>> lines = {{2, 0, 3, 4}, {0, 2, 0, 5}, {0, 0, 0},
                                                  {1, 2, 0},    {0},          {3}};
  for (const std::vector<double>& line : lines)
    for (const bool reverse : {false, true}) {
      const Variable x = source(line);
      check_gradients({x}, [&] { return cumprod(x, 0, {reverse}); });
      check_gradients({x}, [&] {
        GradientTape tape;
        const Tensor y = sum(cumprod(x, 0, {reverse}) * row({1, -2, 3, 5})(range({}, x.size())));
        return tape.gradient(y, x);
      });
    }
}

TEST_CASE("equal largest elements give cummax's gradient to the last of them") {
  const Variable x = source({1, 3, 3, 2, 3});
  const auto slope = [&](bool reverse) {
    GradientTape tape;
    return tape.gradient(sum(cummax(x, 0, {reverse})), x).to_vector<double>();
  };
  CHECK(slope(false) == std::vector<double>{1, 1, 2, 0, 1});
  CHECK(slope(true) == std::vector<double>{0, 2, 1, 0, 2});
}

TEST_CASE("NaN has the gradient of all results of cummax that it makes NaN") {
  const auto slope = [](const std::vector<double>& elements, bool reverse) {
    const Variable x("x", tensor(elements));
    GradientTape tape;
    return tape.gradient(sum(cummax(x, 0, {reverse})), x).to_vector<double>();
  };
  CHECK(slope({1, 3, nan, 2}, false) == std::vector<double>{1, 1, 2, 0});
  CHECK(slope({nan, 5, nan}, false) == std::vector<double>{2, 0, 1});
  CHECK(slope({1, nan, 0}, true) == std::vector<double>{0, 2, 1});
}

TEST_CASE("logcumsumexp's gradient is that of its exponentials") {
  const Variable x = source({1, -800, 700, 700.5, -3});
  for (const bool reverse : {false, true})
    check_gradients({x}, [&] { return logcumsumexp(x, 0, {reverse}); });
  const Variable hidden = source({-inf, -inf, 0, -inf});
  GradientTape tape;
  const Tensor slope = tape.gradient(sum(logcumsumexp(hidden)(range(2, 4))), hidden);
  CHECK(slope.to_vector<double>() == std::vector<double>{0, 0, 2, 0});
}

TEST_CASE("scans refuse axes that are not there") {
  check_refused<ShapeError>([] { cumsum(ones({2, 3}), 2); }, "cumsum: axis: expected ");
  check_refused<ShapeError>([] { cumprod(tensor(1.0), -2); }, "cumprod: axis: expected ");
  check_refused<Error>([] { logcumsumexp(Tensor()); }, "logcumsumexp: x: expected ");
}

TEST_CASE("scans and softmax of a single number are those of one element") {
  const Variable w("w", tensor(2.0));
  using Scan = Tensor (*)(Operand, AxisNumber, ScanOptions);
  for (const Scan f : {Scan(cumsum), Scan(cumprod), Scan(cummax), Scan(logcumsumexp)})
    for (const int axis : {0, -1})
      for (const bool reverse : {false, true}) {
        GradientTape tape;
        const Tensor y = f(w, axis, {reverse});
        CHECK(equal(y, w));
        CHECK(tape.gradient(y, w).item<float>() == 1);
      }
  CHECK(cumsum(tensor(true)).item<std::int64_t>() == 1);
  GradientTape tape;
  const Tensor y = softmax(w) + log_softmax(w, 0);
  CHECK(y.shape() == Shape());
  CHECK(y.item<float>() == 1);
  CHECK(tape.gradient(y, w).item<float>() == 0);
  check_refused<ShapeError>([&] { softmax(w, 1); }, "softmax: axis: expected ");
}
}  // namespace reel::tests
