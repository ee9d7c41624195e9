// SPDX-License-Identifier: BSD-3-Clause
// Linear algebra: residuals, gradients, and matrices that are refused.
#include <reel/ops/linalg.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr DType dtypes[] = {DType::float32, DType::float64};
double epsilon(DType dtype) {
  return dtype == DType::float64 ? std::numeric_limits<double>::epsilon()
                                 : std::numeric_limits<float>::epsilon();
}
double size_of_all(const Tensor& x) { return sqrt(sum(square(x.to(float64)))).item<double>(); }
/// |x - y| / (n eps |y|)
double error(const Tensor& x, const Tensor& y) {
  const double n = static_cast<double>(std::max<std::int64_t>(1, y.shape().end()[-1]));
  return size_of_all(x - y) / (n * epsilon(y.dtype()) * std::max(size_of_all(y), 1e-30));
}
Tensor transposed(const Tensor& x) { return matrix_transpose(x); }
Tensor numbers_of(Shape shape, DType dtype) { return random::normal(shape).to(dtype); }
Tensor positive(std::int64_t n, DType dtype) {
  const Tensor x = numbers_of({n, n}, dtype);
  return matmul(x, transposed(x)) / n + eye(n, {dtype});
}
bool is_lower(const Tensor& x) { return equal(tril(x), x); }
constexpr std::int64_t orders[] = {1, 2, 5, 15, 16, 17, 40, 100};
}  // namespace

TEST_CASE("factors of matrices of both dtypes multiply to the matrix") {
  for (const DType dtype : dtypes)
    for (const std::int64_t n : orders) {
      INFO(name_of(dtype) << " " << n);
      const Tensor a = numbers_of({n, n}, dtype) + eye(n, {dtype}) * 2, s = positive(n, dtype),
                   b = numbers_of({n, 3}, dtype), one = eye(n, {dtype});
      const Tensor l = linalg::cholesky(s);
      CHECK(error(matmul(l, transposed(l)), s) < 10);
      CHECK(is_lower(l));
      CHECK(error(matmul(s, linalg::solve(s, b)), b) < 100);
      CHECK(error(matmul(s, linalg::inverse(s)), one) < 100);
      CHECK(error(matmul(l, linalg::triangular_solve(l, b)), b) < 10);
      CHECK(error(matmul(transposed(l), linalg::triangular_solve(l, b, {.transposed = true})), b) <
            10);
      CHECK(error(linalg::triangular_solve(transposed(l), b, {.upper = true}),
                  linalg::triangular_solve(l, b, {.transposed = true})) < 10);
      for (const std::int64_t m : {n, n + 3, (n + 1) / 2}) {
        INFO(m);
        const Tensor x = numbers_of({n, m}, dtype);
        const auto [q, r] = linalg::qr(x);
        CHECK(error(matmul(q, r), x) < 10);
        CHECK(error(matmul(transposed(q), q), eye(std::min(n, m), {dtype})) < 10);
        CHECK(equal(triu(r), r));
        CHECK(all(diagonal(r) >= 0).item<bool>());
        const auto [u, w, vt] = linalg::svd(x);
        CHECK(error(matmul(u * w, vt), x) < 10);
        CHECK(error(matmul(transposed(u), u), eye(std::min(n, m), {dtype})) < 10);
        CHECK(error(matmul(vt, transposed(vt)), eye(std::min(n, m), {dtype})) < 10);
        CHECK(equal(w, sort(w, -1, {.descending = true})));
        const Tensor y = linalg::lstsq(x, b);
        CHECK(y.shape() == Shape({m, 3}));
        const Tensor rest = b - matmul(x, y);
        if (m >= n)
          CHECK(error(matmul(x, y), b) < 1e4);
        else
          CHECK(size_of_all(matmul(transposed(x), rest)) < 1e4 * epsilon(dtype) * size_of_all(b));
      }
      const auto [values, v] = linalg::eigh(s);
      CHECK(error(matmul(v * values, transposed(v)), s) < 10);
      CHECK(error(matmul(transposed(v), v), one) < 10);
      CHECK(equal(values, sort(values)));
      CHECK(error(linalg::eigvalsh(s), values) < 10);
      const auto [sign, log_of_det] = linalg::slogdet(s);
      CHECK(equal(sign, ones({}, {dtype})));
      CHECK(std::abs((sum(log(values)) - log_of_det).to(float64).item<double>()) <
            1e3 * epsilon(dtype) * static_cast<double>(n));
      CHECK(error(linalg::apply(linalg::apply(s, linalg::Function::log), linalg::Function::exp),
                  s) < 20);
      const Tensor root = linalg::apply(s, linalg::Function::sqrt);
      CHECK(error(matmul(root, root), s) < 20);
      CHECK(error(linalg::apply(s, linalg::Function::power, -1), linalg::inverse(s)) < 100);
    }
}

