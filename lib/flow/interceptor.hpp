// SPDX-License-Identifier: BSD-3-Clause
// What may change how the ops of a thread run: traces, batching.
#pragma once
#include <span>
#include <string_view>
#include <utility>

#include <reel/function.hpp>

#include "lib/flow/context.hpp"
#include "lib/table/host_read.hpp"

namespace reel {
/// One call of an op in the gate. Its inputs are converted to one dtype.
struct GateCall {
  Op& op;
  const Body* const* inputs;
  int input_count;
  OptionsView options;
  Caller caller;
  Body* const* outputs;  // allocated before the first interceptor
  int output_count;
  const Variable* updated;   // the Variables that an update writes; as many as outputs
  Part part = Part::value;   // another only for interceptors that take gradients, and observers
  unsigned accumulates = 0;  // bit i: adds to output i, which was made before; for observers
  bool follows = false;      // only code of the library has run since the event before this one

  /// A bit of `accumulates`: a replay of a trace makes the call.
  static constexpr unsigned of_replay = 1u << 31;
  bool is_replayed() const { return accumulates & of_replay; }
};

struct CallView;
class Tensors;

/// A loop of loops.hpp, or the gradient of one, begins, does a trip, or ends.
struct LoopEvent {
  enum class Kind : std::uint8_t { begins, trip_begins, trip_ends, ends };
  Kind kind = Kind::begins;
  int loop = -1;          // the number that begins() gave
  const char* name = "";  // of begins(), and all up to `gradient_of`
  Caller caller = {};
  bool reverse = false;   // takes rows from the last to the first
  bool once = false;      // one trip without a state: a branch
  std::int64_t most = 0;  // trips; 0: no limit
  int gradient_of = -1;   // the number of the loop that this one goes through backward
  /// begins: the first state and the arrays. trip_begins: new names of the state, and rows.
  /// trip_ends: the next state, and what the trip has made. ends: names of the last state, and the
  /// rows that were made, joined.
  std::span<const Tensor> state = {}, rows = {};
  /// What the new names stand for: of trip_begins the state before and the arrays, of ends the last
  /// state. begins, of a gradient: what the trips of the other loop read, whose gradients are last
  /// in the state.
  std::span<const Tensor> of = {}, arrays = {};
  bool stops = false;      // trip_ends: the condition did not hold
  std::uint64_t tape = 0;  // ends: the bit of the tape that the loop keeps for its gradient
};

/// Sees every op of this thread and may change what runs. Code that only watches is an Observer.
class Interceptor {
 public:
  virtual ~Interceptor() = default;
  /// Before anything of a call is checked or made. True: the interceptor has made the outputs, and
  /// nothing more happens here. Not for a user's function, whose ops are asked instead.
  virtual bool takes(Op&, std::span<const Operand>, OptionsView, Caller,
                     SmallVector<Tensor, 2>& /*outputs*/) {
    return false;
  }
  /// Before the kernel. False: the kernel is not called now, but later by run_deferred_kernel().
  virtual bool before(const GateCall&) { return true; }
  virtual void after(const GateCall&) {}
  /// A Variable was made.
  virtual void variable_made(const Variable&) {}
  /// A Variable's value was read. May return a tensor of the same elements, which is used in its
  /// place.
  virtual const Tensor* variable_read(const Variable&, const Tensor&) { return nullptr; }
  /// `made` is another name for the elements of `x`.
  virtual void aliased(const Body& /*x*/, Body& /*made*/) {}
  /// C++ is about to ask a tensor for its elements.
  virtual void host_read(const Tensor&, HostRead) {}
  /// C++ reads a value that is not in a tensor. A trace cannot notice when this value changes.
  virtual void cannot_follow(const char* /*what*/) {}
  /// named() was called; a NameScope begins, or ends (an empty name).
  virtual void named(const Body& /*x*/, std::string_view /*name*/) {}
  virtual void scope_changes(std::string_view /*name*/) {}
  /// Gives the number of a loop that begins; -1: the interceptor does not follow it.
  virtual int loop(const LoopEvent&) { return -1; }
  /// The function has run; its gradient follows, for these gradients of its results.
  virtual void gradient_begins(std::span<const Tensor> /*upstream*/) {}
  /// A user's function or kernel is about to run. True if the interceptor gives its results.
  virtual bool user_code_begins(const CallView&, Tensors& /*results*/) { return false; }
  /// The user's function has run; null if it threw. Events of a kernel follow this one.
  virtual void user_code_ends(const GateCall*) {}
  /// A function with a gradient of its own is about to run. True: the interceptor has called `what`
  /// where the tapes around it record.
  virtual bool outside(const detail::Function<void()>& /*what*/) { return false; }
  /// Whether gradients may run their own kernels; where not, they are made of ops.
  virtual bool takes_gradients() const { return false; }
  Interceptor* next = nullptr;
};

/// While it lives, ops of this thread are shown to an interceptor.
class InterceptorScope {
 public:
  explicit InterceptorScope(Interceptor& interceptor);
  ~InterceptorScope();
  InterceptorScope(const InterceptorScope&) = delete;
  InterceptorScope& operator=(const InterceptorScope&) = delete;

 private:
  Interceptor& interceptor_;
};
/// While it lives, ops of this thread are not shown to interceptors.
class InterceptorPause {
 public:
  InterceptorPause();
  ~InterceptorPause();
  InterceptorPause(const InterceptorPause&) = delete;
  InterceptorPause& operator=(const InterceptorPause&) = delete;

 private:
  Interceptor* interceptors_;
};

/// While it lives, this thread is inside of a function of batched(), parallel() or vmap(), or
/// outside of it again.
class SharingScope {
 public:
  SharingScope(Context& context, bool shares_variables, bool refuses_tapes)
      : context_(context),
        shared_before_(std::exchange(context.shares_variables, shares_variables)),
        refused_before_(std::exchange(context.refuses_tapes, refuses_tapes)) {}
  ~SharingScope() {
    context_.shares_variables = shared_before_;
    context_.refuses_tapes = refused_before_;
  }
  SharingScope(const SharingScope&) = delete;
  SharingScope& operator=(const SharingScope&) = delete;

 private:
  Context& context_;
  bool shared_before_, refused_before_;
};
/// For a function with a gradient of its own. Inside of batched() it calls `what` outside, and
/// returns true; inside of vmap() it throws Error.
bool run_outside(Context& context, Caller caller, std::string_view name,
                 const detail::Function<void()>& what);
/// Whether an interceptor of this thread, such as a trace, sees its ops.
bool is_intercepted();
/// Calls `what`, whose ops leave no records.
void run_unrecorded(const detail::Function<void()>& what);
/// Notifies the interceptors of this thread: see Interceptor::cannot_follow.
void tell_interceptors(const char* what);
/// Notifies interceptors and observers of this thread that C++ is about to ask a tensor for its
/// elements.
void tell_host_read(const Tensor& x, HostRead read);
/// Notifies them that a Variable was made.
void tell_variable_made(Context& context, const Variable& variable);
/// Notifies them that a Variable was read. Returns its value, or what an interceptor returns in its
/// place.
const Tensor& read_variable(Context& context, const Variable& variable);
/// The value for an update that does not read the elements. Observers are not notified.
const Tensor& find_variable(Context& context, const Variable& variable);
/// The value that a Variable has without a Redirect.
const Tensor& own_value(Context& context, const Variable& variable);
/// Another header for a body, which may carry a record of its own; undefined if there is no memory.
Tensor make_alias(Context& context, Body* body);
}  // namespace reel
