// SPDX-License-Identifier: BSD-3-Clause
// Products, variances, norms, logarithms of sums and quantiles, compared with plain loops.
#include <reel/ops/statistics.hpp>

#include <cmath>
#include <limits>

#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
Tensor row(std::vector<double> x) { return from_span(x, {static_cast<std::int64_t>(x.size())}); }

/// f(x) of all elements, and of each row; by the library and by a loop.
template <class F, class G>
void check_loop(const F& f, const G& loop) {
  const GeneratorScope scope(Generator(7));
  const Tensor x = numbers({3, 4, 5});
  const std::vector<double> values = x.to_vector<double>();
  require_near(f(x, Axes::every(), Keepdims::no), {loop(values)});
  CHECK(f(x, Axes::every(), keepdims).shape() == Shape{1, 1, 1});
  std::vector<double> rows, pairs;
  for (std::size_t i = 0; i < 12; ++i)
    rows.push_back(loop(std::vector<double>(&values[5 * i], &values[5 * i] + 5)));
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<double> group;
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t k = 0; k < 5; ++k) group.push_back(values[(a * 4 + i) * 5 + k]);
    pairs.push_back(loop(group));
  }
  require_near(f(x, 2, Keepdims::no), rows);
  require_near(f(x, {0, -1}, Keepdims::no), pairs);
  CHECK(f(x, {0, 2}, keepdims).shape() == Shape{1, 4, 1});
  CHECK(f(x, {0, 2}, Keepdims::no).shape() == Shape{4});
  CHECK(f(x, Axes::every(), Keepdims::no).shape() == Shape{});
  CHECK(allclose(f(transpose(x), {0, 2}, Keepdims::no), f(x, {0, 2}, Keepdims::no)));
  const Variable w("w", x);
  for (const Axes& axes : {Axes::every(), Axes(1), Axes({0, 2})})
    check_gradients({w}, [&] { return f(w, axes, Keepdims::no); });
}
std::vector<double> slope_of(std::vector<double> at, Tensor (*f)(Operand)) {
  const Variable x("x", row(at));
  GradientTape tape;
  return tape.gradient(f(x), x).to_vector<double>();
}
}  // namespace

TEST_CASE("the product of elements, and its gradient at zeros") {
  check_loop([](Operand x, Axes axes, Keepdims keep) { return prod(x, axes, keep); },
             [](const std::vector<double>& x) {
               double product = 1;
               for (double each : x) product *= each;
               return product;
             });
  CHECK(prod(zeros({0})).item<float>() == 1);
  CHECK(prod(cast(tensor({200, 200}), DType::uint8)).item<std::int64_t>() == 40000);
  for (const std::vector<double>& zeros :
       {std::vector<double>{2, 0, 3, 5, 7, 1}, {2, 0, 3, 0, 1, 4}, {0, 0, 0, 1, 2, 3}}) {
    const Variable x("x", row(zeros).reshape({2, 3}));
    for (const Axes& axes : {Axes::every(), Axes(0), Axes(1)}) {
      check_gradients({x}, [&] { return prod(x, axes); });
      check_gradients({x}, [&] {
        GradientTape tape;
        return tape.gradient(sum(square(prod(x, axes))) + sum(prod(x, axes)), x);
      });
    }
  }
}

