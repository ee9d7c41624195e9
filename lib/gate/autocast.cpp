// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/autocast.hpp"

#include "lib/body/live.hpp"
#include "lib/gate/convert.hpp"

namespace reel {
namespace {
/// The dtype to which a scope casts an input of this dtype.
DType cast_dtype(Autocast rule, DType dtype, DType low) {
  if (rule == Autocast::low && dtype == DType::float32) return low;
  if (rule == Autocast::full && is_half(dtype)) return DType::float32;
  return dtype;
}
}  // namespace

std::span<const Operand> AutocastOperands::of(const Context& context, const Op& op,
                                              std::span<const Operand> operands) {
  if (op.autocast == Autocast::as_given || op.composite) return operands;
  cast_.resize(operands.size());
  bool any = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Body* const body = body_of(operands[i]);
    const bool takes_part = op.promoted >> (i < 7 ? i : 7) & 1;
    if (!takes_part || !body || is_live(*body)) continue;
    const DType dtype = cast_dtype(op.autocast, body->dtype, context.autocast);
    if (dtype == body->dtype) continue;
    cast_[i] = as_dtype(operands[i], dtype);
    any = true;
  }
  if (!any) return operands;
  for (std::size_t i = 0; i < operands.size(); ++i)
    operands_.push_back(cast_[i].defined() ? Operand(cast_[i], operands[i].caller()) : operands[i]);
  return {operands_.data(), operands_.size()};
}
}  // namespace reel
