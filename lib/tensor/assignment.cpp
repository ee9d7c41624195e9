// SPDX-License-Identifier: BSD-3-Clause
#include "lib/tensor/assignment.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include <reel/ops.hpp>

#include "lib/body/live.hpp"
#include "lib/gate/update.hpp"
#include "lib/ops/ops.hpp"
#include "lib/table/options/join.hpp"

namespace reel {
namespace {
/// An assigned value must have the shape of the old one. A number is used for every element.
void require_shape(const Op& op, const Operand& value, const Shape& shape) {
  const Body* body = body_of(value);
  if (!body || body->shape == shape || is_live(*body))
    return;  // an undefined tensor is refused later
  fail<ShapeError>(value.caller(), op.name, argument_name(op, 1),
                   "shape " + to_text(shape) + " or a number", to_text(body->shape));
}
}  // namespace

void run_assignment(Op& op, const Variable& variable, const Operand& value) {
  require_shape(op, value, variable.shape());
  run_update(op, {&variable, 1}, {&value, 1}, {}, value.caller());
}

namespace {
/// The value of a part after the write.
Tensor new_part(Op& op, const Variable& variable, const Tensor& current, const Operand& value) {
  const Caller caller = value.caller();
  const Body& whole = *Access::body(Access::cell(variable).value);
  const Tensor part = value_for_update(op, 1, value, whole, true, caller);
  require_shape(op, value, current.shape());
  if (&op == &assign_add_op) return add(Operand(current, caller), Operand(part, caller));
  if (&op == &assign_sub_op) return subtract(Operand(current, caller), Operand(part, caller));
  return broadcast_to(Operand(part, caller), current.shape());
}
PlaceOptions place_of(const Body& part, const Body& whole) {
  PlaceOptions place{.lengths = part.shape, .steps = part.shape};
  if (part.elements) place.start = (part.data - whole.data) / size_of(whole.dtype);
  std::copy_n(part.strides, part.shape.rank(), place.steps.data());
  return place;
}
}  // namespace

void run_part_update(Op& op, const Variable& variable, Tensor part, const Operand& value) {
  const Caller caller = value.caller();
  const PlaceOptions place =
      place_of(*Access::body(part), *Access::body(Access::cell(variable).value));
  const Tensor next = new_part(op, variable, part, value);
  part = Tensor();  // its share of the buffer would force a copy
  const Operand operand(next, caller);
  run_update(assign_slice_op, {&variable, 1}, {&operand, 1}, place, caller);
}

void run_picked_update(Op& op, const Variable& variable, const Tensor& positions,
                       const Operand& value) {
  const Caller caller = value.caller();
  const Body& whole = *Access::body(Access::cell(variable).value);
  Tensor values = value_for_update(op, 1, value, whole, true, caller);
  require_shape(op, value, positions.shape());
  values = reshape(broadcast_to(values, positions.shape()), {-1});
  if (&op == &assign_sub_op) values = negative(values);
  const auto put = &op == &assign_op ? scatter : scatter_add;
  const Tensor next = put(reshape(variable, {-1}), reshape(positions, {-1}), values, 0);
  run_assignment(assign_op, variable, Operand(reshape(next, whole.shape), caller));
}

bool is_part(const Tensor& part, const Tensor& value) {
  const Body &body = *Access::body(part), &whole = *Access::body(value);
  if (!body.owner || body.owner != whole.owner || body.dtype != whole.dtype) return false;
  // If the axes are sorted by step, the step of each axis must be larger than the extent of all
  // axes before it.
  SmallVector<std::pair<std::int64_t, std::int64_t>, Shape::max_rank> axes;  // step, length
  for (int i = 0; i < body.rank(); ++i)
    axes.emplace_back(std::abs(body.strides[i]), body.shape.data()[i]);
  std::sort(axes.begin(), axes.end());
  std::int64_t reach = 0;
  for (const auto& [step, length] : axes) {
    if (length < 2) continue;
    if (step <= reach) return false;
    reach += step * (length - 1);
  }
  return true;
}
}  // namespace reel
