// SPDX-License-Identifier: BSD-3-Clause
#include <reel/pinned.hpp>
#include <reel/share.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "lib/body/live.hpp"
#include "lib/body/refuse_type.hpp"
#include "lib/flow/context.hpp"
#include "lib/flow/device.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/table/backend.hpp"

namespace reel::detail {
namespace {
/// The extent of the array in bytes, relative to the element at position 0.
struct Reach {
  std::int64_t before = 0, behind = 0;
};
Reach reach_of(std::string_view op, DType dtype, const Shape& shape, const Strides& strides,
               Caller caller) {
  Reach reach = {0, size_of(dtype)};
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    std::int64_t distance = 0;
    std::int64_t& end = strides[i] < 0 ? reach.before : reach.behind;
    if (__builtin_mul_overflow(shape.data()[i] - 1, strides[i], &distance) ||
        __builtin_mul_overflow(distance, size_of(dtype), &distance) ||
        __builtin_add_overflow(end, distance, &end))
      fail<ShapeError>(caller, op, "strides", "elements that lie within 2^63 bytes",
                       "a stride of " + to_text(strides[i]) + " along axis " + to_text(i) + " of " +
                           to_text(shape));
  }
  return reach;
}

/// Calls f with the address of each element in row-major order, until it returns false.
template <class F>
bool all_elements(const void* data, DType dtype, const Shape& shape, const Strides& strides,
                  const F& f) {
  std::int64_t at[Shape::max_rank] = {};
  const auto* element = static_cast<const std::byte*>(data);
  for (std::int64_t n = shape.elements(); n > 0; --n) {
    if (!f(element)) return false;
    for (int axis = static_cast<int>(shape.rank()) - 1; axis >= 0; --axis) {
      const std::int64_t length = shape.data()[axis], step = strides[axis] * size_of(dtype);
      if (++at[axis] < length) {
        element += step;
        break;
      }
      element -= (length - 1) * step;
      at[axis] = 0;
    }
  }
  return true;
}

/// The reason why kernels cannot read the elements in place; null if they can.
const char* hindrance(const void* data, DType dtype, const Shape& shape, const Strides& strides) {
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size_of(dtype)))
    return "an address that is not a multiple of the element size";
  const auto is_truth = [](const std::byte* x) { return std::to_integer<unsigned>(*x) <= 1; };
  if (dtype == DType::boolean && !all_elements(data, dtype, shape, strides, is_truth))
    return "bools with other bytes than 0 and 1";
  return Context::here().device == cpu() ? nullptr
                                         : "a scope that makes new tensors on another device";
}

Body* copied(const void* data, DType dtype, const Shape& shape, const Strides& strides) {
  Body* const copy = allocate(Context::here(), dtype, shape, shape.elements());
  if (!copy) return nullptr;
  std::byte* to = copy->data;
  const auto width = static_cast<std::size_t>(size_of(dtype));
  all_elements(data, dtype, shape, strides, [&](const std::byte* from) {
    std::memcpy(to, from, width);
    if (dtype == DType::boolean && *to != std::byte{0}) *to = std::byte{1};
    to += width;
    return true;
  });
  return copy;
}

/// A view of the memory. Its release function does nothing yet.
Body* viewed(const void* data, DType dtype, const Shape& shape, const Strides& strides,
             Reach reach) {
  Context& context = Context::here();
  const auto* const first = static_cast<const std::byte*>(data);
  Body* const owner = allocate_borrowed(context, first + reach.before, reach.behind - reach.before);
  if (!owner) return nullptr;
  Body* const view = allocate_view(context, owner);
  reel::release(owner);  // the view keeps it
  if (!view) return nullptr;
  view->dtype = dtype;
  view->data = const_cast<std::byte*>(first);
  view->shape = shape;
  view->elements = shape.elements();
  std::copy_n(strides, Shape::max_rank, view->strides);
  view->contiguous = is_row_major(shape, strides);
  return view;
}
}  // namespace

Tensor share_array(std::string_view op, const HostArray& array, Copy copy, Release release,
                   Caller caller) {
  const Shape& shape = array.shape;
  for (const std::int64_t length : shape)
    if (length < 0) fail<ShapeError>(caller, op, "shape", "lengths of at least 0", to_text(shape));
  Body layout;
  layout.shape = shape;
  set_row_major(layout);
  if (array.strides) std::copy_n(array.strides, shape.rank(), layout.strides);
  const bool empty = shape.elements() == 0;
  const Reach reach = empty ? Reach() : reach_of(op, array.dtype, shape, layout.strides, caller);
  const char* const reason =
      empty ? nullptr : hindrance(array.data, array.dtype, shape, layout.strides);
  if (reason && copy == Copy::never)
    fail<Error>(caller, op, "copy", "memory that a tensor can share", reason,
                "Copy::if_needed copies the elements.");
  const bool shares = !empty && !reason && copy != Copy::always;
  Body* const body = shares ? viewed(array.data, array.dtype, shape, layout.strides, reach)
                            : copied(array.data, array.dtype, shape, layout.strides);
  if (!body)
    fail<MemoryError>(caller, op, "result", "memory for shape " + to_text(shape),
                      "none from the system");
  if (shares) {
    keeper_of(*body->owner) = {release.function, release.what};
    return Access::adopt(body);
  }
  Tensor result = Access::adopt(body).to(Context::here().device, caller);
  release.function(release.what);
  return result;
}

