// SPDX-License-Identifier: BSD-3-Clause
// The limits of arguments: ops accept the last valid value, and refuse the next one.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
using Lengths = std::vector<std::int64_t>;
}  // namespace

TEST_CASE("split takes parts of no elements, one part, and 8 axes") {
  const Tensor x = arange(0, 6).reshape({3, 2});
  const std::vector<Tensor> parts = split(x, Lengths{2, 0, 1}, 0);
  REQUIRE(parts.size() == 3);
  CHECK(equal(parts[0], tensor({{0, 1}, {2, 3}})));
  CHECK(parts[1].shape() == Shape{0, 2});
  CHECK(equal(parts[2], tensor({{4, 5}})));
  const std::vector<Tensor> whole = split(x, 1, 1);
  REQUIRE(whole.size() == 1);
  CHECK(equal(whole[0], x));
  check_refused<ShapeError>(
      [&] {
        split(x, Lengths{2, 2}, 0);
      },
      "lengths: expected lengths that add up to 3, got more");
  check_refused<ShapeError>([&] { split(x, Lengths{1, 1}, 0); }, "got 1 less");
  check_refused<ShapeError>([&] { split(x, Lengths{4, -1}, 0); }, "got more");
  check_refused<ShapeError>([&] { split(x, Lengths{most, most, 5}, 0); }, "got more");
  check_refused<ShapeError>([&] { split(x, 0, 0); }, "parts: expected a number that divides");
  check_refused<ShapeError>([&] { split(x, -3, 0); }, "parts: expected a number that divides");
  check_refused<ShapeError>([&] { split(x, 2, 0); }, "parts: expected a number that divides");

  const Tensor deep = arange(0.0, 12.0).reshape({1, 2, 1, 3, 1, 1, 2, 1});
  GradientTape tape;
  tape.watch(deep);
  const std::vector<Tensor> slices = split(deep, Lengths{1, 2}, 3);
  CHECK(slices[1].shape() == Shape{1, 2, 1, 2, 1, 1, 2, 1});
  CHECK(equal(sum(slices[0]), 0.0f + 1 + 6 + 7));
  const Tensor slope = tape.gradient(slices[1] * slices[1], deep);
  CHECK(equal(slope.reshape({2, 3, 2})(all, 0), zeros({2, 2})));
  CHECK(equal(slope.reshape({2, 3, 2})(0, 2), tensor({8.0f, 10.0f})));
}

TEST_CASE("a range of one step, of none and of the longest stride") {
  CHECK(equal(arange(0, 3, most), tensor({0})));
  CHECK(equal(arange(3, 0, -most), tensor({3})));
  CHECK(arange(3, 3).size() == 0);
  CHECK(arange(3, 0).size() == 0);
  CHECK(equal(arange(0, 3, 1), tensor({0, 1, 2})));
  CHECK(equal(arange(0, 5, 2), tensor({0, 2, 4})));
  CHECK(equal(arange(0, 4, 2), tensor({0, 2})));
  CHECK(equal(arange(5, 0, -2), tensor({5, 3, 1})));
  CHECK(equal(arange(4, 0, -2), tensor({4, 2})));
  check_refused<Error>([] { arange(0, 3, 0); }, "step: expected a finite step other than 0");
  check_refused<Error>([] { arange(0.0, 3.0, 0.0); }, "step: expected a finite step");
  check_refused<Error>([] { arange(0.0, 3.0, inf); }, "step: expected a finite step");
  check_refused<Error>([] { arange(nan, 3.0, 1.0); }, "start: expected a number");
  check_refused<ShapeError>([] { arange(0.0, inf, 1.0); }, "a finite range of at most 2^58");
  check_refused<ShapeError>([] { arange(0, most, 1); }, "a finite range of at most 2^58");
}

