// SPDX-License-Identifier: BSD-3-Clause
// Assignments to Variables and to slices of them.
#pragma once
#include "lib/gate/gate.hpp"

namespace reel {
/// Writes a Variable: `op` is assign_op, assign_add_op or assign_sub_op. The value has its shape or
/// is a C++ number.
void run_assignment(Op& op, const Variable& variable, const Operand& value);
/// Runs an update of `part`, a view of the Variable's value, which nothing else holds.
void run_part_update(Op& op, const Variable& variable, Tensor part, const Operand& value);
/// Runs an update of the elements at positions (int64) in the row-major order of the Variable. Of
/// several values for one element, assign_op keeps the last; the others add or subtract all. The
/// whole Variable is written.
void run_picked_update(Op& op, const Variable& variable, const Tensor& positions,
                       const Operand& value);
/// Whether this is a view of a Variable's value in which each element occurs once. Under a Redirect
/// the value that was read is not the one in the Variable's cell.
bool is_part(const Tensor& part, const Tensor& value);
}  // namespace reel
