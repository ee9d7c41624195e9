// SPDX-License-Identifier: BSD-3-Clause
// Elements of tensors in the memory of C++.
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "lib/body/dtypes.hpp"
#include "lib/body/refuse_type.hpp"
#include "lib/flow/context.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
namespace {
/// Whether the wider type holds each number of the dtype.
bool widens(DType dtype, DType to) {
  if (to == DType::float64)
    return dtype == DType::float32 || (!is_floating(dtype) && dtype != DType::int64);
  return to == DType::int64 && !is_floating(dtype);
}
void check_dtype(const Body& body, std::string_view op, DType dtype, Caller caller) {
  if (body.dtype != dtype && !widens(body.dtype, dtype)) refuse_type(op, body.dtype, dtype, caller);
}
/// Elements of a contiguous body on the host, in a dtype that is wider or its own.
void copy_elements(const Body& from, DType dtype, void* to) {
  if (from.dtype == dtype) {
    std::memcpy(to, from.data, static_cast<std::size_t>(from.bytes()));
    return;
  }
  const auto write = [&]<class To>(To* out) {
    with_element(from.dtype, [&]<class T>(Type<T>) {
      for (std::int64_t i = 0; i < from.elements; ++i) out[i] = static_cast<To>(from.as<T>()[i]);
    });
  };
  if (dtype == DType::float64)
    write(static_cast<double*>(to));
  else
    write(static_cast<std::int64_t*>(to));
}
}  // namespace

void Tensor::read(const char* op, DType dtype, std::int64_t count, void* to, Caller caller) const
    try {
  const Body& body = defined_body(*this, op, caller);
  check_dtype(body, op, dtype, caller);
  if (body.elements != count)
    fail<ShapeError>(caller, op, "tensor", to_text(count) + " element",
                     "shape " + to_text(body.shape));
  tell_host_read(*this, HostRead::values);
  const Tensor host = on_host(*this);
  copy_elements(*Access::body(host), dtype, to);
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

Tensor::operator bool() const try {
  const Body& body = defined_body(*this, "bool", {});
  if (body.elements != 1)
    fail<ShapeError>({}, "bool", "tensor", "1 element", "shape " + to_text(body.shape),
                     "Ask any(x) or all(x).");
  tell_host_read(*this, HostRead::truth);
  return truth_of(*Access::body(on_host(*this)));
} catch (const std::bad_alloc&) {
  fail_memory({}, "bool");
}

namespace detail {
Tensor contiguous_host(const Tensor& x, DType dtype, const void** first, std::string_view op,
                       Caller caller) try {
  const Body& body = defined_body(x, op, caller);
  check_dtype(body, op, dtype, caller);
  tell_host_read(x, HostRead::values);
  Tensor host = on_host(x);
  if (!Access::body(host)->contiguous) host = contiguous_copy(*Access::body(host), caller);
  if (body.dtype != dtype) {
    Context& context = Context::here();
    const PlaceScope on_cpu(context, cpu());
    Body* const wide = allocate(context, dtype, body.shape, body.elements);
    if (!wide) fail_memory(caller, op);
    Tensor copy = Access::adopt(wide);
    copy_elements(*Access::body(host), dtype, wide->data);
    host = std::move(copy);
  }
  *first = Access::body(host)->data;
  return host;
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

void ListReader::list(std::size_t depth, std::size_t length) {
  if (depth < lengths_.size()) {
    const auto expected = static_cast<std::size_t>(lengths_[depth]);
    if (length != expected) ragged_list(expected, length, caller_);
  } else if (numbers_.empty()) {
    lengths_.push_back(static_cast<std::int64_t>(length));
  } else {
    fail<ShapeError>(caller_, "tensor", "lists", "lists of one depth", "a list beside a number");
  }
}
void ListReader::number(std::size_t depth, Scalar number, DType dtype) {
  if (depth != lengths_.size())
    fail<ShapeError>(caller_, "tensor", "lists", "lists of one depth", "a number beside a list");
  if (numbers_.empty())
    dtype_ = dtype;
  else if (dtype != dtype_)
    dtype_ = is_floating(dtype) || is_floating(dtype_) ? DType::float32 : DType::int64;
  numbers_.push_back(number);
}
Tensor ListReader::tensor(const DType* chosen) const {
  const DType dtype = chosen ? *chosen : dtype_;
  std::vector<std::byte> bytes(numbers_.size() * static_cast<std::size_t>(size_of(dtype)));
  std::byte* to = bytes.data();
  for (const Scalar& number : numbers_) {
    if (!fits(number, dtype)) number_does_not_fit(number, dtype, caller_);
    store_number(to, number, dtype);
    to += size_of(dtype);
  }
  return from_memory(bytes.data(), dtype, Shape(lengths_, caller_),
                     static_cast<std::int64_t>(numbers_.size()), caller_);
}

Tensor from_memory(const void* data, DType dtype, const Shape& shape, std::int64_t available,
                   Caller caller) {
  for (std::int64_t length : shape)
    if (length < 0)
      fail<ShapeError>(caller, "from_span", "shape", "lengths of at least 0", to_text(shape));
  const std::int64_t elements = shape.elements();
  if (elements != available)
    fail<ShapeError>(caller, "from_span", "values",
                     to_text(elements) + " for shape " + to_text(shape), to_text(available));
  Context& context = Context::here();
  std::optional<CallerScope> line;  // for profiles of memory
  if (context.mode & observed) line.emplace(caller);
  Body* body = allocate(context, dtype, shape, elements);
  if (!body)
    fail<MemoryError>(caller, "from_span", "shape", "memory for it", "none from the system");
  if (elements) std::memcpy(body->data, data, static_cast<std::size_t>(body->bytes()));
  return Access::adopt(body).to(Context::here().device, caller);
}
}  // namespace detail
}  // namespace reel
