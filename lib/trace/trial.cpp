// SPDX-License-Identifier: BSD-3-Clause
// Replays that are slower than the function itself: after some replays of a signature, calls
// alternate between both and are measured. The faster kind is used from then on.
#include <algorithm>
#include <bit>
#include <cstdio>

#include "lib/gate/call_kernel.hpp"
#include "lib/pool/process.hpp"
#include "lib/trace/check.hpp"
#include "lib/trace/progress.hpp"

namespace reel::detail {
namespace {
constexpr std::size_t turns = 32;      // half of them are runs
constexpr double clear_factor = 1.03;  // a smaller difference is noise
constexpr std::uint32_t calls_before_look = 8, calls_without_look = 255;

/// A quarter of the times is lower: other work on the machine disturbs it less than a mean.
double lower_quartile(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 4];
}
}  // namespace

bool runs_on_trial(TraceProgress& call, const Context& context) {
  const auto is_elsewhere = [](const Tensor* x) { return x->defined() && x->device() != cpu(); };
  if (call.is_taped || context.observers || call.cache->shared || context.device != cpu() ||
      std::any_of(call.arguments.begin(), call.arguments.end(), is_elsewhere))
    return false;
  if (!call.cache->on_trial.exchange(true)) return false;  // it is not known when this call began
  TraceEntry& entry = *call.entry;
  entry.run_seconds.reserve(turns);  // note_time() must not throw
  entry.replay_seconds.reserve(turns);
  // The order of the Thue-Morse sequence: no step that a program does every second time, or every
  // fourth, falls on one kind.
  const std::size_t turn = entry.run_seconds.size() + entry.replay_seconds.size();
  const bool runs = std::popcount(turn) % 2;
  call.measured = runs ? TraceProgress::Measured::run : TraceProgress::Measured::replay;
  return runs;
}

void note_time(TraceProgress& call) {
  const bool runs =
      std::exchange(call.measured, TraceProgress::Measured::none) == TraceProgress::Measured::run;
  if (!runs && call.doing != Doing::replaying) return;  // a check, or another path
  const double seconds = tracing::seconds_since(call.began);
  TraceEntry& entry = *call.entry;
  const Locked held(Lock::traces);
  (runs ? entry.run_seconds : entry.replay_seconds).push_back(seconds);
  if (entry.run_seconds.size() + entry.replay_seconds.size() < turns) return;
  call.cache->on_trial = false;
  entry.trial_begins = TraceEntry::never;
  entry.is_slow =
      lower_quartile(entry.run_seconds) * clear_factor < lower_quartile(entry.replay_seconds);
}

std::string TraceEntry::times_of_trial() const {
  char text[96];
  std::snprintf(text, sizeof text, "the function takes %.3g us, a replay %.3g us",
                run_seconds[run_seconds.size() / 4] * 1e6,
                replay_seconds[replay_seconds.size() / 4] * 1e6);
  return text;
}

void TraceCache::count_slow_call() {
  if (slow_calls < calls_before_look) ++slow_calls;
  if (slow_calls == calls_before_look && !shared)
    __atomic_store_n(&eager_calls, calls_without_look, __ATOMIC_RELAXED);
}
}  // namespace reel::detail
