// SPDX-License-Identifier: BSD-3-Clause
// All per-thread state, behind one pointer that an op reads once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <reel/caller.hpp>
#include <reel/device.hpp>

#include "lib/memory/blocks.hpp"
#include "lib/reel/reel.hpp"

namespace reel {
class Interceptor;
class Observer;
class Generator;
/// What random ops of this thread draw from.
Generator& current_generator();
/// Its public functions tell the interceptors that they are asked; these do not.
std::uint64_t seed_of(const Generator& generator);
std::uint64_t position_of(const Generator& generator);

using detail::OpenScope;
/// `observed` decides nothing: see Note [Observers] in observer.hpp.
enum Mode : std::uint8_t { recording = 1, intercepted = 2, infer_only = 4, observed = 8 };
/// A value of `watchful`, which is none of Mode's: see Note [Crossings] in crossing.hpp.
inline constexpr std::uint8_t marks_matter = 128;

struct alignas(8) Context : ThreadMemory {
  std::uint8_t mode = 0;
  std::uint8_t watchful = 0;  // 0 or marks_matter; other threads set it
  bool training = true;
  Device device;
  Caller site;                 // of the outermost CallerScope; file is null outside
  std::string_view site_name;  // of the outermost one with a name
  std::string_view function;   // of the outermost FunctionScope
  Interceptor* interceptors = nullptr;
  Observer* observers = nullptr;
  Generator* generator = nullptr;  // null: the thread's own
  OpenScope *train_scopes = nullptr, *device_scopes = nullptr, *generator_scopes = nullptr;
  Reel reel;
  std::uint64_t stack_limit = 0;
  std::uint64_t crossings = 0;  // how often an op has read a value with a mark
  const std::uint64_t thread;   // unique in the process
  // Behind Lock::contexts.
  Context* next = nullptr;
  bool thread_ended = false;   // tapes are left
  bool tapes_closing = false;  // by a thread that has the reel to itself

  explicit Context(std::uint64_t number) : thread(number) {}

  static inline Context& here();
  /// Null where here() would make one.
  static Context* current() { return static_cast<Context*>(current_memory); }
  /// The bits of `mode` on which it may depend what runs.
  int path_mode() const { return mode & ~observed; }
  /// The bits of `mode` and `watchful`: 0 if nobody listens and no mark matters. These are two
  /// loads, as one load of both bytes would wait for a store to `mode`.
  int attention() const { return mode | __atomic_load_n(&watchful, __ATOMIC_RELAXED); }
  bool is_watchful() const { return __atomic_load_n(&watchful, __ATOMIC_RELAXED); }
  void set_watchful() {
    if (!is_watchful()) __atomic_store_n(&watchful, marks_matter, __ATOMIC_RELAXED);
  }
  void update_recording() {
    reel.active = reel.open & ~reel.muted;
    mode = static_cast<std::uint8_t>(reel.active ? mode | recording : mode & ~recording);
  }
  Caller site_of(Caller caller) const { return site.file ? site : caller; }
};

Context& make_context();
inline Context& Context::here() {
  Context* context = current();
  return context ? *context : make_context();
}

/// Makes the scope the innermost of its kind on this thread, whose context it gives.
Context& open_scope(OpenScope& scope, OpenScope* Context::*kind);
/// Takes the scope from its thread, if that has not ended, and tells `set` which is the innermost
/// now; null if there is none.
void close_scope(OpenScope& scope, OpenScope* Context::*kind, void (*set)(Context&, OpenScope*));

/// Closes a tape of this context. Where another thread made it and has not ended, that closes it
/// when it next makes or ends a tape.
void close_tape(Context& context, std::uint64_t bit);
/// Closes the tapes of this thread that others have ended.
void close_tapes_ended_elsewhere(Context& context);
/// The first of all contexts, while Lock::contexts is held.
Context* first_context();
/// This thread has a tape now: the others look at the tensors that they read.
void announce_tape(Context& context);

/// For a public function that is made of ops: errors call their arguments its own.
class FunctionScope {
 public:
  FunctionScope(Caller caller, std::string_view name)
      : scope_(caller), outermost_(Context::here().function.empty()) {
    if (outermost_) Context::here().function = name;
  }
  ~FunctionScope() {
    if (outermost_) Context::here().function = {};
  }
  FunctionScope(const FunctionScope&) = delete;
  FunctionScope& operator=(const FunctionScope&) = delete;

 private:
  CallerScope scope_;
  bool outermost_;
};

/// Ops infer shapes and dtypes and compute nothing while it lives.
class InferScope {
 public:
  InferScope();
  ~InferScope();
  InferScope(const InferScope&) = delete;
  InferScope& operator=(const InferScope&) = delete;

 private:
  bool before_;
};
/// The tapes that record now do not while it lives.
class RecordingPause {
 public:
  explicit RecordingPause(Context& context) : context_(context), tapes_(context.reel.active) {
    context_.reel.muted |= tapes_;
    context_.update_recording();
  }
  ~RecordingPause() {
    context_.reel.muted &= ~tapes_;
    context_.update_recording();
  }
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  Context& context_;
  std::uint64_t tapes_;
};
/// How many threads have begun to use the library.
std::uint64_t threads_begun();
/// The line errors speak of: the outermost CallerScope's, else `caller`.
Caller site_of(Caller caller);

}  // namespace reel
