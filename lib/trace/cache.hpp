// SPDX-License-Identifier: BSD-3-Clause
// What was captured of a function, by signature. Calls read it without a lock. An entry is dropped
// only while the one thread that calls the function is in no other call of a traced function.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <reel/trace.hpp>

#include "lib/trace/plan.hpp"
#include "lib/trace/state.hpp"

namespace reel::detail {
using Key = std::vector<std::uint64_t>;
std::uint64_t hash_of(const Key& key);
/// The upper half of the word before the lengths of a tensor. The second byte is their number.
constexpr std::uint64_t tensor_word = std::uint64_t{0x7e4502} << 40;

/// The description of one argument of a signature. A number has a path.
struct ArgumentText {
  std::string text, path;
};

struct TraceEntry {
  Key key;
  std::uint64_t hash = 0;
  std::vector<Variable> variables;  // the Variables and tensors that the key names by address
  std::vector<Tensor> tensors;
  TraceEntry* next = nullptr;
  std::atomic<tracing::Plan*> plan = nullptr;  // the newest plan
  std::atomic<bool> eager = false, described = false;
  /// Whether it was captured, and was called again since.
  enum class Use : std::uint8_t { none, captured, again };
  std::atomic<Use> use = Use::none;
  std::atomic<std::uint64_t> used = 0;  // a call: the last one but for calls in a row behind it

  std::atomic<std::uint64_t> replays = 0;

  /// Whether replays were slower than the function itself: calls run eagerly then.
  std::atomic<bool> is_slow = false;
  /// After so many replays, some of them and as many runs are measured.
  std::atomic<std::uint64_t> trial_begins = never;
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  std::vector<double> run_seconds, replay_seconds;  // sorted after the last one

  // Guarded by Lock::traces:
  tracing::Tree tree;
  double check_seconds = 0;  // of all checks
  // kept, as other threads may still run an older plan
  std::vector<std::unique_ptr<tracing::Plan>> plans;
  std::string signature, trouble;
  std::vector<Caller> apart;   // lines of loops that were not one step in some call
  std::size_t kept_apart = 0;  // the first so many are one step in no call
  std::size_t derived = 0;     // paths that were made from those of two other signatures
  std::string derived_from;    // their names
  int failures = 0;
  std::vector<const void*> constants;  // the memory of its constants
  std::int64_t bytes = 0;              // of its plan
  struct {  // what the last run changed behind a pointer, and how many runs in a row changed it
    std::uintptr_t at = 0;
    std::uint64_t now = 0, bytes = 0;  // a mask of the bytes that it changed
    int runs = 0;
  } change;

  /// Adds the path of call number `call`. If it leaves a known path although all values that were
  /// read are equal, nothing is added, and the result says where it leaves. If there are `captured`
  /// words, replays compare them. Older plans are freed, unless
  /// a call around this one, or a thread of several, may use them.
  tracing::Difference publish(const tracing::Capture& path, std::uint64_t call,
                              std::unique_ptr<tracing::CapturedWords> captured, bool nested,
                              const std::atomic<bool>& shared);
  /// The lines of loops that are one step in no call.
  std::vector<Caller> loops_apart() const;
  /// The path of a call `differs` from others. If a loop was one step in some of them only, because
  /// one writes a Variable in it, it is no step from now on: then the result is true.
  bool keep_loops_apart(const tracing::Capture& path, bool differs);
  /// Where the path of a run, which was checked against a replay, differs from the known paths.
  tracing::Difference difference(const tracing::Capture& path) const;
  /// Call it if a run could not be captured. Returns true if calls run eagerly from now on. This
  /// happens after several such runs, or after many if the reason may be chance.
  bool skip(std::string why, bool by_chance);
  /// Drops what was captured, because it is no longer valid.
  void forget(std::string why);
  /// What forget() drops. Its destructor runs users' code: call it while no mutex is locked.
  struct Forgotten {
    tracing::Tree tree;
    tracing::Plan* plan = nullptr;
    ~Forgotten() {
      if (plan) plan->retire();
    }
  };
  /// As forget(), but Lock::traces must be held.
  void take(Forgotten& dropped, std::string why);
  void run_eagerly(std::string why);
  std::string times_of_trial() const;
  /// Whether no other thread, and no gradient that waits, can need a plan. Lock::traces must be
  /// held.
  bool may_free(const std::atomic<bool>& shared) const;
  /// Whether a path was made from those of other signatures, and no run has checked it yet.
  bool is_unchecked() const;
};

struct TraceCache : TraceHead {
  std::array<std::atomic<TraceEntry*>, 64> buckets = {};
  // calls while a tape or an interceptor is active are not counted
  std::atomic<std::uint64_t> calls = 0;
  /// The runs of the function so far, with and without a trace, and those that have ended.
  std::atomic<std::uint64_t> begun = 0, ended = 0;
  std::atomic<TraceEntry*> last = nullptr;  // the entry of the last call
  std::atomic<bool> warned = false;         // of too many signatures
  std::atomic<bool> warned_memory = false;  // that signatures are dropped
  std::atomic<bool> warned_unread = false;  // that replays do not read everything
  std::size_t entries = 0;                  // guarded by Lock::traces
  std::size_t added = 0;  // entries since Variables were looked at that nothing else holds
  std::unordered_map<const void*, std::pair<int, std::int64_t>>
      constants;           // the memory of constants: entries that hold it, and its bytes
  std::int64_t bytes = 0;  // of constants and plans
  std::unordered_map<std::uint64_t, int>
      drops;  // by hash: how often a signature was dropped for its memory
  static constexpr int most_drops = 3;
  std::atomic<int> unused = 0;       // entries that were captured and not called again
  std::uint64_t thread = 0;          // the one that calls the function
  std::atomic<bool> shared = false;  // several threads have called it
  std::vector<std::uint64_t> seen;   // hashes of signatures that were not captured, by themselves
  std::unordered_map<std::string, int> alike;  // signatures by the rest without one number
  std::unordered_map<std::uint64_t, int>
      listed;         // signatures by the rest without what reads() lists
  std::string state;  // the state that the function keeps: all signatures run eagerly then
  bool tries = true;  // whether replays are compared with runs of the function
  std::atomic<bool> on_trial = false;         // calls note when they begin
  std::atomic<std::uint32_t> slow_calls = 0;  // calls in a row whose entries are slow
  int differences = 0;                        // derived signatures that a check has refused
  static constexpr int most_differences = 3;

