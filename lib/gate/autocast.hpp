// SPDX-License-Identifier: BSD-3-Clause
// Casts of an AutocastScope. They are ops that tapes and traces see.
#pragma once
#include <span>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"

namespace reel {
/// Operands in the place of those that an AutocastScope casts.
class AutocastOperands {
 public:
  /// The operands that the op takes in this scope: `operands`, or some of this object.
  std::span<const Operand> of(const Context& context, const Op& op,
                              std::span<const Operand> operands);

 private:
  SmallVector<Tensor, 4> cast_;
  SmallVector<Operand, 4> operands_;
};
}  // namespace reel