TEST_CASE("distributions take the ends of their ranges") {
  const GeneratorScope scope(Generator(3));
  CHECK(equal(random::normal({4}, {.mean = 2, .stddev = 0}), full({4}, 2.0f)));
  CHECK(equal(random::uniform({4}, {.low = 2, .high = 2}), full({4}, 2.0f)));
  CHECK(equal(random::integers(5, 6, {4}), full({4}, 5)));
  CHECK(equal(random::bernoulli(0, {50}), full({50}, false)));
  CHECK(equal(random::bernoulli(1, {50}), full({50}, true)));
  CHECK(equal(dropout(ones({50}), 0), ones({50})));
  CHECK(random::normal({0, 3}).shape() == Shape{0, 3});
  check_refused<Error>([] { random::normal({4}, {.stddev = -1e-9}); }, "stddev: expected at least");
  check_refused<Error>([] { random::normal({4}, {.mean = 1e300}); }, "mean: expected a finite");
  check_refused<Error>([] { random::normal({4}, {.mean = nan}); }, "mean: expected a finite");
  check_refused<Error>([] { random::uniform({4}, {.low = 1, .high = 0.5}); }, "uniform");
  check_refused<Error>([] { random::uniform({4}, {.low = -inf}); }, "low: expected a finite");
  check_refused<Error>([] { random::integers(5, 5, {4}); }, "integers");
  for (const double p : {-1e-9, 1 + 1e-9, nan})
    check_refused<Error>([&] { random::bernoulli(p, {4}); }, "bernoulli: probability");
  for (const double p : {-1e-9, 1.0, nan})
    check_refused<Error>([&] { dropout(ones({4}), p); }, "dropout: probability");
  check_refused<ShapeError>([] { random::normal({2, -1}); }, "lengths of at least 0");
  check_refused<DTypeError>([] { random::normal({4}, {.dtype = DType::int32}); },
                            "dtype: expected float32 or float64");
  const Tensor far = random::normal({4}, {.mean = 1e300, .dtype = DType::float64});
  CHECK(static_cast<bool>(all((far > 9e299) & (far < inf))));
}

TEST_CASE("numbers keep their digits where they become tensors") {
  CHECK(cast(0.1, DType::float64).item<double>() == 0.1);
  CHECK(cast(0.1, DType::float32).item<float>() == 0.1f);
  CHECK(cast(2.9, DType::int32).item<std::int32_t>() == 2);
  CHECK(cast(most, DType::int64).item<std::int64_t>() == most);
  CHECK(allclose(0.1, tensor<double>(0.1), {.rtol = 0, .atol = 0}));
  CHECK(!allclose(tensor(0.1f), 0.1, {.rtol = 1e-10, .atol = 0}));
  // Doubles beyond 2^53 are even integers.
  const Tensor odd = tensor(std::int64_t{(1LL << 53) + 1}), even = tensor<double>(0x1p53);
  CHECK(!allclose(odd, even, {.rtol = 0, .atol = 0.5}));
  CHECK(allclose(odd, even, {.rtol = 0, .atol = 1}));
  CHECK(!allclose(even, odd, {.rtol = 0, .atol = 0.5}));
  CHECK(!allclose(tensor(most), tensor(-most), {.rtol = 0, .atol = 1e18}));
}

TEST_CASE("NaN is close to NaN only if the call says so") {
  const Tensor x = tensor({1.0, NAN}), y = tensor({1.0, 2.0});
  CHECK_FALSE(allclose(x, x));
  CHECK(allclose(x, x, {.equal_nan = true}));
  CHECK(allclose(x, cast(x, DType::float64), {.equal_nan = true}));
  CHECK_FALSE(allclose(x, y, {.equal_nan = true}));
  CHECK_FALSE(allclose(y, x, {.equal_nan = true}));
  CHECK_FALSE(allclose(x, tensor({1, 2}), {.equal_nan = true}));
}