TEST_CASE("each matrix of a batch gives what it gives alone") {
  for (const DType dtype : dtypes)
    for (const std::int64_t n : {3, 20}) {
      const Tensor a = numbers_of({2, 40, n, n}, dtype) + 3 * eye(n, {dtype});
      const Tensor s = matmul(a, transposed(a)) + eye(n, {dtype}),
                   b = numbers_of({2, 40, n, 2}, dtype);
      const Tensor whole[] = {linalg::cholesky(s),
                              linalg::solve(a, b),
                              linalg::triangular_solve(a, b, {.upper = true}),
                              linalg::inverse(a),
                              linalg::det(a / 3),
                              linalg::slogdet(a).log,
                              linalg::qr(a).q,
                              linalg::eigh(s).vectors,
                              linalg::eigvalsh(s),
                              linalg::svd(a).vt,
                              linalg::apply(s, linalg::Function::sqrt)};
      for (const std::int64_t i : {0, 1})
        for (const std::int64_t k : {0, 7, 39}) {
          const Tensor x = a(i, k), y = s(i, k), z = b(i, k);
          const Tensor single[] = {linalg::cholesky(y),
                                   linalg::solve(x, z),
                                   linalg::triangular_solve(x, z, {.upper = true}),
                                   linalg::inverse(x),
                                   linalg::det(x / 3),
                                   linalg::slogdet(x).log,
                                   linalg::qr(x).q,
                                   linalg::eigh(y).vectors,
                                   linalg::eigvalsh(y),
                                   linalg::svd(x).vt,
                                   linalg::apply(y, linalg::Function::sqrt)};
          for (std::size_t f = 0; f < std::size(whole); ++f) {
            INFO("function " << f << " of " << n);
            // LAPACK's sums depend on the place of the matrix in memory.
            const double near = 1e4 * epsilon(dtype);
            CHECK(allclose(whole[f](i, k), single[f], {.rtol = near, .atol = near}));
          }
        }
    }
}

TEST_CASE("only the lower triangle of a symmetric matrix is read, and its gradient is symmetric") {
  const Tensor s = positive(4, float64), wrong = s + triu(full({4, 4}, NAN, {float64}), 1);
  CHECK(equal(linalg::cholesky(wrong), linalg::cholesky(s)));
  CHECK(equal(linalg::eigh(wrong).vectors, linalg::eigh(s).vectors));
  CHECK(equal(linalg::eigvalsh(wrong), linalg::eigvalsh(s)));
  CHECK(
      equal(linalg::apply(wrong, linalg::Function::exp), linalg::apply(s, linalg::Function::exp)));
  const Tensor weights = numbers({4, 4});
  for (const auto& f : {+[](Tensor x) { return linalg::cholesky(x); },
                        +[](Tensor x) { return linalg::eigh(x).vectors; },
                        +[](Tensor x) { return linalg::apply(x, linalg::Function::log); }}) {
    const Tensor slope = grad([&](Tensor x) { return sum(f(x) * weights); })(s);
    CHECK(allclose(slope, transposed(slope), {.rtol = 1e-13, .atol = 1e-13}));
  }
}

