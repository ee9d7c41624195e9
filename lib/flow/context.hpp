// SPDX-License-Identifier: BSD-3-Clause
// All per-thread state, behind one pointer that an op reads once.
#pragma once
#include <cstdint>
#include <string_view>

#include "lib/flow/flow.hpp"
#include "lib/memory/blocks.hpp"

namespace reel {
/// What random ops of this thread draw from.
Generator& current_generator();
/// The generator of a new flow, with a seed of its own.
Generator new_generator();
/// Its public functions tell the interceptors that they are asked; these do not.
std::uint64_t seed_of(const Generator& generator);
std::uint64_t position_of(const Generator& generator);

/// The memory of a thread, and the flow that it runs.
struct alignas(8) Context : ThreadMemory, Flow {
  std::uint64_t thread = 0;  // the number of its first flow
  Context* next = nullptr;   // behind Lock::contexts

  static inline Context& here();
  /// Null where here() would make one.
  static Context* current() { return static_cast<Context*>(current_memory); }
};

Context& make_context();
inline Context& Context::here() {
  Context* context = current();
  return context ? *context : make_context();
}

/// Makes the scope the innermost of its kind in this flow, whose context it gives.
Context& open_scope(OpenScope& scope, OpenScope* Flow::*kind);
/// Takes the scope from its flow, if that has not ended, and tells `set` which is the innermost
/// now; null if there is none.
void close_scope(OpenScope& scope, OpenScope* Flow::*kind, void (*set)(Flow&, OpenScope*));

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
  explicit RecordingPause(Context& context) : context_(context), tapes_(context.reel->active) {
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
/// The line errors speak of: the outermost CallerScope's, else `caller`.
Caller site_of(Caller caller);

}  // namespace reel
