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
}  // namespace reel::tracing