TEST_CASE("the shapes of solve follow NumPy 2") {
  const Tensor a = positive(3, float64), many = stack({a, a * 2, a * 3, a * 4}), b = numbers({3}),
               rows = numbers({4, 3, 2});
  CHECK(linalg::solve(a, b).shape() == Shape({3}));
  CHECK(linalg::solve(many, b).shape() == Shape({4, 3}));
  CHECK(linalg::solve(a, rows).shape() == Shape({4, 3, 2}));
  CHECK(allclose(matmul(a, linalg::solve(a, rows)), rows));
  CHECK(allclose(matmul(many, linalg::solve(many, rows(0))), broadcast_to(rows(0), {4, 3, 2})));
  CHECK(linalg::solve(many.reshape({2, 2, 3, 3}), rows(range(0, 2))).shape() ==
        Shape({2, 2, 3, 2}));
  CHECK(linalg::solve(many.reshape({4, 1, 3, 3}), rows).shape() == Shape({4, 4, 3, 2}));
  CHECK(linalg::lstsq(many, b).shape() == Shape({4, 3}));
  CHECK(linalg::lstsq(a, rows).shape() == Shape({4, 3, 2}));
  check_refused<ShapeError>(
      [&] {
        linalg::solve(many, numbers({3, 3, 2}));
      },
      "solve: b: expected leading axes that broadcast");
  check_refused<ShapeError>([&] { linalg::solve(a, numbers({2})); }, "solve: b: expected length 3");
  check_refused<ShapeError>([&] { linalg::lstsq(a, numbers({2})); }, "lstsq: b: expected length 3");
}

TEST_CASE("matrices without rows are empty, with determinant 1") {
  const Tensor none = zeros({0, 0}), many = zeros({2, 0, 0});
  CHECK(linalg::cholesky(none).shape() == Shape({0, 0}));
  CHECK(linalg::solve(none, zeros({0, 2})).shape() == Shape({0, 2}));
  CHECK(linalg::solve(many, zeros({0})).shape() == Shape({2, 0}));
  CHECK(linalg::inverse(many).shape() == Shape({2, 0, 0}));
  CHECK(linalg::det(none).item<float>() == 1);
  CHECK(equal(linalg::det(many), ones({2})));
  CHECK(equal(linalg::slogdet(many).sign, ones({2})));
  CHECK(equal(linalg::slogdet(many).log, zeros({2})));
  CHECK(linalg::eigh(none).vectors.shape() == Shape({0, 0}));
  CHECK(linalg::svd(zeros({0, 3})).vt.shape() == Shape({0, 3}));
  CHECK(linalg::qr(zeros({3, 0})).q.shape() == Shape({3, 0}));
  CHECK(equal(linalg::lstsq(zeros({0, 3}), zeros({0})), zeros({3})));
  CHECK(linalg::lstsq(zeros({3, 0}), zeros({3})).shape() == Shape({0}));
  CHECK(linalg::apply(none, linalg::Function::exp).shape() == Shape({0, 0}));
  CHECK(linalg::matrix_power(none, 3).shape() == Shape({0, 0}));
  CHECK(linalg::det(zeros({0, 3, 3})).shape() == Shape({0}));
}

TEST_CASE("powers of a matrix multiply it with itself") {
  const Tensor a = numbers({2, 3, 3});
  CHECK(equal(linalg::matrix_power(a, 0), broadcast_to(eye(3, {float64}), {2, 3, 3})));
  CHECK(equal(linalg::matrix_power(a, 1), a));
  CHECK(allclose(linalg::matrix_power(a, 5), matmul(a, matmul(matmul(a, a), matmul(a, a)))));
  CHECK(allclose(linalg::matrix_power(a, -2), linalg::inverse(matmul(a, a))));
}

TEST_CASE("determinants have gradients at singular matrices too") {
  const Tensor a = tensor<double>({{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}, {1.0, 0.0, 1.0}});
  CHECK(std::abs(linalg::det(a).item<double>()) < 1e-14);
  Variable x("x", a);
  check_gradients({x}, [&] { return linalg::det(x); });
  x.assign(zeros({3, 3}, {float64}));  // rank 0: all cofactors are 0
  check_gradients({x}, [&] { return linalg::det(x); });
  x.assign(tensor<double>({{0.0, 0.0, 0.0}, {0.0, 3.0, 0.0}, {0.0, 0.0, -2.0}}));
  check_gradients({x}, [&] { return linalg::det(x); });
  const Variable one("one", zeros({1, 1}, {float64}));
  check_gradients({one}, [&] { return linalg::det(one); });
}

