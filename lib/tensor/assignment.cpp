// SPDX-License-Identifier: BSD-3-Clause
#include "lib/tensor/assignment.hpp"

#include <reel/ops.hpp>

#include "lib/body/live.hpp"
#include "lib/gate/update.hpp"
#include "lib/ops/ops.hpp"
#include "lib/tensor/indexing.hpp"

namespace reel {
namespace {
/// What is assigned has the shape of what it replaces; a number fills it.
void require_shape(const Op& op, const Operand& value, const Shape& shape) {
  const Body* body = body_of(value);
  if (!body || body->shape == shape || is_live(*body))
    return;  // an undefined tensor is refused later
  fail<ShapeError>(value.caller(), op.name, argument_name(op, 1),
                   "shape " + to_text(shape) + " or a number", to_text(body->shape));
}
}  // namespace

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
  const Body& current_value = *Access::body(Access::cell(variable).value);
  const Tensor part = value_for_update(op, 1, value, current_value, true, caller);
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
