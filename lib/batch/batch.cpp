// SPDX-License-Identifier: BSD-3-Clause
#include "lib/batch/batch.hpp"

#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include <reel/device_scopes.hpp>
#include <reel/ops.hpp>

#include "lib/gate/resolved.hpp"
#include "lib/table/options/device.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel::batch {
StandIns::StandIns() {
  static constinit std::atomic<std::uint64_t> last = 0;
  uid_ = std::uint64_t{1} << 62 | (++last & 0xff'ffff'ffff);  // no reel has such a number
  Body* const body = allocate(Context::here(), DType::float32, Shape{}, 1);
  if (!body) fail<MemoryError>({}, "batched", "result", "memory for a header", "none");
  nothing_ = Access::adopt(body);
}

Tensor StandIns::make(DType dtype, Device device, const Shape& shape, std::uint32_t number,
                      std::uint32_t output) {
  Tensor made = Access::adopt(allocate_view(Context::here(), Access::body(nothing_)));
  if (!made.defined()) fail<MemoryError>({}, "batched", "result", "memory for a header", "none");
  Body& body = *Access::body(made);
  body.dtype = dtype;
  body.device_kind = static_cast<std::uint8_t>(device.kind);
  body.device_index = static_cast<std::int8_t>(device.index);
  body.shape = shape;
  body.elements = count_elements(shape, "batched", {});
  set_row_major(body);
  body.contiguous = true;
  body.id = {uid_, number, output};
  return made;
}

Tensor StandIns::copy(const Tensor& like, std::uint32_t number, std::uint32_t output) const {
  Body* const made = allocate_view(Context::here(), Access::body(like));
  if (!made) fail<MemoryError>({}, "batched", "result", "memory for a header", "none");
  made->id = {uid_, number, output};
  return Access::adopt(made);
}

void StandIns::infer(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
                     std::uint32_t number, SmallVector<Tensor, 2>& outputs) {
  Context& context = Context::here();
  const InterceptorPause unseen;
  const InferScope no_elements;
  Resolved inputs;
  resolve(context, op, operands, caller, inputs);
  Inference inference{
      context, op,     inputs.bodies.data(), static_cast<int>(operands.size()), options,
      caller,  outputs};
  inference.stand_in = Access::body(nothing_);
  inference.device = op.changes_device ? inference.option<DeviceOptions>().device : inputs.device;
  op.shape(inference);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Body& body = *Access::body(outputs[i]);
    body.device_kind = static_cast<std::uint8_t>(inference.device.kind);
    body.device_index = static_cast<std::int8_t>(inference.device.index);
    set_row_major(body);
    body.contiguous = true;
    body.id = {uid_, number, static_cast<std::uint32_t>(i)};
  }
}

void StandIns::show(Body& header, const Tensor& found) {
  Body& shown = *Access::body(found);
  Body* const owner = shown.owner ? shown.owner : &shown;
  retain(owner);
  release(std::exchange(header.owner, owner));
  header.data = shown.data;
  header.contiguous = shown.contiguous;
  std::memcpy(header.strides, shown.strides, sizeof(Strides));
  header.id = shown.id;
  header.leaf = shown.leaf;
}

void StandIns::clear(Body& header) {
  const DeviceScope place(header.device());
  const TensorOptions options{.dtype = header.dtype};
  show(header, is_floating(header.dtype)
                   ? full(header.shape, Scalar(std::nan("")), options, Caller::here())
                   : zeros(header.shape, options));
  header.id = {};
}

Input input_of(const Operand& x) {
  switch (x.kind()) {
    case Operand::Kind::variable:
      return {.variable = x.variable()};
    case Operand::Kind::scalar:
      return {.scalar = x.scalar()};
    default:
      return {.tensor = x.tensor()};
  }
}
}  // namespace reel::batch
