// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <span>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"

namespace reel {
/// Input i as an update of `variable` needs it: on the device of the Variable, and in its dtype if
/// it can be converted; other tensors unchanged.
Tensor value_for_update(const Op& op, int i, const Operand& x, const Body& variable, bool converts,
                        Caller caller);
}  // namespace reel
