// SPDX-License-Identifier: BSD-3-Clause
// The order of the steps of a plan.
#pragma once
#include "lib/trace/tree.hpp"

namespace reel::tracing {
/// An update may write in place if nothing after it can fail. At the end of each path this moves
/// the steps that can fail in front of the updates, with the steps that make the numbers of
/// updates, and all that these steps need. It moves nothing over an update whose result it needs,
/// or over user code, which may read Variables.
void put_updates_last(Tree& tree);

/// Whether an update replaces its Variable by a value that has the same layout.
bool assigns_whole(const Tree& tree, const Step& step);

/// Moves each assignment of a whole value behind the steps that follow it, up to the next update of
/// its Variable, or up to user code. These steps read the assigned value instead of the Variable,
/// so passes before and after the assignment can run together.
void delay_assignments(Tree& tree);
}  // namespace reel::tracing