TEST_CASE("layer_norm and cross_entropy at the ends of their arguments") {
  const Tensor x = tensor({{1.0, 3.0}, {-2.0, 2.0}}), one = ones({2}), zero = zeros({2});
  CHECK(equal(layer_norm(x, one, zero, 0), tensor({{-1.0, 1.0}, {-1.0, 1.0}})));
  for (const double epsilon : {-1e-9, inf, nan})
    check_refused<Error>([&] { layer_norm(x, one, zero, epsilon); }, "epsilon: expected a finite");
  // Scores with more axes, compared with the formula.
  const Tensor scores = random::normal({2, 3, 4}, {.dtype = DType::float64});
  const Tensor labels = tensor({{0, 1, 3}, {2, 2, 0}});
  const Tensor logs = scores - log(sum(exp(scores), -1, keepdims));
  const Tensor losses = -sum(logs * one_hot(labels, 4, DType::float64), -1);
  CHECK(allclose(nn::cross_entropy(scores, labels, Reduction::none), losses, {.rtol = 1e-12}));
  CHECK(nn::cross_entropy(scores, labels, Reduction::none).shape() == Shape{2, 3});
  CHECK(allclose(nn::cross_entropy(scores, labels, Reduction::sum), sum(losses), {.rtol = 1e-12}));
  CHECK(allclose(nn::cross_entropy(scores, labels), mean(losses), {.rtol = 1e-12}));
  check_refused<ShapeError>([&] { nn::cross_entropy(tensor(1.0), tensor(0)); },
                            "scores: expected an axis of classes");
  check_refused<ShapeError>([&] { nn::cross_entropy(scores, labels(0)); },
                            "labels: expected shape");
  check_refused<ShapeError>([&] { nn::cross_entropy(scores(0), labels); },
                            "cross_entropy: labels: expected shape (3,)");
  check_refused<ShapeError>([&] { nn::cross_entropy(scores(0), labels(0, range(0, 2))); },
                            "cross_entropy: labels: expected shape (3,)");
  check_refused<IndexError>([&] { nn::cross_entropy(scores, labels + one_hot(2, 3, int64)); },
                            "cross_entropy: labels: expected an index in [0, 4), got 4 at [0, 2]");
}

TEST_CASE("products say which lengths do not fit") {
  const Tensor x = ones({2, 3}), y = ones({4, 5}), v = ones({3}), w = ones({4});
  check_refused<ShapeError>([&] { matmul(x, y); },
                            "y: expected length 3 in the second to last axis, as x is (2, 3), got");
  check_refused<ShapeError>([&] { matmul(x, w); }, "y: expected length 3, as x is (2, 3)");
  check_refused<ShapeError>([&] { matmul(v, y); },
                            "y: expected length 3 in the second to last axis, as x is (3,)");
  check_refused<ShapeError>([&] { matmul(v, w); }, "y: expected length 3, as x is (3,)");
  check_refused<ShapeError>([&] { matmul(v, tensor(1.0)); }, "y: expected at least 1 axis");
  check_refused<ShapeError>([&] { matmul(tensor(1.0), v); }, "x: expected at least 1 axis");
  check_refused<ShapeError>(
      [&] {
        matmul(ones({2, 4, 3}), ones({3, 3, 2}));
      },
      "leading axes that broadcast");
  check_refused<ShapeError>([&] { dense(x, y, ones({5}), Activation::relu); },
                            "weight: expected length 3 in the second to last axis, as x is (2, 3)");
  check_refused<ShapeError>([&] { dense(x, w, w, Activation::relu); }, "weight: expected a matrix");
  check_refused<ShapeError>([&] { matmul_add(ones({1, 2, 3}), x, v); }, "x: expected a matrix");
  check_refused<ShapeError>(
      [&] {
        matmul_add(x, ones({3, 4}), v);
      },
      "z: expected a shape that broadcasts to (2, 4)");
  std::string text;
  try {
    matmul(x, ones({4, 3}));
  } catch (const ShapeError& error) {
    text = error.what();
  }
  CHECK(text.find("Transpose y?") != text.npos);
}

