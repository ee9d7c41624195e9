// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/resolved.hpp"

#include "lib/gate/convert.hpp"

#include "lib/body/live.hpp"
#include "lib/gate/devices.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
namespace {
/// A number in memory that its device keeps.
Tensor constant_on(Context& context, Device device, const std::byte* kept, DType dtype) {
  Body* const owner = allocate_borrowed(context, kept, size_of(dtype));
  if (!owner) throw std::bad_alloc();
  const Tensor keeper = Access::adopt(owner);
  Body* const body = allocate_view(context, owner);
  if (!body) throw std::bad_alloc();
  body->dtype = dtype;
  body->device_kind = static_cast<std::uint8_t>(device.kind);
  body->device_index = static_cast<std::int8_t>(device.index);
  body->shape = {};
  body->elements = 1;
  return Access::adopt(body);
}
Body* number_body(Context& context, const Op& op, int i, Scalar number, DType dtype, Caller caller,
                  Resolved& inputs) {
  if (!fits(number, dtype))
    fail<DTypeError>(caller, op.name, argument_name(op, i),
                     "a number that fits " + Text(name_of(dtype)), to_text(number));
  std::uint64_t stored = 0;
  store_number(reinterpret_cast<std::byte*>(&stored), number, dtype);
  const Device device = inputs.device;
  Backend& backend = *backend_of(device.kind);
  if (const std::byte* const kept = backend.constant(device.index, stored))
    return inputs.keep(constant_on(context, device, kept, dtype));
  Body* body = allocate_or_fail(context, device, op, dtype, {}, caller);
  inputs.keep(Access::adopt(body));
  backend.upload(device.index, body->data, &stored, static_cast<std::size_t>(body->bytes()));
  return body;
}

/// Whether only live numbers and C++ numbers take part in the promotion.
bool only_live(const Op& op, std::span<const Operand> operands, Body* const* bodies) {
  bool any = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!bodies[i] || !(op.promoted >> (i < 7 ? i : 7) & 1)) continue;
    if (!is_live(*bodies[i])) return false;
    any = true;
  }
  return any;
}

/// The device for a call with these inputs: that of a tensor that is not on the CPU, else that of
/// any tensor, else the device of new tensors.
Device find_device(const Context& context, const Resolved& inputs) {
  bool any = false;
  for (const Body* body : inputs.bodies) {
    if (body && !on_cpu(*body)) return device_of(*body);
    any |= body != nullptr;
  }
  return any ? cpu() : context.device;
}

void check_devices(const Op& op, const Resolved& inputs, Caller caller) {
  const auto of_tensor = [&](const Body* body) {
    return body && !(on_cpu(*body) && body->rank() == 0);
  };
  for (std::size_t i = 0; i < inputs.bodies.size(); ++i)
    if (of_tensor(inputs.bodies[i]) && !(device_of(*inputs.bodies[i]) == inputs.device)) {
      std::size_t other = 0;
      while (!of_tensor(inputs.bodies[other]) ||
             !(device_of(*inputs.bodies[other]) == inputs.device))
        ++other;
      fail<DeviceError>(caller, op.name, argument_name(op, static_cast<int>(i)),
                        "a tensor on " + to_text(inputs.device) + " like " +
                            argument_name(op, static_cast<int>(other)),
                        "one on " + to_text(device_of(*inputs.bodies[i])),
                        "Nothing is copied behind your back: use x.to(device).");
    }
}

/// An int64 beside a floating number in a comparison: no dtype holds both, so the op `order`
/// compares them, and its result is compared with 0.
void resolve_order(Context& context, const Op& op, std::span<const Operand> operands, Caller caller,
                   Resolved& inputs) {
  const FunctionScope scope(caller, op.name);
  Tensor sides[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const Operand& x = operands[i];
    const Body* const body = inputs.bodies[i];
    const bool floating = is_floating(body ? body->dtype : x.scalar().dtype());
    const DType dtype = floating ? DType::float64 : DType::int64;
    sides[i] = body && body->dtype == dtype ? x.value() : as_dtype(x, dtype);
    if (!(sides[i].device() == inputs.device)) sides[i] = sides[i].to(inputs.device);
    if (body && context.mode & recording)
      inputs.origins[i] = origin_of(context, x, inputs.bodies[i]);
  }
  inputs.bodies[0] = inputs.keep(run(core_ops.order, sides[0], sides[1]));
  inputs.bodies[1] = number_body(context, op, 1, 0, DType::float32, caller, inputs);
}
}  // namespace

void resolve(Context& context, Op& op, std::span<const Operand> operands, Caller caller,
             Resolved& inputs) {
  const std::size_t count = operands.size();
  inputs.bodies.resize(count);
  inputs.origins.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    inputs.bodies[i] = body_of(operands[i]);
    if (!inputs.bodies[i] && operands[i].kind() != Operand::Kind::scalar)
      fail<Error>(caller, op.name, argument_name(op, static_cast<int>(i)), "a tensor",
                  "an undefined Tensor", "It was default-constructed or moved from.");
    if (operands[i].kind() == Operand::Kind::variable && context.mode & (intercepted | observed))
      inputs.bodies[i] = Access::body(read_variable(context, operands[i].variable()));
  }
  inputs.device = find_device(context, inputs);
  const bool as_given = op.changes_device || (op.composite && !op.shape);  // a user's function
  if (!(inputs.device == cpu()) && !as_given) check_devices(op, inputs, caller);
  const bool promotes = op.promote != Promote::none;
  inputs.only_numbers = promotes && only_live(op, operands, inputs.bodies.data());
  DType common = DType::boolean;
  if (op.promote == Promote::exact) {
    const auto exact = exact_dtype(op, operands, inputs.bodies.data());
    if (!exact) return resolve_order(context, op, operands, caller, inputs);
    common = *exact;
  } else if (promotes) {
    common = common_dtype(op, operands, inputs.bodies.data());
  }
  for (std::size_t i = 0; i < count; ++i) {
    const bool takes_part = promotes && op.promoted >> (i < 7 ? i : 7) & 1;
    Body*& body = inputs.bodies[i];
    bool converted = false;
    if (!body) {
      const Scalar number = operands[i].scalar();
      body = number_body(context, op, static_cast<int>(i), number,
                         takes_part ? common : number.dtype(), caller, inputs);
      continue;
    }
    if (takes_part && body->dtype != common) {
      body = inputs.keep(as_dtype(Operand(operands[i].value(), caller), common));
      converted = true;
    }
    if (on_cpu(*body) && !(inputs.device == cpu()) && !as_given) [[unlikely]] {
      const Tensor number = converted ? Access::share(body) : operands[i].value();
      body = inputs.keep(number.to(inputs.device, caller));
      converted = true;
    }
    if (context.mode & recording)
      inputs.origins[i] = origin_of(
          context, converted ? Operand(inputs.made[inputs.made.size() - 1]) : operands[i], body);
  }
}
}  // namespace reel
