// SPDX-License-Identifier: BSD-3-Clause
// All per-thread state, behind one pointer that an op reads once.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>

#include "lib/flow/flow.hpp"
#include "lib/memory/blocks.hpp"

namespace reel {
/// The generator from which random ops of this thread draw.
Generator& current_generator();
/// The generator of a new flow, with a seed of its own.
Generator new_generator();
/// The public functions of the same name notify interceptors; these do not.
std::uint64_t seed_of(const Generator& generator);
std::uint64_t position_of(const Generator& generator);

/// The memory of a thread, and the flow that it runs.
struct alignas(8) Context : ThreadMemory, Flow {
  std::uint64_t thread = 0;  // the number of its first flow
  Context* next = nullptr;   // behind Lock::contexts

  static inline Context& here();
  /// Null if the thread has no context yet.
  static Context* current() { return static_cast<Context*>(current_memory); }
};

Context& make_context();
/// The tensors and bytes of memory_statistics() alone.
MemoryStatistics live_tensors();
inline Context& Context::here() {
  Context* context = current();
  return context ? *context : make_context();
}

/// Makes the scope the innermost of its kind in this flow, whose context it gives.
Context& open_scope(OpenScope& scope, OpenScope* Flow::*kind);
/// Removes the scope from its flow, if the flow has not ended. Then calls `set` with the scope that
/// is now the innermost, or null.
void close_scope(OpenScope& scope, OpenScope* Flow::*kind, void (*set)(Flow&, OpenScope*));

/// For a public function that calls ops: errors of these ops name this function.
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

/// While it lives, errors and records name the lines of the ops themselves: a user's function runs.
class OwnLines {
 public:
  explicit OwnLines(Context& context)
      : context_(context),
        caller_(std::exchange(context.outer_caller, {})),
        name_(std::exchange(context.layer_name, {})) {}
  ~OwnLines() {
    context_.outer_caller = caller_;
    context_.layer_name = name_;
  }
  OwnLines(const OwnLines&) = delete;
  OwnLines& operator=(const OwnLines&) = delete;

 private:
  Context& context_;
  Caller caller_;
  std::string_view name_;
};

/// While it lives, ops infer shapes and dtypes but compute nothing.
class InferScope {
 public:
  InferScope();
  ~InferScope();
  InferScope(const InferScope&) = delete;
  InferScope& operator=(const InferScope&) = delete;

 private:
  bool before_;
};
/// While it lives, these tapes do not record: those that record now, if none are named.
class RecordingPause {
 public:
  explicit RecordingPause(Context& context) : RecordingPause(context, context.reel->active) {}
  RecordingPause(Context& context, std::uint64_t tapes)
      : context_(context), tapes_(tapes & ~context.reel->muted) {
    context_.reel->muted |= tapes_;
    context_.update_recording();
  }
  ~RecordingPause() {
    context_.reel->muted &= ~tapes_;
    context_.update_recording();
  }
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  Context& context_;
  std::uint64_t tapes_;
};
/// The line that errors name: that of the outermost CallerScope, else `caller`.
Caller caller_of(Caller caller);

}  // namespace reel
