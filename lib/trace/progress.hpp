// SPDX-License-Identifier: BSD-3-Clause
// What one call of a traced function knows.
#pragma once
#include <bit>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/trace/cache.hpp"
#include "lib/trace/replay.hpp"
#include "lib/trace/state.hpp"

namespace reel::detail {
enum class Doing : std::uint8_t { eager, replaying, capturing, verifying };

struct TraceProgress {
  TraceCache* cache = nullptr;
  Caller caller;
  Doing doing = Doing::eager;
  Key key;
  std::vector<Tensor*> arguments;                  // each tensor once
  std::vector<std::pair<Tensor*, Tensor*>> again;  // repeated arguments: (repeated, first)
  std::vector<std::uint32_t>
      places;  // if there are many arguments: 1 + an index, by the body's hash
  std::vector<const Variable*> variables;
  std::vector<ArgumentText> texts;
  std::vector<Tensor> results;
  TraceEntry* entry = nullptr;
  std::optional<tracing::Replay> replay;
  std::shared_ptr<tracing::Replay> kept;  // in its place, under a tape
  bool is_taped = false;                  // a tape records
  TapedCall taped;
  const tracing::Ending* replayed = nullptr;
  std::vector<tracing::UserCall> user_calls;  // made by a replay that was dropped
  std::optional<tracing::Tracer> tracer;
  std::optional<InterceptorScope> scope;
  tracing::StateWatch state;
  std::vector<const Tensor*> slots;  // the Tensors that held the arguments when the run began
  std::shared_ptr<tracing::KeptResult> result;
  bool runs = false, result_shared = false, differs = false, scheduled = false;
  std::uint64_t run = 0;               // the number of this run of the function
  bool alone = false;                  // whether no other run was going on when it began
  std::size_t rest = 0;                // the length of the key without what reads() lists
  std::vector<const Tensor*> tensors;  // listed there
  std::vector<std::pair<std::string, std::size_t>>* read_paths = nullptr;  // and their ends in key
  std::vector<tracing::ChangedWord> changes;  // the changes that made this check due
  std::uint64_t number = 0;                   // the number of this call
  // The results of a replay that was not committed.
  std::shared_ptr<tracing::Ending> ending;
  const tracing::Plan* plan = nullptr;
  std::vector<Tensor> expected;
  std::vector<std::pair<Variable, Tensor>> assigned;
  std::uint64_t position = 0;
  std::uint64_t marked_reads = 0;  // Context::marked_reads before the capture
  std::chrono::steady_clock::time_point began;
  double replay_seconds = 0;
  enum class Measured : std::uint8_t { none, run, replay } measured = Measured::none;
  TraceProgress* next = nullptr;

  /// The index of the tensor in `arguments`; the size of `arguments` if it is not there and the
  /// caller adds it.
  std::size_t place_of(const Body* body) {
    constexpr std::size_t few = 16;
    const std::size_t count = arguments.size();
    std::size_t i = 0;
    while (i < std::min(count, few) && Access::body(*arguments[i]) != body) ++i;
    if (count < few || i < few) return i;
    if (places.size() < 2 * (count + 1)) {
      places.assign(std::bit_ceil(4 * (count + 1)), 0);
      for (i = 0; i < count; ++i)
        places[slot_of(Access::body(*arguments[i]))] = static_cast<std::uint32_t>(i + 1);
    }
    std::uint32_t& place = places[slot_of(body)];
    if (place) return place - 1;
    place = static_cast<std::uint32_t>(count + 1);  // the caller adds the argument
    return count;
  }
  /// The slot that holds the body, or the free one where it belongs.
  std::size_t slot_of(const Body* body) const {
    const std::size_t mask = places.size() - 1;
    std::size_t slot = reinterpret_cast<std::uintptr_t>(body) * 0x9e3779b97f4a7c15u >> 32 & mask;
    while (places[slot] && Access::body(*arguments[places[slot] - 1]) != body)
      slot = (slot + 1) & mask;
    return slot;
  }

  tracing::Replay& replaying() { return kept ? *kept : *replay; }

  void clear() {
    replay.reset();
    if (std::exchange(is_taped, false)) {
      kept.reset();
      taped = {};
    }
    if (!places.empty()) places.clear();
    key.clear();
    arguments.clear();
    again.clear();
    variables.clear();
    tensors.clear();
    entry = nullptr;  // its function may end before the next call uses this object
    measured = Measured::none;
    if (std::exchange(doing, Doing::eager) == Doing::replaying) return;
    if (std::exchange(runs, false)) ++cache->ended;
    scope.reset();
    tracer.reset();
    state.clear();
    user_calls.clear();
    slots.clear();
    results.clear();
    result.reset();
    result_shared = differs = scheduled = false;
    changes.clear();
    ending.reset();
    expected.clear();
    assigned.clear();
  }
};

/// While replays of the entry are compared with runs: true if this call is to run the function.
bool runs_on_trial(TraceProgress& call, const Context& context);
/// The end of a call that is measured.
void note_time(TraceProgress& call);
/// Calls of traced functions that this thread is in.
int open_calls();
/// Writes to stderr why calls run eagerly.
void warn(const TraceProgress& call, const std::string& why);
}  // namespace reel::detail
