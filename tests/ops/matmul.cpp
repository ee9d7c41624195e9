// SPDX-License-Identifier: BSD-3-Clause
// Products of matrices: shapes and dtypes that fit or do not, stacks, and batches on a device.
#include <cstdint>
#include <vector>

#include <reel/reel.hpp>

#include "nn/near.hpp"
#include "support/error_text.hpp"
#include "support/refused.hpp"

namespace reel::tests {
TEST_CASE("products of a matrix and a stack whose lengths are all alike") {
  const auto product = [](const Tensor& x, const Tensor& y) {  // of matrices
    const auto n = x.shape(0), k = x.shape(1), m = y.shape(1);
    const std::vector<double> a = x.to_vector<double>(), b = y.to_vector<double>();
    std::vector<double> c(static_cast<std::size_t>(n * m));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < m; ++j)
        for (std::int64_t l = 0; l < k; ++l)
          c[static_cast<std::size_t>(i * m + j)] +=
              a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * m + j)];
    return c;
  };
  const Tensor stack = numbers({3, 3, 3}), x = numbers({3, 3}), y = numbers({3, 2});
  REQUIRE(matmul(stack, y).shape() == Shape({3, 3, 2}));
  REQUIRE(matmul(x, stack).shape() == Shape({3, 3, 3}));
  for (std::int64_t i = 0; i < 3; ++i) {
    require_near(matmul(stack, y)(i), product(stack(i), y));
    require_near(matmul(x, stack)(i), product(x, stack(i)));
  }
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
  // The advice to transpose comes only where that would fit.
  CHECK_THAT(error_text([&] { matmul(x, ones({4, 3})); }), Catch::Contains("Transpose y?"));
  CHECK_THAT(error_text([&] { matmul(x, y); }), !Catch::Contains("Transpose"));
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
