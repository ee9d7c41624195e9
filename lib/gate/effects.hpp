// SPDX-License-Identifier: BSD-3-Clause
// Ops of register_op() that have effects besides their results, such as a message to a process.
#pragma once
#include <string_view>

#include "lib/table/op.hpp"

namespace reel {
/// A call of a traced function that a replay has begun does not call this op again, whatever the
/// inputs of the op are then.
void set_effects(std::string_view op);
bool has_effects(const Op& op);
}  // namespace reel
