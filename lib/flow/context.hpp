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
/// What of an op a call runs: the op, or a kernel of its gradient.
enum class Part : std::uint8_t {
  value,
  gradient_0,  // the pass for the gradient of input 0: inputs dy, x, y, output (null: not needed)
  gradient_1,  // the same for input 1
  gradients,   // Op::cpu_gradient: inputs dy..., inputs..., outputs...; a null output is not wanted
};

/// A call on its way through the gate, as stages see it. Inputs have come to one dtype.
struct GateCall {
  Op& op;
  const Body* const* inputs;
  int input_count;
  OptionsView options;
  Caller site;
  Body* const* outputs;  // allocated before the first stage
  int output_count;
  const Variable* updated;  // the Variables that an update writes; as many as outputs
  Part part = Part::value;  // another only for stages that take gradients
};

struct CallView;
class Tensors;

/// What C++ asks of a tensor's elements.
enum class HostRead : std::uint8_t { truth, values };

/// A guest at the gate of this thread: NaN watch, profiler, tracer, ...
class Stage {
 public:
  virtual ~Stage() = default;
  /// Before the kernel. False: the kernel is not called now; the stage calls run_kernel() later.
  virtual bool before(const GateCall&) { return true; }
  virtual void after(const GateCall&) {}
  /// A Variable was made.
  virtual void variable_made(const Variable&) {}
  /// A Variable's value was read; may give a tensor of the same elements that stands in for it.
  virtual const Tensor* variable_read(const Variable&, const Tensor&) { return nullptr; }
  /// `made` is another name for the elements of `x`.
  virtual void aliased(const Body& /*x*/, Body& /*made*/) {}
  /// C++ is about to ask a tensor for its elements.
  virtual void host_read(const Tensor&, HostRead) {}
  /// C++ is told something that is no tensor's: a trace cannot tell when it changes.
  virtual void cannot_follow(const char* /*what*/) {}
  /// A user's function or kernel is about to run. True if the stage gives its results instead.
  virtual bool user_code_begins(const CallView&, Tensors& /*results*/) { return false; }
  /// It has run; null if it threw. What stages hear of a kernel comes behind this.
  virtual void user_code_ends(const GateCall*) {}
  /// Whether gradients may run their own kernels; where not, they are made of ops.
  virtual bool takes_gradients() const { return false; }
  Stage* next = nullptr;
};

class Generator;
/// What random ops of this thread draw from.
Generator& current_generator();
/// Its public functions tell the stages that they are asked; these do not.
std::uint64_t seed_of(const Generator& generator);
std::uint64_t position_of(const Generator& generator);

using detail::OpenScope;
enum Mode : std::uint8_t { recording = 1, staged = 2, infer_only = 4 };
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
  Stage* stages = nullptr;
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

/// Puts a stage at this thread's gate while it lives.
class StageScope {
 public:
  explicit StageScope(Stage& stage);
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  Stage& stage_;
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
/// No stage stands at this thread's gate while it lives.
class StagePause {
 public:
  StagePause();
  ~StagePause();
  StagePause(const StagePause&) = delete;
  StagePause& operator=(const StagePause&) = delete;

 private:
  Stage* stages_;
};
/// Tells the stages of this thread that C++ is about to ask a tensor for its elements.
void tell_host_read(const Tensor& x, HostRead read);
/// Tells the stages of this thread: see Stage::cannot_follow.
void tell_stages(const char* what);
/// How many threads have begun to use the library.
std::uint64_t threads_begun();
/// Tells the stages that a Variable was read; gives its value, or what stands in for it.
const Tensor& read_variable(Context& context, const Variable& variable);
/// Another header for a body, which may carry a record of its own; undefined if there is no memory.
Tensor make_alias(Context& context, Body* body);
/// The line errors speak of: the outermost CallerScope's, else `caller`.
Caller site_of(Caller caller);

}  // namespace reel
