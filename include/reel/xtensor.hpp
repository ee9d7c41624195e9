// SPDX-License-Identifier: BSD-3-Clause
// Tensors from and for xtensor. Not part of reel.hpp; needs xtensor 0.24 or later in the include
// path. Keep `xt::` qualified where `using namespace reel` is: both have sum(), exp(), ...
#pragma once
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xtensor.hpp>

#include <reel/share.hpp>

namespace reel {
namespace detail {
template <class E>
Shape shape_of_xtensor(const E& e, Caller caller) {
  const std::vector<std::int64_t> lengths(e.shape().begin(), e.shape().end());
  return Shape(lengths, caller);
}
/// A container that has its elements in one block of its own, whose address is known.
template <class E>
concept OwnsXtensorElements = requires(E& e) {
  e.storage().data();
  e.resize(e.shape());
  e.strides();
};
/// A tensor that takes the elements of `values` over.
template <class E>
Tensor adopt_xtensor(E&& values, Caller caller) {
  const Shape shape = shape_of_xtensor(values, caller);
  std::int64_t strides[Shape::max_rank] = {};
  for (std::size_t i = 0; i < shape.rank(); ++i)
    strides[i] = static_cast<std::int64_t>(values.strides()[i]);
  auto owner = std::make_unique<E>(std::move(values));
  const HostArray array = {owner->data(), dtype_of<typename E::value_type>(), shape, strides};
  return share_owned("from_xtensor", array, std::move(owner), caller);
}
/// Keeps a tensor in an xtensor adaptor, which calls it as what frees the elements.
struct XtensorKeeper {
  Tensor tensor;
  void operator()() const {}
};
}  // namespace detail

/// The values of an xtensor expression. The dtype is that of its elements.
///
/// An expression is evaluated once, into memory that the tensor takes over. An xt::xarray or
/// xt::xtensor that is moved, `from_xtensor(std::move(a))`, is taken over without a copy, in
/// whatever layout; one that is not moved is copied. Where new tensors are made on another device
/// (DeviceScope), the values are copied to it.
template <class X>
requires xt::is_xexpression<std::decay_t<X>>::value Tensor
from_xtensor(X&& expression, Caller caller = Caller::here())
try {
  using E = std::decay_t<X>;
  using T = std::remove_const_t<typename E::value_type>;
  static_assert(Element<T>,
                "from_xtensor(e): there are dtypes for bool, std::uint8_t, std::int8_t to "
                "std::int64_t, float, double, Float16 and BFloat16. Convert first: "
                "from_xtensor(xt::cast<float>(e))");
  if constexpr (Element<T>) {
    if constexpr (detail::OwnsXtensorElements<E> && !std::is_reference_v<X> &&
                  !std::is_const_v<X>) {
      return detail::adopt_xtensor(std::forward<X>(expression), caller);
    } else {
      // Not an xtensor of the same rank: a rank that is too large should be our error.
      return detail::adopt_xtensor(
          xt::xarray<T, xt::layout_type::row_major>(std::forward<X>(expression)), caller);
    }
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, "from_xtensor");
}

/// A read-only xtensor container over x's memory, which it keeps. It can be used as any other
/// expression, and longer than x. Elements are copied if x is on another device or if a stride is
/// negative or 0. Throws DTypeError unless T is the type of the dtype.
template <Element T>
auto as_xtensor(const Tensor& x, Caller caller = Caller::here()) try {
  const detail::SharedView view = detail::view_on_host("as_xtensor", x, dtype_of<T>(), caller);
  const Shape& lengths = view.tensor.shape();
  const std::vector<std::size_t> shape(lengths.begin(), lengths.end());
  std::vector<std::ptrdiff_t> strides(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1) strides[i] = view.strides[i];  // of an axis of length 1, xtensor expects 0
  using Buffer = xt::xbuffer_adaptor<const T*, xt::smart_ownership, detail::XtensorKeeper>;
  return xt::xarray_adaptor<Buffer, xt::layout_type::dynamic, std::vector<std::size_t>>(
      Buffer(static_cast<const T*>(view.data), static_cast<std::size_t>(x.size()),
             detail::XtensorKeeper{view.tensor}),
      shape, strides);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "as_xtensor");
}
}  // namespace reel
