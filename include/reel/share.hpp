// SPDX-License-Identifier: BSD-3-Clause
// Tensors over memory that the library did not allocate. Not part of reel.hpp.
//
// No code may write to this memory while a tensor uses it: ops, tapes and traces rely on elements
// that never change. reel itself only reads it.
#pragma once       // defined in lib/tensor
#include <memory>  // std::unique_ptr
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <reel/tensor.hpp>

namespace reel {
/// Whether elements are copied between a tensor and an array of another library.
enum class Copy {
  if_needed,  // shares the memory if possible
  always,
  never  // throws Error if the memory cannot be shared
};

namespace detail {
/// What is called when no tensor uses the memory any more, on the thread that ended the last one.
struct Release {
  void (*function)(void* what) noexcept;
  void* what;
};
/// Elements in the memory of the host; strides in elements, row-major where they are null.
struct HostArray {
  const void* data = nullptr;
  DType dtype = DType::float32;
  Shape shape = {};
  const std::int64_t* strides = nullptr;
};
/// A tensor over `array`. Calls `release` at once if it has copied the elements, and never if it
/// throws.
REEL_API Tensor share_array(std::string_view op, const HostArray& array, Copy copy, Release release,
                            Caller caller);

/// A tensor over `array`, which `owner` keeps alive.
template <class Owner>
Tensor share_owned(std::string_view op, const HostArray& array, std::unique_ptr<Owner> owner,
                   Caller caller) {
  const auto destroy = [](void* what) noexcept { delete static_cast<Owner*>(what); };
  Tensor shared = share_array(op, array, Copy::if_needed, {destroy, owner.get()}, caller);
  owner.release();
  return shared;
}

/// The elements of x on the host, and where they are.
struct SharedView {
  Tensor tensor;  // keeps the elements
  bool copied = false;
  const void* data = nullptr;
  std::int64_t strides[Shape::max_rank] = {};
};
/// x's own memory; a row-major copy if x is on another device or if a stride is negative or skips
/// an axis of several elements (0).
REEL_API SharedView view_on_host(std::string_view op, const Tensor& x, DType dtype, Caller caller);
/// A tensor of at most two axes as a matrix.
struct MatrixLayout {
  std::int64_t rows = 1, columns = 1, row_stride = 1, column_stride = 1;
};
/// Throws ShapeError unless x has so many rows and columns; -1 is any number. A tensor of one axis
/// is a column, or a row if `rows` is 1.
REEL_API MatrixLayout matrix_layout(std::string_view op, const SharedView& x, int rows, int columns,
                                    Caller caller);
/// Throws ShapeError unless there are as many values as the shape has.
REEL_API void check_count(std::string_view op, const Shape& shape, std::int64_t count,
                          Caller caller);
}  // namespace detail

/// A tensor over `values`, without a copy. It stores `owner`, an object that keeps the memory
/// alive, such as a std::shared_ptr.
///
///     auto mine = std::make_shared<std::vector<float>>(6, 1.0f);
///     share(std::span<const float>(*mine), {2, 3}, mine)   // [[1., 1., 1.], [1., 1., 1.]]
///
/// The last tensor over the memory destroys `owner`, on the thread where it ends. While a
/// DeviceScope puts new tensors on another device, the values are copied to that device. Throws
/// ShapeError unless there is one value for each element.
template <Element T, class Owner>
Tensor share(std::span<const T> values, Shape shape, Owner owner,
             Caller caller = Caller::here()) try {
  detail::check_count("share", shape, static_cast<std::int64_t>(values.size()), caller);
  return detail::share_owned("share", {values.data(), dtype_of<T>(), shape},
                             std::make_unique<Owner>(std::move(owner)), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "share");
}

/// A tensor that takes over a container, without a copy of its elements. The container is a
/// std::vector, or any other type with data(), size() and a value_type that is an Element.
///
///     std::vector<float> mine(6, 1.0f);
///     adopt(std::move(mine), {2, 3})                       // [[1., 1., 1.], [1., 1., 1.]]
///
/// Throws ShapeError unless there is one value for each element; `values` are unchanged then.
template <class Container>
requires(!std::is_lvalue_reference_v<Container> && !std::is_const_v<Container> &&
         Element<typename Container::value_type> && requires(const Container& c) {
           std::span<const typename Container::value_type>(c.data(), c.size());
         }) Tensor adopt(Container&& values, Shape shape, Caller caller = Caller::here())
try {
  detail::check_count("adopt", shape, static_cast<std::int64_t>(values.size()), caller);
  auto owner = std::make_unique<Container>(std::forward<Container>(values));
  const void* const data = owner->data();  // of the container that holds the values now
  return detail::share_owned("adopt", {data, dtype_of<typename Container::value_type>(), shape},
                             std::move(owner), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "adopt");
}
}  // namespace reel
