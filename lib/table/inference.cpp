// SPDX-License-Identifier: BSD-3-Clause
// The outputs and views that shape rules make.
#include <string>

#include <reel/error.hpp>

#include "lib/body/access.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
namespace {
[[noreturn, gnu::noinline]] void fail_memory(const Op& op, DType dtype, const Shape& shape,
                                             Device device, Caller caller) {
  fail<MemoryError>(caller, op.name, "result",
                    "memory for shape " + to_text(shape) + " of " + Text(name_of(dtype)),
                    device == cpu() ? "none from the system" : "none on " + to_text(device),
                    largest_on(device));
}
bool is_dtype(DType dtype) { return static_cast<unsigned>(dtype) < dtype_count; }
/// Of an output.
[[noreturn, gnu::noinline]] void fail_dtype(const Inference& call, DType dtype) {
  if (!is_dtype(dtype))
    fail<DTypeError>(call.caller, call.op.name, "dtype", "a DType",
                     to_text(static_cast<unsigned>(dtype)));
  for (int i = 0; i < call.input_count; ++i) require_arithmetic(call, i);
  fail_arithmetic(call.op, "dtype", dtype, call.caller);
}
[[noreturn, gnu::noinline]] void fail_view(const Op& op, Caller caller) {
  fail<MemoryError>(caller, op.name, "result", "memory for a view", "none");
}

}  // namespace

Body* allocate_or_fail(ThreadMemory& memory, Device device, const Op& op, DType dtype,
                       const Shape& shape, Caller caller) {
  const std::int64_t elements = count_elements(shape, op.name, caller);
  Body* body = device.kind == Device::Kind::cpu
                   ? allocate(memory, dtype, shape, elements)
                   : allocate_on(memory, device, dtype, shape, elements);
  if (!body) [[unlikely]]
    fail_memory(op, dtype, shape, device, caller);
  return body;
}

const Body& Inference::made(int i) const {
  return *Access::body(outputs[static_cast<std::size_t>(i)]);
}
Body& Inference::output(DType dtype, const Shape& shape) {
  if (!has_arithmetic(dtype) && !(op.moves && is_dtype(dtype))) [[unlikely]]
    fail_dtype(*this, dtype);
  computes = true;
  if (stand_in) [[unlikely]] {
    Body* const header = allocate_view(memory, stand_in);
    if (!header) fail_view(op, caller);
    outputs.emplace_back(Access::adopt(header));
    header->dtype = dtype;
    header->shape = shape;
    header->elements = count_elements(shape, op.name, caller);
    return *header;
  }
  Body* body = allocate_or_fail(memory, device, op, dtype, shape, caller);
  outputs.emplace_back(Access::adopt(body));
  return *body;
}
Body& Inference::view() {
  Body* body = allocate_view(memory, inputs[0]);
  if (!body) [[unlikely]]
    fail_view(op, caller);
  outputs.emplace_back(Access::adopt(body));
  return *body;
}
}  // namespace reel