TEST_CASE("sum_to sums over the axes that a shape is broadcast along") {
  const Tensor x = tensor<double>({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  require_near(sum_to(x, {2, 1}), {6, 15});
  require_near(sum_to(x, {3}), {5, 7, 9});
  require_near(sum_to(x, {}), {21});
  CHECK(sum_to(x, {2, 1}).shape() == Shape{2, 1});
  check_refused<ShapeError>([&] { sum_to(x, {2}); },
                            "sum_to: shape: expected a shape that broadcasts to (2, 3), got (2,)");
  check_refused<DTypeError>([] { sum_to(tensor({1, 2}), {1}); }, "sum_to: x: expected ");
}
TEST_CASE("argmin is the first smallest, or the first NaN") {
  CHECK(argmin(row({2, 1, 1, 5})).item<std::int64_t>() == 1);
  CHECK(argmin(row({2, nan, 1, nan})).item<std::int64_t>() == 1);
  CHECK(equal(argmin(tensor({{5, 1}, {2, 7}}), 0), tensor({1, 0})));
  check_refused<ShapeError>([] { argmin(zeros({0})); }, "argmin: x: expected at least one");
}

TEST_CASE("count_nonzero counts NaN and negative numbers") {
  CHECK(count_nonzero(row({0, -0.0, nan, -3, inf})).item<std::int64_t>() == 3);
  CHECK(equal(count_nonzero(tensor({{true, false}, {true, true}}), 0), tensor({2, 1})));
  CHECK(count_nonzero(zeros({0})).item<std::int64_t>() == 0);
  check_refused<ShapeError>([] { count_nonzero(ones({2}), 1); }, "count_nonzero: axis: ");
}

namespace {
double variance(const std::vector<double>& x, double correction) {
  const auto n = static_cast<double>(x.size());
  long double sum = 0, squares = 0;
  for (double each : x) sum += each;
  for (double each : x) squares += (each - sum / n) * (each - sum / n);
  return static_cast<double>(squares / (n - correction));
}
}  // namespace

TEST_CASE("variance and standard deviation") {
  for (const double correction : {0, 1}) {
    const VarianceOptions options{correction};
    check_loop([=](Operand x, Axes axes, Keepdims keep) { return var(x, axes, keep, options); },
               [=](const std::vector<double>& x) { return variance(x, correction); });
    check_loop([=](Operand x, Axes axes, Keepdims keep) { return stddev(x, axes, keep, options); },
               [=](const std::vector<double>& x) { return std::sqrt(variance(x, correction)); });
  }
  // The mean of float32 is rounded by 4 here.
  CHECK(var(tensor({1e8f, 1e8f + 8})).item<float>() == 16);
  CHECK(var(tensor({1, 2, 3, 4})).item<float>() == 1.25f);
  CHECK(var(full({1000}, 0.1f)).item<float>() < 1e-14f);
  CHECK(std::isnan(var(zeros({0})).item<float>()));
  CHECK(std::isnan(var(zeros({1}), Axes::every(), Keepdims::no, {.correction = 1}).item<float>()));
  CHECK(slope_of({2, 2}, [](Operand x) { return stddev(x); }) == std::vector<double>{0, 0});
  check_refused<ShapeError>([] { var(ones({2}), 1); }, "var: axis: expected ");
  check_refused<Error>([] { stddev(Tensor()); }, "stddev: x: expected ");
}

TEST_CASE("variance and deviation of numbers near the ends of their range") {
  for (const double size : {1e30, 1e19, 1e-19, 1e-30}) {
    const Tensor x = size * tensor<double>({1, 2, 3, 4});
    CHECK(stddev(x.to(DType::float32)).item<float>() == Approx(size * std::sqrt(1.25)));
    const double exact = 1.25 * size * size;
    if (size < 1e30 && size > 1e-30)
      CHECK(var(x.to(DType::float32)).item<float>() == Approx(exact).epsilon(1e-5));
  }
  for (const double size : {1e200, 1e-200})
    CHECK(stddev(size * tensor<double>({1, 2, 3, 4})).item<double>() ==
          Approx(size * std::sqrt(1.25)));
}

TEST_CASE("norms") {
  for (const double p : {1.0, 2.0, 3.0, 1.5, inf}) {
    const NormOptions options{p};
    check_loop([=](Operand x, Axes axes, Keepdims keep) { return norm(x, axes, keep, options); },
               [=](const std::vector<double>& x) {
                 double sum = 0, most = 0;
                 for (double each : x) {
                   sum += std::pow(std::abs(each), p);
                   most = std::max(most, std::abs(each));
                 }
                 return p == inf ? most : std::pow(sum, 1 / p);
               });
  }
  CHECK(norm(tensor({3, -4})).item<float>() == 5);
  CHECK(norm(tensor({1, 4, 0}), 0, Keepdims::no, {.p = 0.5}).item<float>() == 9);
  CHECK(norm(tensor({3e30f, 4e30f})).item<float>() == 5e30f);
  CHECK(norm(tensor({3e-30f, 4e-30f})).item<float>() == 5e-30f);
  CHECK(norm(row({3e300, 4e300})).item<double>() == 5e300);
  CHECK(norm(row({1, -inf})).item<double>() == inf);
  CHECK(std::isnan(norm(row({1, nan})).item<double>()));
  CHECK(norm(zeros({0})).item<float>() == 0);
  CHECK(slope_of({0, 0}, [](Operand x) { return norm(x); }) == std::vector<double>{0, 0});
  CHECK(slope_of({3e300, 4e300}, [](Operand x) { return norm(x); })[0] > 0.59);
  CHECK(std::isnan(slope_of({1, nan}, [](Operand x) { return norm(x); })[1]));
  check_refused<Error>([] { norm(ones({2}), 0, keepdims, {.p = 0}); }, "norm: p: expected ");
  check_refused<Error>([] { norm(ones({2}), 0, keepdims, {.p = nan}); }, "norm: p: expected ");
  check_refused<ShapeError>([] { norm(ones({2}), 1); }, "norm: axis: expected ");
}

TEST_CASE("statistics of integers are float32, and those of nothing have no elements") {
  const Tensor x = tensor({3, -4});
  for (const double p : {0.5, 1.0, 2.0, inf})
    CHECK(norm(x, 0, Keepdims::no, {p}).dtype() == float32);
  for (const Tensor& y : {var(x), stddev(x), logsumexp(x), median(x), quantile(x, 0.5)})
    CHECK(y.dtype() == float32);
  CHECK(norm(x, 0, Keepdims::no, {1}).item<float>() == 7);
  CHECK(logsumexp(tensor({200, 255}).to(uint8)).item<float>() == 255);
  CHECK(var(zeros({0, 3}), 1).shape() == Shape{0});
  CHECK(stddev(zeros({0, 3}), 1).shape() == Shape{0});
  CHECK(norm(zeros({0, 3}), 1, Keepdims::no, {3}).shape() == Shape{0});
}

TEST_CASE("statistics of all elements keep their axes as sum() does") {
  const Tensor x = row({1, 5, 3});
  CHECK(equal(median(x, keepdims), row({3})));
  CHECK(equal(quantile(x, 0.25, keepdims), row({2})));
  CHECK(equal(norm(x, keepdims, {.p = 1}), row({9})));
  CHECK(equal(var(x, keepdims, {.correction = 1}), row({4})));
  CHECK(equal(stddev(x, keepdims, {.correction = 1}), row({2})));
  CHECK(equal(prod(x, keepdims), row({15})));
  CHECK(equal(argmin(x, keepdims), tensor<std::int64_t>({0})));
  CHECK(equal(count_nonzero(x, keepdims), tensor<std::int64_t>({3})));
  CHECK(logsumexp(x, keepdims).shape() == Shape{1});
}

TEST_CASE("gradients of means and of logsumexp of no elements have a gradient of 0") {
  for (const auto reduce : {+[](const Tensor& x) { return mean(x, 0); },
                            +[](const Tensor& x) { return logsumexp(x, 0); }}) {
    const Tensor x = zeros({0, 2}), dy = ones({2});
    GradientTape outer;
    outer.watch(x);
    outer.watch(dy);
    GradientTape inner;
    inner.watch(x);
    const Tensor dx = inner.gradient(reduce(x), x, {.upstream = dy});
    CHECK(equal(outer.gradient(sum(dx), dy, Unconnected::zero), zeros({2})));
  }
  CHECK(equal(logsumexp(zeros({0, 2}), 0), full({2}, -INFINITY)));
}

TEST_CASE("logsumexp") {
  check_loop([](Operand x, Axes axes, Keepdims keep) { return logsumexp(x, axes, keep); },
             [](const std::vector<double>& x) {
               double sum = 0;
               for (double each : x) sum += std::exp(each);
               return std::log(sum);
             });
  CHECK(logsumexp(row({1000, 1000})).item<double>() == 1000 + std::log(2));
  CHECK(logsumexp(row({-inf, -inf})).item<double>() == -inf);
  CHECK(logsumexp(row({-inf, 3})).item<double>() == 3);
  CHECK(logsumexp(row({inf, -inf})).item<double>() == inf);
  CHECK(logsumexp(row({inf, inf})).item<double>() == inf);
  CHECK(std::isnan(logsumexp(row({nan, inf})).item<double>()));
  CHECK(logsumexp(zeros({0})).item<float>() == -inf);
  CHECK(logsumexp(zeros({2, 0}), 1).shape() == Shape{2});
  const auto slope = [](Operand x) { return logsumexp(x); };
  CHECK(slope_of({-inf, -inf}, slope) == std::vector<double>{0, 0});
  require_near(slope_of({1000, -inf, 1000}, slope), {0.5, 0, 0.5}, 1e-15);
}

TEST_CASE("quantiles and the median") {
  for (const double q : {0.0, 0.25, 0.4, 1.0})
    check_loop([=](Operand x, Axes axes, Keepdims keep) { return quantile(x, q, axes, keep); },
               [=](std::vector<double> x) {
                 std::sort(x.begin(), x.end());
                 const double place = q * static_cast<double>(x.size() - 1);
                 const auto below = static_cast<std::size_t>(place);
                 const double above = below + 1 < x.size() ? x[below + 1] : x[below];
                 return x[below] + (place - static_cast<double>(below)) * (above - x[below]);
               });
  CHECK(median(tensor({7, 1, 3, 2})).item<float>() == 2.5f);
  CHECK(median(row({1, nan, 2})).item<double>() != median(row({1, nan, 2})).item<double>());
  CHECK(median(row({inf, inf})).item<double>() == inf);
  CHECK(median(tensor({5})).dtype() == DType::float32);
  check_refused<Error>([] { quantile(ones({2}), 1.5); }, "quantile: q: expected 0 to 1");
  check_refused<ShapeError>([] { median(zeros({0})); }, "median: x: expected at least one");
  check_refused<ShapeError>([] { median(ones({2}), 1); }, "median: axis: expected ");
  check_refused<Error>([] { median(Tensor()); }, "median: x: expected ");
}

TEST_CASE("sums of magnitudes are exact for whole numbers") {
  for (const DType dtype : {DType::float32, DType::float64})
    for (std::int64_t n = 2; n < 80; ++n) {
      const Tensor x = arange(1, n + 1).to(dtype) * tensor(-1.0).to(dtype);
      INFO(n);
      CHECK(norm(x, Keepdims::no, {.p = 1}).to(DType::float64).item<double>() ==
            static_cast<double>(n * (n + 1) / 2));
    }
}

TEST_CASE("many rows without elements are reduced and normalized") {
  const std::int64_t n = 1 << 21;
  const Tensor none = zeros({n, 0});
  CHECK(equal(sum(none, 1), zeros({n})));
  CHECK(equal(prod(none, 1), ones({n})));
  CHECK(softmax(none, 1).shape() == Shape({n, 0}));
  CHECK(cumsum(none, 1).shape() == Shape({n, 0}));
  CHECK(sort(none, 1).shape() == Shape({n, 0}));
  CHECK(take(zeros({4, 0}), zeros({n}, int64)).shape() == Shape({n, 0}));
  CHECK(layer_norm(none, ones({0}), ones({0})).shape() == Shape({n, 0}));
}
}  // namespace reel::tests
