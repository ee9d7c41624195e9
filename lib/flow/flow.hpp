// SPDX-License-Identifier: BSD-3-Clause
// The state of a line of execution: a thread, or a fiber that shares a thread with others.
#pragma once
#include <cstdint>
#include <string_view>

#include <reel/caller.hpp>
#include <reel/device.hpp>
#include <reel/random.hpp>

#include "lib/record/record.hpp"

namespace reel {
class Interceptor;
class Observer;
using detail::OpenScope;
/// `observed` decides nothing: see Note [Observers] in observer.hpp.
enum Mode : std::uint8_t {
  recording = 1,
  intercepted = 2,
  infer_only = 4,
  observed = 8,
  redirected = 16,
  autocasts = 32
};
/// A value of `watchful`, which is none of Mode's: see Note [Marks] in marks.hpp.
inline constexpr std::uint8_t marks_matter = 128;

struct Flow;
/// The reel of a flow. It stays at its place while the flow moves, as tapes and other threads point
/// to it, and lives until the flow has ended and its tapes have too.
struct FlowReel : Reel {
  explicit FlowReel(std::uint64_t n) : number(n) {}
  const std::uint64_t number;  // of the flow, unique in the process
  // Behind Lock::contexts.
  Flow* flow = nullptr;  // where it is now; null: it has ended, and tapes are left
  FlowReel* next = nullptr;
  bool tapes_closing = false;  // by a thread that has the reel to itself
};

// Note [Flows]
// A flow has what belongs to a position in a program: mode, scopes, generator, tapes, interceptors
// and observers. A thread runs one flow at a time. Its Context holds this flow by value, so that an
// op reaches it without following a pointer. FiberFlow::swap() exchanges it for another one. Where
// comments say "thread", a flow is meant: tensors that a tape of another flow follows are marked,
// also on one thread.
struct Flow {
  std::uint8_t mode = 0;
  std::uint8_t watchful = 0;  // 0 or marks_matter; other threads set it
  bool training = true;
  bool shares_variables = false;    // with other examples of a batch, so none may write them
  bool refuses_tapes = false;       // inside of a function of batched(), parallel() or vmap()
  DType autocast = DType::float32;  // of the innermost AutocastScope
  Device device;
  Caller outer_caller;          // of the outermost CallerScope; file is null outside
  std::string_view layer_name;  // of the outermost one with a name
  std::int64_t example = -1;    // of a batched() that computes now
  std::string_view function;    // of the outermost FunctionScope
  Interceptor* interceptors = nullptr;
  Observer* observers = nullptr;
  Generator* generator = nullptr;      // of the innermost GeneratorScope
  Generator* own_generator = nullptr;  // null: the thread's
  OpenScope *train_scopes = nullptr, *device_scopes = nullptr, *generator_scopes = nullptr;
  OpenScope* autocast_scopes = nullptr;
  OpenScope* redirects = nullptr;  // see redirect.hpp
  FlowReel* reel = nullptr;
  std::uint64_t number = 0;        // unique in the process
  std::uint64_t marked_reads = 0;  // how often an op has read a value with a mark

  /// The bits of `mode` that decide which code runs.
  int path_mode() const { return mode & ~observed; }
  /// Whether a traced function may be replayed. The captured ops have the casts of an
  /// AutocastScope.
  bool replays() const { return !(mode & ~(observed | autocasts)); }
  /// The bits of `mode` and `watchful`: 0 if nothing watches ops and no mark matters. These are two
  /// loads, as one load of both bytes would wait for a store to `mode`.
  int dispatch_flags() const { return mode | __atomic_load_n(&watchful, __ATOMIC_RELAXED); }
  bool is_watchful() const { return __atomic_load_n(&watchful, __ATOMIC_RELAXED); }
  void set_watchful() {
    if (!is_watchful()) __atomic_store_n(&watchful, marks_matter, __ATOMIC_RELAXED);
  }
  void update_recording() {
    reel->active = reel->open & ~reel->muted;
    mode = static_cast<std::uint8_t>(reel->active ? mode | recording : mode & ~recording);
  }
  Caller caller_of(Caller caller) const { return outer_caller.file ? outer_caller : caller; }
};

/// A flow of its own for a fiber. A thread ends with the flow that it began with.
class FiberFlow {
 public:
  FiberFlow();
  /// The fiber has ended. Its tapes may end later.
  ~FiberFlow();
  FiberFlow(const FiberFlow&) = delete;
  FiberFlow& operator=(const FiberFlow&) = delete;
  /// Exchanges the flow of this thread and the one stored here. Call it when the thread switches to
  /// the fiber and when it switches back. A fiber that waits inside a function of the library, such
  /// as a gradient function, must continue on the same thread.
  void swap();

 private:
  Generator generator_;
  Flow flow_;
};

/// Begins a flow, and ends it.
void begin_flow(Flow& flow);
void end_flow(Flow& flow);
/// The first of all reels, while Lock::contexts is held.
FlowReel* first_reel();
/// Closes a tape of this reel. Where another flow made it and has not ended, that closes it when it
/// next makes or ends a tape.
void close_tape(FlowReel& reel, std::uint64_t bit);
/// Closes the tapes of this flow that others have ended.
void close_tapes_ended_elsewhere(Flow& flow);
/// Called when this flow makes a tape. From then on, other flows check each tensor that they read.
void announce_tape(const Flow& flow);
/// How many flows have begun, without the flows of fibers.
std::uint64_t flows_begun();
}  // namespace reel