TEST_CASE("equal eigenvalues: functions have exact gradients, vectors have none") {
  const Tensor q = linalg::qr(numbers({5, 5})).q, weights = numbers({5, 5});
  Tensor d = matmul(q * tensor<double>({1.0, 1.0, 1.0, 2.0, 3.0}), transposed(q));
  d = (d + transposed(d)) / 2;
  const Variable x("x", d);
  const auto half = [&] { return (x + matrix_transpose(x)) / 2; };
  for (const linalg::Function f : {linalg::Function::sqrt, linalg::Function::log,
                                   linalg::Function::exp, linalg::Function::power})
    check_gradients({x}, [&] { return linalg::apply(half(), f, -1.5); });
  // The sum of all eigenvalues is the trace.
  const Tensor slope = grad([](Tensor a) { return sum(linalg::eigvalsh(a)); })(d);
  CHECK(allclose(slope, eye(5, {float64}), {.atol = 1e-12}));
  CHECK(all(isfinite(grad([](Tensor a) { return sum(linalg::svd(a).s); })(d))).item<bool>());
  const Tensor of_vectors = grad([&](Tensor a) {
    return sum(linalg::eigh(a).vectors * numbers({5, 5}));
  })(eye(5, {float64}) * 2);
  CHECK(any(logical_not(isfinite(of_vectors))).item<bool>());
}

TEST_CASE("second derivatives of functions of a matrix are exact near equal eigenvalues") {
  const Tensor q = linalg::qr(numbers({4, 4})).q, weights = numbers({4, 4});
  for (const double gap : {0.0, 1e-9, 1e-3, 0.02, 0.5}) {
    Tensor d = matmul(q * tensor<double>({1.0, 1.0 + gap, 1.0 + 2 * gap, 3.0}), transposed(q));
    const Variable x("x", (d + transposed(d)) / 2);
    for (const linalg::Function f : {linalg::Function::sqrt, linalg::Function::log,
                                     linalg::Function::exp, linalg::Function::power}) {
      INFO("gap " << gap << ", function " << static_cast<int>(f));
      check_gradients({x}, [&] {
        return grad([&](Tensor a) {
          return sum(linalg::apply((a + matrix_transpose(a)) / 2, f, 2.5) * weights);
        })(x);
      });
    }
  }
}

TEST_CASE("eigenvalues that are negative by rounding alone count as 0") {
  const Tensor v = numbers({6, 2}), a = matmul(v, transposed(v));  // rank 2
  const Tensor root = linalg::apply(a, linalg::Function::sqrt);
  CHECK(allclose(matmul(root, root), a, {.atol = 1e-10}));
  CHECK(all(isnan(linalg::apply(-eye(2), linalg::Function::sqrt))).item<bool>());
}

TEST_CASE("matrices without factors are refused with their place in the batch") {
  const Tensor good = positive(3, float64), large = positive(20, float64);
  const Tensor signs = where(arange(0, 3) == 1, -1.0, 1.0), bad = eye(3, {float64}) * signs;
  const Tensor spoilt = large * where(arange(0, 20) == 7, 0.0, 1.0);
  check_refused<Error>([&] { linalg::cholesky(bad); },
                       "cholesky: a: expected a positive definite matrix, got a pivot that is not "
                       "positive in row 1");
  check_refused<Error>(
      [&] {
        linalg::cholesky(stack({good, good, bad}));
      },
      "not positive in row 1 of matrix 2");
  check_refused<Error>([&] { linalg::cholesky(-large); }, "in row 0");
  check_refused<Error>([&] { linalg::cholesky(full({3, 3}, NAN)); }, "in row 0");
  check_refused<Error>(
      [&] {
        linalg::solve(stack({good, zeros({3, 3}, {float64})}), ones({3}));
      },
      "solve: a: expected a matrix that has an inverse, got a pivot of 0 in row 0 "
      "of matrix 1");
  check_refused<Error>([&] { linalg::inverse(spoilt); }, "inverse: a: expected a matrix that has");
  check_refused<Error>(
      [&] {
        linalg::triangular_solve(tensor({{1.f, 0.f}, {1.f, 0.f}}), ones({2}));
      },
      "triangular_solve: a: expected a matrix that has an inverse, got a pivot of "
      "0 in row 1");
  check_refused<Error>(
      [&] {
        linalg::lstsq(ones({4, 2}), ones({4}));
      },
      "lstsq: a: expected a matrix of full rank, got a pivot near 0 in row 1");
  check_refused<Error>([&] { linalg::lstsq(ones({2, 4}), ones({2})); }, "full rank");
  for (const double value : {static_cast<double>(NAN), HUGE_VAL}) {
    const Tensor x = stack({ones({3, 3}), full({3, 3}, value)});
    check_refused<Error>([&] { linalg::eigh(x); },
                         "eigh: a: expected finite numbers, got NaN or infinity of matrix 1");
    check_refused<Error>([&] { linalg::eigvalsh(x); }, "eigvalsh: a: expected finite numbers");
    check_refused<Error>([&] { linalg::svd(x); }, "svd: a: expected finite numbers");
    check_refused<Error>([&] { linalg::apply(x, linalg::Function::exp); }, "finite numbers");
  }
  CHECK(linalg::slogdet(zeros({2, 2})).sign.item<float>() == 0);
  CHECK(linalg::slogdet(zeros({2, 2})).log.item<float>() == -HUGE_VALF);
  CHECK(linalg::det(spoilt).item<double>() == 0);
}

