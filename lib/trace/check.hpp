// SPDX-License-Identifier: BSD-3-Clause
// Checks: whether a replay and a run of the function gave the same, and when to look again.
#pragma once
#include <span>
#include <string>
#include <utility>

#include "lib/trace/tree.hpp"

namespace reel::tracing {
/// What a replay gave and what the run beside it gave, under a name.
struct Compared {
  std::string what;
  Tensor replayed, run;
};
/// The first that differs by more than rounding: a replay adds up gradients in another order.
Difference compare(std::span<const Compared> pairs);

/// The share of the time for checks: what the environment variable REEL_TRACE_CHECK says, else
/// `asked`.
double share_of_checks(double asked);

/// A check has found no difference: sets when the next is due. They are beside replays 1, 2, 4, 8,
/// ...; from 64 on also as often as costs that share of the time of the replays.
void plan_next_check(Ending& ending, double share, double check_seconds, double replay_seconds);
/// Whether the next check is planned by what it costs.
bool needs_times(const Ending& ending, double share);
}  // namespace reel::tracing
