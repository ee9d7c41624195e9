// SPDX-License-Identifier: BSD-3-Clause
// What was captured of a function, by signature. Calls read it without a lock. An entry keeps its
// address until the function is destroyed.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <reel/trace.hpp>

#include "lib/trace/plan.hpp"

namespace reel::detail {
using Key = std::vector<std::uint64_t>;

/// The description of one argument of a signature. A number has a path.
struct ArgumentText {
  std::string text, path;
};

struct TraceEntry {
  Key key;
  std::uint64_t hash = 0;
  std::vector<Variable> variables;  // the Variables that the key names
  TraceEntry* next = nullptr;
  std::atomic<tracing::Plan*> plan = nullptr;  // the newest plan
  std::atomic<bool> eager = false, described = false;

  // Guarded by Lock::traces:
  tracing::Tree tree;
  // kept, as other threads may still run an older plan
  std::vector<std::unique_ptr<tracing::Plan>> plans;
  std::string signature, trouble;
  int failures = 0;

  /// Adds the path of call number `call`. If it leaves a known path although all values that were
  /// read are equal, nothing is added, and the result says where it leaves. If there are `captured`
  /// words, replays compare them.
  tracing::Difference publish(const tracing::Capture& path, std::uint64_t call,
                              std::unique_ptr<tracing::CapturedWords> captured);
  /// Where the path of a run, which was checked against a replay, differs from the known paths.
  tracing::Difference difference(const tracing::Capture& path) const;
  /// Call it if a run could not be captured. Returns true if calls run eagerly from now on. This
  /// happens after several such runs, or after many if the reason may be chance.
  bool skip(std::string why, bool by_chance);
  /// Drops what was captured, because it is no longer valid.
  void forget(std::string why);
  void run_eagerly(std::string why);
};

struct TraceBook {
  std::uint32_t references = 1;
  TracedFunction function = {};
  TraceOptions options;
  // calls while a tape or an interceptor is active are not counted
  std::atomic<std::uint64_t> calls = 0;
  std::array<std::atomic<TraceEntry*>, 64> buckets = {};
  std::atomic<TraceEntry*> last = nullptr;  // the entry of the last call
  std::atomic<bool> warned = false;
  std::atomic<bool> doubting = false;          // whether the next call runs the function
  std::size_t entries = 0;                     // guarded by Lock::traces
  std::unordered_map<std::string, int> alike;  // signatures by the rest without one number
  using Doubtful = std::vector<tracing::StateWatch::Doubtful>;
  Doubtful doubtful;               // what the last watched run changed
  std::uint64_t doubtful_run = 0;  // the number of that run, if no other run overlapped it
  int doubts = 0;                  // runs that changed no word that the run before changed
  std::vector<std::uintptr_t> not_state;
  std::string state;  // the state that the function keeps: all signatures run eagerly then

  ~TraceBook();
  TraceEntry* find(const Key& key, std::uint64_t hash) const;
  /// Null if there are too many entries.
  TraceEntry* find_or_add(const Key& key, std::uint64_t hash,
                          const std::vector<const Variable*>& variables);
  /// There is a warning if so many signatures differ in one number only.
  static constexpr int alike_signatures = 8;
  /// Describes the entry. Returns the path of a number if the number of signatures reaches the
  /// limit for the warning now.
  std::string describe(TraceEntry& entry, const std::vector<ArgumentText>& arguments,
                       bool training);
  bool full() const;
  /// Counts the runs of the function so far, with and without a trace, and the runs that have
  /// ended. The counts are outside of the book: in the book they would be state of a function that
  /// captures the trace. Few books share one pair of counts.
  struct Runs {
    std::atomic<std::uint64_t> begun = 0, ended = 0;
  };
  Runs& runs() const;
  /// Whether the changes of a run may be no state. All of them are behind pointers that may be
  /// stale, and the run before changed other words. State would change at the same words again. If
  /// so, the next call runs the function and decides.
  bool may_be_stale(Doubtful& memory);
  /// Call it if a call of `entry` has changed state of the function: nothing that was captured is
  /// valid then. Returns true if calls of all signatures run eagerly from now on, after several
  /// such calls.
  bool state_changed(TraceEntry& entry, const std::string& why);
  /// Call it before the next run. State keeps the values that the last run gave it. Memory that has
  /// other values now is no state, and its changes do not count. If the function ran in between,
  /// nothing is known.
  void settle_doubt(tracing::StateWatch& state);
  std::string explain() const;
  template <class Visit>
  void for_each(const Visit& visit) const;
};
}  // namespace reel::detail
