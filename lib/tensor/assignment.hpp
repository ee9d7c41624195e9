// SPDX-License-Identifier: BSD-3-Clause
// Assignments to Variables and to slices of them.
#pragma once
#include <span>

#include "lib/gate/gate.hpp"

namespace reel {
/// Writes a Variable: `op` is assign_op, assign_add_op or assign_sub_op. The value has its shape or
/// is a C++ number.
void run_assignment(Op& op, const Variable& variable, const Operand& value);
/// The same for a slice of it.
void run_slice_update(Op& op, const Variable& variable, std::span<const Index> indices,
                      const Operand& value);
}  // namespace reel
