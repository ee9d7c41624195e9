// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <span>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"

namespace reel {
/// The value of input i as an update of `variable` wants it: on its device, and of its dtype where
/// it converts; tensors as they are.
Tensor value_for_update(const Op& op, int i, const Operand& x, const Body& variable, bool converts,
                        Caller caller);
}  // namespace reel
