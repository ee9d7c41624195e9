// SPDX-License-Identifier: BSD-3-Clause
// Tensors from and for Eigen. Not part of reel.hpp; needs Eigen 3.3 or later in the include path.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <Eigen/Core>

#include <reel/share.hpp>

namespace reel {
namespace detail {
/// A tensor that takes the elements of `values` over. Vectors have one axis.
template <class M>
Tensor adopt_eigen(M&& values, Caller caller) {
  const std::int64_t rows = values.rows(), columns = values.cols();
  constexpr bool vector = M::IsVectorAtCompileTime;
  const Shape shape = vector ? Shape({rows * columns}, caller) : Shape({rows, columns}, caller);
  const std::int64_t strides[2] = {M::IsRowMajor && !vector ? columns : 1,
                                   M::IsRowMajor ? 1 : rows};
  auto owner = std::make_unique<M>(std::move(values));
  const HostArray array = {owner->data(), dtype_of<typename M::Scalar>(), shape, strides};
  return share_owned("from_eigen", array, std::move(owner), caller);
}

/// The matrix type of as_eigen<T>(): T itself, or a row-major matrix of Ts.
template <class T>
struct EigenMatrixOf {
  using type = T;
};
template <Element T>
struct EigenMatrixOf<T> {
  using type = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
};
template <class M>
using EigenMap =
    Eigen::Map<const M, Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
}  // namespace detail

/// A read-only Eigen::Map of a tensor. It keeps the tensor's memory; expressions of Eigen do not:
/// `auto y = as_eigen<float>(x) * 2;` may end before y does.
template <class M>
class EigenView : public detail::EigenMap<M> {
 public:
  EigenView(detail::SharedView x, const detail::MatrixLayout& layout)
      : detail::EigenMap<M>(static_cast<const typename M::Scalar*>(x.data), layout.rows,
                            layout.columns,
                            M::IsRowMajor ? Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(
                                                layout.row_stride, layout.column_stride)
                                          : Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(
                                                layout.column_stride, layout.row_stride)),
        tensor_(std::move(x.tensor)) {}

 private:
  Tensor tensor_;
};

/// The values of an Eigen expression. The dtype is that of its coefficients. Vectors have one axis,
/// other matrices and arrays two.
///
/// An expression is evaluated once, into memory that the tensor takes over. A matrix of dynamic
/// size that is moved, `from_eigen(std::move(m))`, is taken over without a copy, row-major or
/// column-major; one that is not moved is copied. Where new tensors are made on another device
/// (DeviceScope), the values are copied to it.
template <class D>
Tensor from_eigen(const Eigen::DenseBase<D>& expression, Caller caller = Caller::here()) try {
  static_assert(Element<typename D::Scalar>,
                "from_eigen(m): there are dtypes for bool, std::uint8_t, std::int8_t to "
                "std::int64_t, float, double, Float16 and BFloat16. Convert first: "
                "from_eigen(m.cast<float>())");
  if constexpr (Element<typename D::Scalar>)
    return detail::adopt_eigen(typename D::PlainObject(expression), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "from_eigen");
}
template <class M>
requires(!std::is_reference_v<M> && !std::is_const_v<M> &&
         std::is_base_of_v<Eigen::PlainObjectBase<M>, M> && Element<typename M::Scalar>) Tensor
    from_eigen(M&& values, Caller caller = Caller::here())
try {
  return detail::adopt_eigen(std::forward<M>(values), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "from_eigen");
}

/// A read-only Eigen::Map of x, without a copy. T is the type of the elements,
/// `as_eigen<float>(x)`, or a matrix or array of Eigen, `as_eigen<Eigen::Matrix3f>(x)`. x has at
/// most two axes; one axis is a column, or a row where T is one. Elements are copied if x is on
/// another device or if a stride is negative or 0. Throws DTypeError if the dtype differs,
/// ShapeError if the size does.
template <class T>
EigenView<typename detail::EigenMatrixOf<T>::type> as_eigen(const Tensor& x,
                                                            Caller caller = Caller::here()) {
  using M = typename detail::EigenMatrixOf<T>::type;
  detail::SharedView view =
      detail::view_on_host("as_eigen", x, dtype_of<typename M::Scalar>(), caller);
  const detail::MatrixLayout layout =
      detail::matrix_layout("as_eigen", view, M::RowsAtCompileTime, M::ColsAtCompileTime, caller);
  return {std::move(view), layout};
}
}  // namespace reel
