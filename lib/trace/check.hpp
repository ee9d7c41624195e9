// SPDX-License-Identifier: BSD-3-Clause
// Checks whether a replay and a run of the function gave the same results. Plans the next check.
#pragma once
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "lib/trace/tree.hpp"

namespace reel::tracing {
/// The result of a replay and the result of the run next to it, with a name.
struct Compared {
  std::string what;
  Tensor replayed, run;
};
/// The first pair that differs by more than rounding. A replay may add gradients in another order.
Difference compare(std::span<const Compared> pairs);

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
/// The share of time for checks: the value of the environment variable REEL_TRACE_CHECK, or `asked`
/// if it is not set.
double share_of_checks(double asked);

/// Call it if a check found no difference. Plans the next check. Replays 1, 2, 4, 8 ... are
/// checked. From replay 64 on there are more checks, as long as they cost no more than this share
/// of the time of the replays.
void plan_next_check(Ending& ending, double share, double check_seconds, double replay_seconds);
/// Whether the plan of the next check depends on measured times.
bool needs_times(const Ending& ending, double share);
}  // namespace reel::tracing