SharedView view_on_host(std::string_view op, const Tensor& x, DType dtype, Caller caller) {
  if (!x.defined()) fail<Error>(caller, op, "x", "a tensor", "an undefined Tensor");
  if (x.dtype() != dtype) refuse_type(op, x.dtype(), dtype, caller);
  tell_host_read(x, HostRead::values);
  SharedView view = {on_host(x), false};
  const auto unusual = [](const Body& body) {
    for (int i = 0; i < body.rank(); ++i)
      if (body.strides[i] <= 0 && body.shape.data()[i] > 1) return true;
    return false;
  };
  if (unusual(*Access::body(view.tensor)))
    view.tensor = contiguous_copy(*Access::body(view.tensor), caller);
  const Body& body = *Access::body(view.tensor);
  view.copied = &body != Access::body(x);
  view.data = body.data;
  std::copy_n(body.strides, body.rank(), view.strides);
  return view;
}

MatrixLayout matrix_layout(std::string_view op, const SharedView& x, int rows, int columns,
                           Caller caller) {
  const Shape& shape = x.tensor.shape();
  MatrixLayout layout;
  if (shape.rank() == 2)
    layout = {shape[0], shape[1], x.strides[0], x.strides[1]};
  else if (shape.rank() == 1 && rows == 1 && columns != 1)
    layout = {1, shape[0], shape[0] * x.strides[0], x.strides[0]};
  else if (shape.rank() == 1)
    layout = {shape[0], 1, x.strides[0], shape[0] * x.strides[0]};
  const auto fits = [](int wanted, std::int64_t length) { return wanted < 0 || wanted == length; };
  if (shape.rank() <= 2 && fits(rows, layout.rows) && fits(columns, layout.columns)) return layout;
  const auto text_of = [](int wanted) { return wanted < 0 ? "n" : to_text(wanted); };
  fail<ShapeError>(caller, op, "x",
                   rows < 0 && columns < 0
                       ? "at most 2 axes"
                       : "a matrix of " + text_of(rows) + " x " + text_of(columns),
                   "shape " + to_text(shape));
}

void check_count(std::string_view op, const Shape& shape, std::int64_t count, Caller caller) {
  const std::int64_t elements = shape.elements();
  if (elements != count)
    fail<ShapeError>(caller, op, "values", to_text(elements) + " for shape " + to_text(shape),
                     to_text(count));
}
}  // namespace reel::detail

namespace reel {
namespace {
/// A block of pinned memory until a tensor has it.
class PinnedBlock {
 public:
  PinnedBlock(Backend& backend, int device, std::size_t bytes)
      : backend_(backend), first_(backend.allocate_pinned(device, bytes)) {}
  ~PinnedBlock() {
    if (first_) backend_.release_pinned(first_);
  }
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  std::byte* first() const { return first_; }

 private:
  Backend& backend_;
  std::byte* first_;
};
}  // namespace

Tensor pinned(const Tensor& x, Device device, Caller caller) {
  const CallerScope here(caller, "pinned");
  if (!x.defined()) fail<Error>(caller, "pinned", "x", "a tensor", "an undefined Tensor");
  check_device(device, "pinned", caller);
  if (device == cpu()) return x.to(cpu(), caller);
  const detail::SharedView view = detail::view_on_host("pinned", x, x.dtype(), caller);
  const Body& from = *Access::body(view.tensor);
  const auto bytes = static_cast<std::size_t>(from.bytes());
  std::unique_ptr<PinnedBlock> block(new (std::nothrow) PinnedBlock(
      *backend_of(device.kind), device.index, std::max<std::size_t>(bytes, 1)));
  Body* made = nullptr;
  if (block && block->first()) {
    const Tensor ordered = from.contiguous ? Tensor() : contiguous_copy(from, caller);
    if (bytes)
      std::memcpy(block->first(), (ordered.defined() ? *Access::body(ordered) : from).data, bytes);
    Body layout;
    layout.shape = from.shape;
    set_row_major(layout);
    made = detail::viewed(block->first(), from.dtype, from.shape, layout.strides,
                          {0, std::max<std::int64_t>(from.bytes(), 1)});
  }
  if (!made)
    fail<MemoryError>(caller, "pinned", "result", "memory for shape " + to_text(from.shape),
                      "none from the system");
  keeper_of(*made->owner) = {[](void* own) noexcept { delete static_cast<PinnedBlock*>(own); },
                             block.release()};
  return Access::adopt(made);
}
}  // namespace reel