TEST_CASE("steps of several Variables name the one that does not fit, and each must be another") {
  const Variable a("a", ones({2})), b("b", ones({3})), n("n", tensor({1, 2}));
  Variable c("c", ones({2})), m("m", zeros({2})), v("v", zeros({2}));
  const std::vector<Variable> both = {a, b}, twice = {a, a}, whole = {a, n};
  const std::vector<Tensor> fit = {ones({2}), ones({3})}, wrong = {ones({2}), ones({2})};
  check_refused<ShapeError>([&] { sgd_update(both, wrong, 0.1); },
                            "gradient 1: expected the Variable's shape (3,), got (2,)");
  check_refused<ShapeError>([&] { sgd_update(c, ones({3}), 0.1); },
                            "gradient: expected the Variable's shape (2,), got (3,)");
  check_refused<DTypeError>([&] { sgd_update(c, ones({2}, {DType::float64}), 0.1); },
                            "gradient: expected the Variable's float32, got float64");
  check_refused<DTypeError>(
      [&] {
        sgd_update(whole, std::vector<Tensor>{ones({2}), tensor({1, 2})}, 0.1);
      },
      "x 1: expected float32 or float64, got int32");
  check_refused<Error>(
      [&] {
        sgd_update(twice, std::vector<Tensor>{ones({2}), ones({2})}, 0.1);
      },
      "x 1: expected a Variable of its own, got the same Variable as x 0");
  check_refused<Error>([&] { momentum_update(c, c, ones({2}), 0.1, {.momentum = 0.5}); },
                       "velocity: expected a Variable of its own, got the same Variable as x");
  check_refused<ShapeError>([&] { sgd_update(c, ones({2}), ones({2})); }, "rate: expected one");
  check_refused<Error>([&] { sgd_update(c, ones({2}), Tensor()); }, "rate: expected a number");
  check_refused<Error>([&] { sgd_update(both, std::vector<Tensor>{ones({2})}, 0.1); },
                       "x: expected as many as gradients, 1, got 2");
  check_refused<Error>([&] { momentum_update(c, m, ones({2}), 0.1, {.momentum = nan}); },
                       "momentum: expected a finite number");
  check_refused<DTypeError>([&] { adam_update(c, m, v, ones({2}), 0.1, 1.5, {}); },
                            "step: expected int32 or int64");
  check_refused<Error>([&] { adam_update(c, m, v, ones({2}), 0.1, Tensor(), {}); },
                       "step: expected a number");
  check_refused<Error>([&] { adam_update(c, m, v, ones({2}), 0.1, 1, {.beta1 = inf}); },
                       "beta1: expected a finite number");
  CHECK(equal(c, ones({2})));
  CHECK(equal(a, ones({2})));
  sgd_update(both, fit, tensor({0.5}));
  CHECK(equal(b, full({3}, 0.5f)));
  adam_update(c, m, v, ones({2}), tensor(0.25f), tensor(std::int32_t{1}), {});
  CHECK(allclose(c, full({2}, 0.75f)));
}

TEST_CASE("a new axis behind the others is recorded as one before them is") {
  const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor behind = x(ellipsis, newaxis), before = x(newaxis),
               both = x(0, newaxis, all, newaxis);
  CHECK(behind.shape() == Shape{2, 2, 1});
  CHECK(before.shape() == Shape{1, 2, 2});
  CHECK(both.shape() == Shape{1, 2, 1});
  CHECK(equal(both.reshape({2}), tensor({1.0f, 2.0f})));
  CHECK(equal(tape.gradient(behind * behind, x), 2.0f * x));
  CHECK(equal(tape.gradient(before * before, x), 2.0f * x));
  CHECK(equal(tape.gradient(both * both, x), tensor({{2.0f, 4.0f}, {0.0f, 0.0f}})));
}

