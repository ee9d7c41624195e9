// SPDX-License-Identifier: BSD-3-Clause
// What was captured of a function, by signature. Calls read it without a lock; entries stay where
// they are until the function goes.
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

/// An argument of a signature in words; a number has a path.
struct ArgumentText {
  std::string text, path;
};

struct TraceEntry {
  Key key;
  std::uint64_t hash = 0;
  std::vector<Variable> variables;  // that the key names
  TraceEntry* next = nullptr;
  std::atomic<tracing::Plan*> plan = nullptr;  // the newest
  std::atomic<bool> eager = false, described = false;

  // What follows is behind Lock::traces.
  tracing::Tree tree;
  std::vector<std::unique_ptr<tracing::Plan>> plans;  // others may still run an older one
  std::string signature, trouble;
  int failures = 0;

  /// Takes the path of call number `call` in. Where it leaves a known one although no value that
  /// was read differs, nothing is taken in, and where it does is the result. Where there are
  /// `captured` words, its replays are checked.
  tracing::Difference publish(const tracing::Capture& path, std::uint64_t call,
                              std::unique_ptr<tracing::CapturedWords> captured);
  /// Where the path of a run that was checked against a replay differs from the known paths.
  tracing::Difference difference(const tracing::Capture& path) const;
  /// A run could not be captured. True if calls run eagerly from now on, after several such; after
  /// many, where it may have been by chance.
  bool skip(std::string why, bool by_chance);
  /// What was captured no longer holds.
  void forget(std::string why);
  void run_eagerly(std::string why);
};

struct TraceBook {
  std::uint32_t references = 1;
  TracedFunction function = {};
  TraceOptions options;
  std::atomic<std::uint64_t> calls = 0;  // but those while a tape or an interceptor listens
  std::array<std::atomic<TraceEntry*>, 64> buckets = {};
  std::atomic<TraceEntry*> last = nullptr;  // that was called
  std::atomic<bool> warned = false;
  std::atomic<bool> doubting = false;          // the next call runs the function
  std::size_t entries = 0;                     // added behind Lock::traces
  std::unordered_map<std::string, int> alike;  // signatures, one number left out
  using Doubtful = std::vector<tracing::StateWatch::Doubtful>;
  Doubtful doubtful;               // what the last run that was watched changed
  std::uint64_t doubtful_run = 0;  // its number if no other ran meanwhile
  int doubts = 0;                  // runs that changed no word which the run before changed
  std::vector<std::uintptr_t> not_state;
  std::string state;  // that the function keeps: all signatures run eagerly

  ~TraceBook();
  TraceEntry* find(const Key& key, std::uint64_t hash) const;
  /// Null if there are too many.
  TraceEntry* find_or_add(const Key& key, std::uint64_t hash,
                          const std::vector<const Variable*>& variables);
  /// Signatures that differ in one number only: so many are worth a warning.
  static constexpr int alike_signatures = 8;
  /// Gives the entry its words; the path of a number if there are just so many signatures now.
  std::string describe(TraceEntry& entry, const std::vector<ArgumentText>& arguments,
                       bool training);
  bool full() const;
  /// Runs of the function so far, for a trace or not, and those that have ended. They are outside
  /// of the book, where they would be state of a function that captures the trace; few books share
  /// them.
  struct Runs {
    std::atomic<std::uint64_t> begun = 0, ended = 0;
  };
  Runs& runs() const;
  /// Whether what a run has changed, all behind pointers that may be stale, is something else than
  /// what the run before has changed. State is changed again where it was changed before: the next
  /// call runs, and tells.
  bool may_be_stale(Doubtful& memory);
  /// A call of `entry` has changed state of the function: nothing that was captured holds. True if
  /// calls of all signatures run eagerly from now on, after several such calls.
  bool state_changed(TraceEntry& entry, const std::string& why);
  /// Before the next run: state that the last one has changed is as it left it. Memory that is not
  /// is no state, and its changes do not count. Nothing is known if the function ran in between.
  void settle_doubt(tracing::StateWatch& state);
  std::string explain() const;
  template <class Visit>
  void for_each(const Visit& visit) const;
};
}  // namespace reel::detail