  ~TraceCache();
  TraceEntry* find(const Key& key, std::uint64_t hash) const;
  /// Null if calls of the signature run eagerly: there are too many entries, or too many of them
  /// were not called again and the signature is new. `rest` is the hash of the key without what
  /// reads() lists. `nested`: a call of a traced function is around this one.
  TraceEntry* find_or_add(const Key& key, std::uint64_t hash, std::uint64_t rest,
                          const std::vector<const Variable*>& variables,
                          const std::vector<const Tensor*>& tensors, bool nested);

  /// An entry that was dropped. It runs users' code when it is destroyed: no mutex may be locked.
  using Dropped = std::vector<std::unique_ptr<TraceEntry>>;
  /// Drops what was called longest ago, but not `current`, until the memory is within its limit.
  /// True if this has dropped something.
  bool keep_within_memory(TraceEntry& current, bool nested);
  // The rest needs Lock::traces.
  /// Drops the entries of which a Variable is held by entries alone: no call can find them.
  void drop_unreachable(Dropped& dropped);
  /// Drops the entry that was called longest ago, but not `current`. False if there is none.
  bool drop_oldest(const TraceEntry* current, Dropped& dropped);
  void drop(TraceEntry& entry, Dropped& dropped);
  /// Counts the memory of an entry anew; 0 bytes if it is `dropped`.
  void count_memory(TraceEntry& entry, bool is_dropped);
  bool may_drop(bool nested) const { return !nested && !shared.load(); }

  /// There is a warning if so many signatures differ in one number only.
  static constexpr int alike_signatures = 8;
  /// More signatures that differ in listed values only run eagerly.
  static constexpr int most_listed = 4;
  /// Describes the entry. Returns the path of a number if the number of signatures reaches the
  /// limit for the warning now.
  std::string describe(TraceEntry& entry, const std::vector<ArgumentText>& arguments,
                       bool training);
  /// Call it before a thread looks for a plan.
  void note_thread(std::uint64_t caller);
  bool full() const;
  /// So many signatures may wait for a second call. After that, a new signature is captured at its
  /// second call.
  static constexpr int most_unused = 16;
  bool is_new(std::uint64_t hash);
  const char* why_not_captured() const;
  /// Call it if a call of `entry` has changed state of the function: nothing that was captured is
  /// valid then. Returns true if calls of all signatures run eagerly from now on: if the state is
  /// `certain`, or after several such calls. Memory behind a pointer may belong to something else.
  /// State keeps what each run writes there.
  bool state_changed(TraceEntry& entry, const std::string& why, bool certain,
                     const std::optional<tracing::RunChange>& change);
  /// Before a call of a slow entry, which runs eagerly.
  void count_slow_call();
  /// Drops what was captured, and the reasons for eager calls. Plans are freed unless a call of
  /// this thread `runs`, or other threads may run them.
  void clear(bool runs);
  std::string explain() const;
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& bucket : buckets)
      for (TraceEntry* entry = bucket.load(std::memory_order_acquire); entry; entry = entry->next)
        visit(*entry);
  }
};
inline TraceCache& Traces::cache() const { return static_cast<TraceCache&>(*head_); }
}  // namespace reel::detail
