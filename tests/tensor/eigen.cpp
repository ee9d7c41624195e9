// SPDX-License-Identifier: BSD-3-Clause
// Tensors from expressions of Eigen, and views of tensors for Eigen.
#include <reel/eigen.hpp>

#include <Eigen/Dense>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
TEST_CASE("any Eigen expression becomes a tensor", "[eigen]") {
  Eigen::Matrix<float, 2, 3> a;
  a << 1, 2, 3, 4, 5, 6;
  const Tensor x = arange(1.0f, 7.0f).reshape({2, 3});
  CHECK(equal(from_eigen(a), x));
  CHECK(equal(from_eigen(a.transpose()), transpose(x)));
  CHECK(equal(from_eigen(2 * a), 2 * x));
  CHECK(equal(from_eigen(a * a.transpose()), matmul(x, transpose(x))));
  CHECK(equal(from_eigen(a.array() > 3), x > 3));
  CHECK(equal(from_eigen(a.block(0, 1, 2, 2)), x(all, range(1, 3))));
  CHECK(equal(from_eigen(a.row(1)), x(1)));
  CHECK(equal(from_eigen(a.col(1)), x(all, 1)));
  CHECK(equal(from_eigen(Eigen::Vector2d(1, 2)), tensor<double>({1.0, 2.0})));
  CHECK(from_eigen(Eigen::MatrixXi::Zero(0, 3)).shape() == Shape({0, 3}));
  CHECK(from_eigen(Eigen::Matrix<std::int64_t, 1, 1>(7)).dtype() == DType::int64);
}

TEST_CASE("a matrix that is moved is taken over, in its order", "[eigen][cpu]") {
  Eigen::MatrixXf columns = Eigen::MatrixXf::Random(3, 4);
  const Eigen::MatrixXf kept = columns;
  const float* const first = columns.data();
  const Tensor x = from_eigen(std::move(columns));
  CHECK(transpose(x).values<float>().data() == first);
  CHECK(equal(x, from_eigen(kept)));
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows(2, 2);
  rows << 1, 2, 3, 4;
  const double* const start = rows.data();
  const Tensor y = from_eigen(std::move(rows));
  CHECK(y.values<double>().data() == start);
  CHECK(equal(y, tensor<double>({{1.0, 2.0}, {3.0, 4.0}})));
  Eigen::VectorXf v = Eigen::VectorXf::Ones(3);
  const Tensor copy = from_eigen(v);
  v(0) = 5;
  CHECK(equal(copy, ones({3})));
}

TEST_CASE("a tensor is seen from Eigen without a copy", "[eigen][cpu]") {
  const Tensor x = arange(0.0f, 12.0f).reshape({3, 4});
  const float* const first = x.values<float>().data();
  const auto view = as_eigen<float>(x);
  CHECK(view.data() == first);
  CHECK(view.rows() == 3);
  CHECK(view(2, 1) == 9);
  const auto part = as_eigen<Eigen::MatrixXf>(transpose(x)(range(1, 3)));
  CHECK(part.data() == first + 1);
  CHECK(part(1, 2) == 10);
  CHECK(as_eigen<float>(x(1)).sum() == 22);
  CHECK(as_eigen<float>(x(1, 1))(0, 0) == 5);
}

TEST_CASE("Eigen computes with views of any layout", "[eigen]") {
  const Tensor x = arange(0, 12).reshape({3, 4}).to(DType::float64);
  const auto same = [](const Tensor& y) {
    const auto rows = as_eigen<double>(y);
    const auto columns = as_eigen<Eigen::MatrixXd>(y);
    CHECK(equal(from_eigen(rows), y));
    CHECK(equal(from_eigen(columns), y));
    CHECK(equal(from_eigen(rows * columns.transpose()), matmul(y, transpose(y))));
  };
  same(x);
  same(transpose(x));
  same(x(all, range({}, {}, -1)));
  same(x(range({}, {}, 2), range(1, 3)));
  same(broadcast_to(x(0), {2, 4}));
  same(x(range(0, 0)));
}

TEST_CASE("vectors and fixed sizes are views too", "[eigen]") {
  const Tensor x = arange(0.0f, 9.0f).reshape({3, 3});
  CHECK(as_eigen<Eigen::Matrix3f>(x)(1, 2) == 5);
  CHECK(as_eigen<Eigen::Vector3f>(x(1))(2) == 5);
  CHECK(as_eigen<Eigen::Vector3f>(x(all, 1))(2) == 7);
  CHECK(as_eigen<Eigen::RowVectorXf>(x(all, 1))(2) == 7);
  CHECK(as_eigen<Eigen::VectorXf>(x(all, range(1, 2)))(2) == 7);
  CHECK((as_eigen<Eigen::Array33f>(x) * 2)(2, 2) == 16);
  CHECK_THROWS_WITH(as_eigen<Eigen::Matrix3f>(x(range(0, 2))),
                    Catch::Contains("as_eigen: x: expected a matrix of 3 x 3, got shape (2, 3)"));
  CHECK_THROWS_WITH(as_eigen<Eigen::RowVectorXf>(x),
                    Catch::Contains("expected a matrix of 1 x n, got shape (3, 3)"));
  CHECK_THROWS_WITH(as_eigen<float>(zeros({2, 3, 4})),
                    Catch::Contains("as_eigen: x: expected at most 2 axes, got shape (2, 3, 4)"));
  CHECK_THROWS_AS(as_eigen<double>(x), DTypeError);
}

TEST_CASE("a view for Eigen keeps the memory of its tensor", "[eigen]") {
  const auto view = as_eigen<float>(arange(0.0f, 6.0f).reshape({2, 3}));
  auto moved = as_eigen<float>(arange(0.0f, 6.0f).reshape({2, 3}));
  const auto last = std::move(moved);
  CHECK(view(1, 2) == 5);
  CHECK(last(1, 2) == 5);
  const Eigen::MatrixXf twice = as_eigen<float>(arange(0.0f, 6.0f).reshape({2, 3})) * 2;
  CHECK(twice(1, 2) == 10);
}
}  // namespace reel::tests
