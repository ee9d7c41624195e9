// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/convert.hpp"

#include <string>

#include "lib/body/live.hpp"
#include "lib/flow/context.hpp"
#include "lib/flow/device.hpp"
#include "lib/flow/redirect.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/gate/recording.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/create.hpp"
#include "lib/table/options/device.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
Tensor constant(const Shape& shape, DType dtype, Scalar value, Caller caller) {
  FillOptions options{.dtype = dtype, .shape = shape};
  if (is_floating(dtype))
    options.start = value.real();
  else
    options.first = dtype == DType::boolean ? value.real() != 0 : value.integer();
  return run(core_ops.fill, options, caller);
}

Tensor as_dtype(const Operand& x, DType dtype) {
  if (x.kind() == Operand::Kind::scalar && is_floating(dtype) && is_floating(x.scalar().dtype())) {
    const FunctionScope scope(x.caller(), "full");
    return constant({}, dtype, x.scalar(), x.caller());
  }
  return run(core_ops.cast, x, DTypeOptions{dtype});
}

Tensor Tensor::to(DType dtype, Caller caller) const {
  if (defined_body(*this, "to", caller).dtype == dtype) return *this;
  const FunctionScope scope(caller, "to");
  return as_dtype(Operand(*this, caller), dtype);
}

Tensor Tensor::to(Device device, Caller caller) const {
  const Device from = device_of(defined_body(*this, "to", caller));
  if (device == from) return *this;
  check_device(device, "to", caller);
  const FunctionScope scope(caller, "to");
  return run(core_ops.to_device, Operand(*this, caller),
             DeviceOptions{.device = device, .from = from});
}

/// A read value has a header of its own. Tapes recognise the Variable by the header in its cell,
/// whenever they began. They know the value only if they recorded when it was read.
Tensor Variable::value() const {
  Context& context = Context::here();
  const Operand self =
      context.mode & redirected ? Redirect::here(context)->read(*this) : Operand(*this);
  Body* const body = self.kind() == Operand::Kind::variable
                         ? Access::body(read_variable(context, *this))
                         : body_of(self);
  const Origin origin = context.mode & recording ? origin_of(context, self, body) : Origin();
  // A tape may need the value for longer than the leaf exists that another tape watches.
  if (origin.tapes && (*context.reel)[origin.record].tapes)
    return run(core_ops.reshape, self, ShapeOptions{body->shape});
  Tensor value = make_alias(context, body);
  if (!value.defined())
    fail<MemoryError>({}, "Variable", "value", "memory for a header", "none from the system");
  if (origin.tapes) Access::body(value)->id = {context.reel->uid(), origin.record, 0};
  return value;
}
Tensor Operand::value() const {
  switch (kind_) {
    case Kind::variable:
      return variable().value();
    case Kind::scalar: {
      const PlaceScope numbers(Context::here(), cpu());
      const FunctionScope scope(caller(), "full");
      return constant({}, scalar_.dtype(), scalar_, caller());
    }
    default:
      return Redirect::read_tensor(Context::here(), tensor());
  }
}
}  // namespace reel
