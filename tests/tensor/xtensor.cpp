// SPDX-License-Identifier: BSD-3-Clause
// Tensors from expressions of xtensor, and views of tensors for xtensor.
#include <reel/xtensor.hpp>

#include <cmath>
#include <xtensor/xio.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
TEST_CASE("any xtensor expression becomes a tensor", "[xtensor]") {
  const xt::xarray<float> a = {{1, 2, 3}, {4, 5, 6}};
  CHECK(equal(from_xtensor(a), arange(1.0f, 7.0f).reshape({2, 3})));
  CHECK(from_xtensor(xt::sin(a) + 1.0f)(1, 2).item<float>() == std::sin(6.0f) + 1.0f);
  CHECK(equal(from_xtensor(xt::view(a, xt::all(), 1)), tensor({2.0f, 5.0f})));
  CHECK(equal(from_xtensor(xt::transpose(a)), transpose(from_xtensor(a))));
  CHECK(equal(from_xtensor(a > 3.0f), from_xtensor(a) > 3));
  CHECK(equal(from_xtensor(xt::sum(a)), tensor(21.0f)));
  CHECK(from_xtensor(xt::xtensor<std::int64_t, 1>{1, 2}).dtype() == DType::int64);
  CHECK(from_xtensor(xt::xarray<double>::from_shape({0, 3})).shape() == Shape({0, 3}));
  const xt::xarray<double, xt::layout_type::column_major> columns = {{1, 2, 3}, {4, 5, 6}};
  CHECK(equal(from_xtensor(columns), arange(1, 7).reshape({2, 3})));
  CHECK_THROWS_AS(from_xtensor(xt::xarray<float>(xt::ones<float>(std::vector<std::size_t>(9, 1)))),
                  ShapeError);
}

TEST_CASE("an xtensor container that is moved is taken over", "[xtensor][cpu]") {
  xt::xtensor<float, 2, xt::layout_type::column_major> a = {{1, 2, 3}, {4, 5, 6}};
  const float* const first = a.data();
  const Tensor x = from_xtensor(std::move(a));
  CHECK(transpose(x).values<float>().data() == first);
  CHECK(equal(x, arange(1.0f, 7.0f).reshape({2, 3})));
  xt::xarray<float> b = {1, 2};
  const Tensor copy = from_xtensor(b);
  b(0) = 9;
  CHECK(equal(copy, tensor({1.0f, 2.0f})));
}

TEST_CASE("a tensor is seen from xtensor without a copy", "[xtensor][cpu]") {
  const Tensor x = arange(0.0f, 12.0f).reshape({3, 4});
  const float* const first = x.values<float>().data();
  const auto view = as_xtensor<float>(x);
  CHECK(view.data() == first);
  CHECK(view.shape()[1] == 4);
  CHECK(view(2, 1) == 9);
  static_assert(std::is_same_v<decltype(as_xtensor<float>(x)(0, 0)), const float&>);
  const auto columns = as_xtensor<float>(transpose(x)(range(1, 3)));
  CHECK(columns.data() == first + 1);
  CHECK(columns(1, 2) == 10);
  CHECK(xt::sum(columns)() == 1 + 5 + 9 + 2 + 6 + 10);
  CHECK(as_xtensor<float>(x(1, 1))() == 5);
}

TEST_CASE("a view for xtensor keeps the memory of its tensor", "[xtensor]") {
  const auto view = as_xtensor<float>(arange(0.0f, 6.0f).reshape({2, 3}));
  auto expression = xt::transpose(as_xtensor<float>(arange(0.0f, 6.0f).reshape({2, 3}))) * 2.0f;
  CHECK(view(1, 2) == 5);
  CHECK(equal(from_xtensor(expression), 2 * transpose(arange(0.0f, 6.0f).reshape({2, 3}))));
}

TEST_CASE("xtensor computes with views of any layout", "[xtensor]") {
  const Tensor x = arange(0, 12).reshape({3, 4}).to(DType::float64);
  const auto same = [](const Tensor& y) {
    const auto view = as_xtensor<double>(y);
    const xt::xarray<double> copy = view;
    CHECK(equal(from_xtensor(copy), y));
    CHECK(equal(from_xtensor(view), y));
    if (y.size() == 0) return;  // xtensor makes null pointers with offsets for empty arrays
    CHECK(equal(from_xtensor(view + view * copy), y + y * y));
    CHECK(xt::all(xt::equal(view, copy)));
  };
  same(x);
  same(transpose(x));
  same(x(all, range({}, {}, -1)));
  same(x(range({}, {}, 2), range(1, 3)));
  same(broadcast_to(x(0), {2, 4}));
  same(x(0, newaxis));
  same(x(range(0, 0)));
  same(tensor<double>(3.0));
  // An axis of length 1 is broadcast.
  const xt::xarray<double> rows = as_xtensor<double>(x(range(1, 2))) + xt::zeros<double>({2, 4});
  CHECK(equal(from_xtensor(rows), broadcast_to(x(1), {2, 4})));
}

TEST_CASE("the errors of xtensor's views are ours", "[xtensor]") {
  CHECK_THROWS_WITH(as_xtensor<double>(zeros({2})),
                    Catch::Contains("as_xtensor: type: expected the C++ type of the tensor's "
                                    "float32, got float64"));
  CHECK_THROWS_WITH(as_xtensor<float>(Tensor()),
                    Catch::Contains("as_xtensor: x: expected a tensor, got an undefined Tensor"));
}
}  // namespace reel::tests
