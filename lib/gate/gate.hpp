// SPDX-License-Identifier: BSD-3-Clause
// The gate: every op passes through run().
#pragma once
#include <initializer_list>
#include <span>
#include <string>

#include <reel/error.hpp>

#include "lib/body/text.hpp"
#include "lib/flow/interceptor.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
/// Checks the call, infers shapes, allocates, calls the kernel, records it, and notifies
/// interceptors and observers.
Tensor run(Op& op, std::initializer_list<Operand> inputs, OptionsView options = {});
Tensor run(Op& op, const Operand& x, OptionsView options = {});
Tensor run(Op& op, const Operand& x, const Operand& y);
/// run() for any number of inputs, and for ops with several outputs.
void run(Op& op, std::span<const Operand> inputs, OptionsView options, Caller caller,
         SmallVector<Tensor, 2>& outputs);
Tensor run(Op& op, const Operands& inputs, OptionsView options = {});
/// Adds the result to `output` in place. For ops whose kernels can accumulate, with inputs that the
/// kernel takes as they are.
void run_into(Op& op, std::initializer_list<Operand> inputs, OptionsView options, Body& output);
/// Ops without inputs.
Tensor run(Op& op, OptionsView options, Caller caller);
/// Pointwise ops of one and two inputs: a fast path for the common layouts.
Tensor run_unary(Op& op, const Operand& x);
Tensor run_binary(Op& op, const Operand& x, const Operand& y);

/// Ops that write Variables in place: output i is variables[i]; inputs are the Variables' values,
/// then `inputs`. Nothing changes if it throws.
void run_update(Op& op, std::span<const Variable> variables, std::span<const Operand> inputs,
                OptionsView options, Caller caller);

/// The body of an operand; null for a number and an undefined tensor.
inline Body* body_of(const Operand& x) {
  if (x.kind() <= Operand::Kind::temporary) return Access::body(x.tensor());
  if (x.kind() == Operand::Kind::variable) return Access::body(Access::cell(x.variable()).value);
  return nullptr;
}

/// What an operand, input i, is before it passes.
const Shape& shape_of(const Op& op, const Operand& x, int i = 0);
DType dtype_of(const Op& op, const Operand& x, int i = 0);

}  // namespace reel