TEST_CASE("products of float32 and float64 matrices are those of float64") {
  const Tensor x = tensor({{0.1f, 0.2f}, {0.3f, 0.4f}}),
               y = tensor<double>({{0.5, 1.5}, {2.5, 3.5}});
  for (const bool swapped : {false, true}) {
    const Tensor left = swapped ? y : x, right = swapped ? x : y;
    const Tensor product = matmul(left, right);
    CHECK(product.dtype() == DType::float64);
    const auto a = left.to(DType::float64), b = right.to(DType::float64);
    for (int i = 0; i < 2; ++i)
      for (int k = 0; k < 2; ++k)
        CHECK(product(i, k).item<double>() ==
              Approx(a(i, 0).item<double>() * b(0, k).item<double>() +
                     a(i, 1).item<double>() * b(1, k).item<double>())
                  .epsilon(1e-14));
  }
  check_refused<DTypeError>([] { matmul(tensor({{1, 2}}), tensor({{1}, {2}})); }, "float");
}

TEST_CASE("allclose leaves nothing on a tape, and reads numbers with all their digits") {
  const Tensor x = tensor({1.0f, 2.0f});
  const Variable w("w", x);
  GradientTape tape;
  tape.watch(x);
  CHECK(allclose(x, x));
  CHECK(allclose(x, tensor<double>({1.0, 2.0})));
  CHECK(allclose(w, x));
  CHECK(!allclose(x, 1.0));
  CHECK(tape.ops().empty());
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  CHECK(!allclose(odd, tensor(odd - 1), {.rtol = 0, .atol = 0.5}));
  CHECK(!allclose(tensor(odd - 1), odd, {.rtol = 0, .atol = 0.5}));
  check_refused<Error>([&] { allclose(Tensor(), x); }, "x: expected a tensor");
  check_refused<Error>([&] { allclose(x, Tensor()); }, "y: expected a tensor");
  for (const double bad : {-1e-9, nan}) {
    check_refused<Error>([&] { allclose(x, x, {.rtol = bad}); }, "rtol: expected at least 0");
    check_refused<Error>([&] { allclose(x, x, {.atol = bad}); }, "atol: expected at least 0");
  }
}

TEST_CASE("positions are integers, and parts that are stacked have one shape") {
  const Tensor x = ones({2, 3});
  check_refused<DTypeError>([&] { gather(x, zeros({2, 3}), 1); }, "gather: indices");
  check_refused<DTypeError>([&] { take(x, zeros({2})); }, "take: indices");
  check_refused<DTypeError>(
      [&] {
        scatter_add(x, zeros({1}), ones({1, 3}), 0);
      },
      "scatter_add: indices");
  check_refused<IndexError>([&] { gather(x, tensor({{0, 3}}), 1); }, "3");
  check_refused<ShapeError>(
      [&] {
        stack({ones({2}), ones({3}), ones({3})});
      },
      "part 1: expected the shape of part 0 (2,), got (3,)");
  check_refused<ShapeError>(
      [&] {
        stack({ones({2}), ones({2}), ones({3})});
      },
      "part 2: expected the shape of part 0 (2,), got (3,)");
  CHECK(stack({ones({2})}).shape() == Shape{1, 2});
}

TEST_CASE("products of a batch that is large or in reverse are those of the CPU") {
  const auto check = [](const Tensor& x, const Tensor& y) {
    CHECK(allclose(matmul(x, y).to(cpu()), matmul(x.to(cpu()), y.to(cpu()))));
  };
  check(random::uniform({70'000, 1, 2}), random::uniform({70'000, 2, 3}));
  const Tensor x = random::uniform({5, 3, 2}), y = random::uniform({5, 2, 3});
  check(x(range({}, {}, -1)), y);
  check(x, y(range({}, {}, -1)));
}
}  // namespace reel::tests
