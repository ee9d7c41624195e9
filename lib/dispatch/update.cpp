// SPDX-License-Identifier: BSD-3-Clause
// The gate for ops that write Variables in place, and the assignment of slices.
#include "lib/dispatch/update.hpp"

#include <reel/ops.hpp>

#include "lib/dispatch/crossing.hpp"
#include "lib/dispatch/promotion.hpp"
#include "lib/dispatch/recording.hpp"
#include "lib/ops/ops.hpp"
#include "lib/tensor/indexing.hpp"
#include "lib/tensor/live.hpp"

namespace reel {
namespace {
/// The value as the op wants it: of the Variable's dtype, tensors as they are.
Tensor prepared(const Op& op, int i, const Operand& x, DType dtype, bool converts, Caller caller) {
  Tensor value;
  const bool scalar = x.kind() == Operand::Kind::scalar;
  if (scalar && converts && !fits(x.scalar(), dtype))
    fail<DTypeError>(caller, op.name, argument_name(op, i),
                     "a number that fits " + std::string(name_of(dtype)), to_text(x.scalar()));
  if (scalar)
    value = full({}, x.scalar(), {converts ? dtype : x.scalar().dtype()}, caller);
  else
    value = x.kind() == Operand::Kind::variable ? read_variable(Context::here(), x.variable())
                                                : x.tensor();
  if (!value.defined())
    fail<Error>(caller, op.name, argument_name(op, i), "a tensor", "an undefined Tensor");
  if (!converts || value.dtype() == dtype) return value;
  const bool as_number = is_live(*Access::body(value)) && is_floating(dtype);
  if (promoted(value.dtype(), dtype) != dtype && !as_number)
    fail<DTypeError>(caller, op.name, argument_name(op, i),
                     "a dtype that promotes to " + std::string(name_of(dtype)),
                     std::string(name_of(value.dtype())), "Convert it first: x.to(...).");
  return cast(Operand(value, caller), dtype);
}

/// What is assigned has the shape of what it replaces; a number fills it.
void require_shape(const Op& op, const Operand& value, const Shape& shape) {
  const Body* body = body_of(value);
  if (!body || body->shape == shape || is_live(*body))
    return;  // an undefined tensor is refused later
  fail<ShapeError>(value.caller(), op.name, argument_name(op, 1),
                   "shape " + to_text(shape) + " or a number", to_text(body->shape));
}
}  // namespace

void run_update(Op& op, std::span<const Variable> variables, std::span<const Operand> operands,
                OptionsView options, Caller caller) try {
  if (!op.cpu) [[unlikely]]
    assemble();
  Context& context = Context::here();
  const RecordingPause pause(context);
  const std::size_t written = variables.size(), count = written + operands.size();
  Few<Tensor, 4> values;
  Few<Body*, 8> inputs(count);
  for (std::size_t i = 0; i < written; ++i)
    inputs[i] = Access::body(read_variable(context, variables[i]));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool converts = op.promoted >> (written + i < 7 ? written + i : 7) & 1;
    values.push_back(prepared(op, static_cast<int>(written + i), operands[i], inputs[0]->dtype,
                              converts, caller));
    inputs[written + i] = Access::body(values[i]);
  }
  Few<Tensor, 2> none;  // an update makes no outputs
  Inference inference{context, op, inputs.data(), static_cast<int>(count), options, caller, none};
  if (!op.moves)
    for (std::size_t i = 0; i < written; ++i) require_arithmetic(inference, static_cast<int>(i));
  op.shape(inference);
  if (context.mode & infer_only) return;

  Crossings crossings;
  const Caller site = context.site_of(caller);
  if (context.is_watchful())
    for (std::size_t i = &op == &assign_op ? written : 0; i < count; ++i)
      crossings.read(context, *inputs[i], op.name, site);
  const RecordId mark = crossings.together();

  Few<Tensor, 4> made;  // new buffers, where the old one is shared
  Few<Body*, 4> places(written);
  for (std::size_t i = 0; i < written; ++i) {
    places[i] = inputs[i];
    if (unshared(*inputs[i])) continue;
    places[i] = allocate(context, inputs[i]->dtype, inputs[i]->shape, inputs[i]->elements);
    if (!places[i])
      fail<MemoryError>(caller, op.name, "result", "memory for a new value",
                        "none from the system");
    made.push_back(Access::adopt(places[i]));
    places[i]->device_kind = inputs[i]->device_kind;
  }
  const GateCall call{op,   inputs.data(), static_cast<int>(count),   options,
                      site, places.data(), static_cast<int>(written), variables.data()};
  bool kernel = true;
  for (Stage* stage = context.stages; stage; stage = stage->next)
    kernel = stage->before(call) && kernel;
  if (kernel) run_kernel(call);
  if (context.is_watchful())
    for (std::size_t i = 0; i < written; ++i) places[i]->id = mark;
  for (std::size_t i = 0; i < written; ++i)
    if (places[i] != inputs[i]) Access::cell(variables[i]).value = Access::share(places[i]);
  for (Stage* stage = context.stages; stage; stage = stage->next) stage->after(call);
} catch (const std::bad_alloc&) {
  fail_memory(caller, op.name);
}

void run_assignment(Op& op, const Variable& variable, const Operand& value) try {
  require_shape(op, value, variable.shape());
  run_update(op, {&variable, 1}, {&value, 1}, {}, value.caller());
} catch (const std::bad_alloc&) {
  fail_memory(value.caller(), op.name);
}

namespace {
/// The value of a slice after the write.
Tensor new_part(Op& op, const Variable& variable, const SliceOptions& place, const Operand& value) {
  const Caller caller = value.caller();
  const Tensor part = prepared(op, 1, value, variable.dtype(), true, caller);
  const Tensor current = slice(Operand(read_variable(Context::here(), variable), caller), place);
  require_shape(op, value, current.shape());
  if (&op == &assign_add_op) return add(Operand(current, caller), Operand(part, caller));
  if (&op == &assign_sub_op) return subtract(Operand(current, caller), Operand(part, caller));
  return broadcast_to(Operand(part, caller), current.shape());
}
}  // namespace

void run_slice_update(Op& op, const Variable& variable, std::span<const Index> indices,
                      const Operand& value) try {
  const RecordingPause pause(Context::here());
  const Caller caller = value.caller();
  const FunctionScope scope(caller, op.name);
  SliceOptions place = select(variable.shape(), indices, op.name).slice;
  Tensor part = new_part(op, variable, place, value);
  if (!place.keeps_axes()) part = reshape(Operand(part, caller), place.lengths);
  place.dropped = place.added = 0;
  const Operand operand(part, caller);
  run_update(assign_slice_op, {&variable, 1}, {&operand, 1}, place, caller);
} catch (const std::bad_alloc&) {
  fail_memory(value.caller(), op.name);
}
}  // namespace reel
