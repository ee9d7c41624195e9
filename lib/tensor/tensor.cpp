// SPDX-License-Identifier: BSD-3-Clause
#include <reel/tensor.hpp>

#include <cstring>
#include <string>

#include <reel/ops.hpp>

#include "lib/body/dtypes.hpp"
#include "lib/body/live.hpp"
#include "lib/flow/context.hpp"
#include "lib/flow/device.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/device.hpp"

#include "lib/tensor/refuse_type.hpp"

namespace reel {
namespace {
const Body& defined_body(const Tensor& x, std::string_view what, Caller caller) {
  const Body* body = Access::body(x);
  if (!body) fail<Error>(caller, what, "x", "a tensor", "an undefined Tensor");
  return *body;
}

constexpr ByDType<const char*> type_names = {"bool",         "std::uint8_t", "std::int32_t",
                                             "std::int64_t", "float",        "double",
                                             "Float16",      "BFloat16"};

void check_dtype(const Body& body, std::string_view op, DType dtype, Caller caller) {
  if (body.dtype == dtype) return;
  refuse_type(op, body.dtype, dtype, caller);
}
}  // namespace

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::uint8:
      return "uint8";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
  }
  return "no dtype";
}

void Tensor::release(Body* body) noexcept { reel::release(body); }
const Shape& Tensor::shape(Caller caller) const& {
  return defined_body(*this, "shape", caller).shape;
}
std::int64_t Tensor::shape(int axis, Caller caller) const try {
  const Shape& shape = defined_body(*this, "shape", caller).shape;
  const int rank = static_cast<int>(shape.rank());
  if (axis < -rank || axis >= rank)
    fail<ShapeError>(caller, "shape", "axis", "an axis of " + to_text(shape), std::to_string(axis));
  return shape[axis];
} catch (const std::bad_alloc&) {
  fail_memory(caller, "shape");
}
DType Tensor::dtype(Caller caller) const { return defined_body(*this, "dtype", caller).dtype; }
Device Tensor::device(Caller caller) const {
  return device_of(defined_body(*this, "device", caller));
}
std::int64_t Tensor::size(Caller caller) const {
  return defined_body(*this, "size", caller).elements;
}

Tensor Tensor::reshape(Shape shape, Caller caller) const try {
  return reel::reshape(Operand(*this, caller), shape);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "reshape");
}
Tensor Tensor::to(DType dtype, Caller caller) const {
  if (defined_body(*this, "to", caller).dtype == dtype) return *this;
  const FunctionScope scope(caller, "to");
  return cast(Operand(*this, caller), dtype);
}

Tensor Tensor::to(Device device, Caller caller) const try {
  const Device from = this->device(caller);
  if (device == from) return *this;
  check_device(device, "to", caller);
  const FunctionScope scope(caller, "to");
  return run(to_device_op, Operand(*this, caller), DeviceOptions{.device = device, .from = from});
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to");
}

void Tensor::read(const char* op, DType dtype, std::int64_t count, void* to, Caller caller) const
    try {
  const Body& body = defined_body(*this, op, caller);
  check_dtype(body, op, dtype, caller);
  if (body.elements != count)
    fail<ShapeError>(caller, op, "tensor", std::to_string(count) + " element",
                     "shape " + to_text(body.shape));
  tell_host_read(*this, HostRead::values);
  const Tensor host = on_host(*this);
  std::memcpy(to, Access::body(host)->data, static_cast<std::size_t>(body.bytes()));
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

void refuse_type(std::string_view op, DType dtype, DType asked, Caller caller) try {
  fail<DTypeError>(
      caller, op, "type", "the C++ type of the tensor's " + std::string(name_of(dtype)),
      std::string(name_of(asked)),
      "Use " + std::string(op) + "<" + type_names[dtype] + ">(), or convert first: x.to(DType::" +
          (asked == DType::boolean ? "boolean" : std::string(name_of(asked))) + ").");
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

namespace detail {
Tensor contiguous_host(const Tensor& x, DType dtype, const void** first, std::string_view op,
                       Caller caller) try {
  const Body& body = defined_body(x, op, caller);
  check_dtype(body, op, dtype, caller);
  tell_host_read(x, HostRead::values);
  Tensor host = on_host(x);
  if (!Access::body(host)->contiguous) host = contiguous_copy(*Access::body(host));
  *first = Access::body(host)->data;
  return host;
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

Tensor from_memory(const void* data, DType dtype, const Shape& shape, std::int64_t available,
                   Caller caller) try {
  for (std::int64_t length : shape)
    if (length < 0)
      fail<ShapeError>(caller, "from_span", "shape", "lengths of at least 0", to_text(shape));
  const std::int64_t elements = shape.elements();
  if (elements != available)
    fail<ShapeError>(caller, "from_span", "values",
                     std::to_string(elements) + " for shape " + to_text(shape),
                     std::to_string(available));
  Body* body = allocate(Context::here(), dtype, shape, elements);
  if (!body)
    fail<MemoryError>(caller, "from_span", "shape", "memory for it", "none from the system");
  if (elements) std::memcpy(body->data, data, static_cast<std::size_t>(body->bytes()));
  return Access::adopt(body).to(Context::here().device, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "from_span");
}

void number_does_not_fit(Scalar value, DType dtype, Caller caller) try {
  fail<DTypeError>(caller, "tensor", "value", "a number that fits " + std::string(name_of(dtype)),
                   to_text(value));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "tensor");
}
void ragged_list(std::size_t expected, std::size_t got, Caller caller) try {
  fail<ShapeError>(caller, "tensor", "lists", "lists of one length, " + std::to_string(expected),
                   std::to_string(got));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "tensor");
}
}  // namespace detail
}  // namespace reel