TEST_CASE("dtypes and shapes that are not those of matrices are refused") {
  for (const DType dtype : {DType::int32, DType::boolean, DType::float16, DType::bfloat16}) {
    const Tensor x = zeros({2, 2}).to(dtype);
    CHECK_THROWS_AS(linalg::cholesky(x), DTypeError);
    CHECK_THROWS_AS(linalg::solve(x, x), DTypeError);
    CHECK_THROWS_AS(linalg::qr(x), DTypeError);
    CHECK_THROWS_AS(linalg::eigh(x), DTypeError);
    CHECK_THROWS_AS(linalg::svd(x), DTypeError);
    CHECK_THROWS_AS(linalg::lstsq(x, x), DTypeError);
    CHECK_THROWS_AS(linalg::apply(x, linalg::Function::exp), DTypeError);
  }
  check_refused<ShapeError>([] { linalg::cholesky(ones({2, 3})); }, "cholesky: a: expected square");
  check_refused<ShapeError>([] { linalg::det(ones({3})); }, "det: a: expected at least 2 axes");
  check_refused<ShapeError>([] { linalg::svd(ones({3})); }, "svd: a: expected at least 2 axes");
  check_refused<ShapeError>(
      [] {
        linalg::qr(broadcast_to(ones({}), {40000, 2}));
      },
      "at most 32000 rows and columns");
  check_refused<Error>([] { linalg::apply(eye(2), static_cast<linalg::Function>(9)); },
                       "apply: f: expected sqrt, log, exp or power");
  CHECK(linalg::solve(tensor({{2, 0}, {0, 4}}).to(float32), tensor<double>({1.0, 1.0})).dtype() ==
        DType::float64);
}

TEST_CASE("an AutocastScope leaves linear algebra in float32") {
  const Tensor a = numbers_of({6, 3}, float32), b = numbers_of({6}, float32);
  const Tensor x = linalg::lstsq(a, b), power = linalg::matrix_power(a(range(0, 3)), 3);
  const AutocastScope autocast;
  CHECK(equal(linalg::lstsq(a, b), x));
  CHECK(equal(linalg::matrix_power(a(range(0, 3)), 3), power));
  CHECK(linalg::solve(a(range(0, 3)), b(range(0, 3))).dtype() == DType::float32);
}

TEST_CASE("products and eigenvalues at the same time on two threads give what they give alone") {
  const Tensor a = numbers({300, 300}), s = positive(200, float64);
  const Tensor product = matmul(a, a);
  const auto [values, vectors] = linalg::eigh(s);
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) CHECK(equal(matmul(a, a), product));
  });
  for (int i = 0; i < 10; ++i) {
    const auto [w, v] = linalg::eigh(s);
    CHECK(equal(w, values));
    CHECK(equal(v, vectors));
  }
  other.join();
}

TEST_CASE("factors are traced, and a replay names the matrix that has none") {
  auto f = trace([](Tensor a, Tensor b) {
    return linalg::solve(a, b) + linalg::slogdet(a).log + linalg::eigh(matmul(a, a)).values;
  });
  const auto plain = [](Tensor a, Tensor b) {
    return linalg::solve(a, b) + linalg::slogdet(a).log + linalg::eigh(matmul(a, a)).values;
  };
  for (int i = 0; i < 4; ++i) {
    const Tensor a = positive(3, float64), b = numbers({3});
    CHECK(allclose(f(a, b), plain(a, b)));
  }
  auto g = trace([](Tensor a) { return linalg::cholesky(a); });
  const Tensor good = stack({eye(3), eye(3) * 2});
  for (int i = 0; i < 4; ++i) CHECK(allclose(g(good), sqrt(good)));
  try {
    g(stack({eye(3), -eye(3)}));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Catch::Contains("in row 0 of matrix 1"));
  }
}
}  // namespace reel::tests
