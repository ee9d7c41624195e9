// SPDX-License-Identifier: BSD-3-Clause
// What may change how the ops of a thread run: traces, batching.
#pragma once
#include "lib/flow/context.hpp"

namespace reel {
/// What of an op a call runs: the op, or a kernel of its gradient.
enum class Part : std::uint8_t {
  value,
  gradient_0,  // the pass for the gradient of input 0: inputs dy, x, y, output (null: not needed)
  gradient_1,  // the same for input 1
  gradients,   // Op::cpu_gradient: inputs dy..., inputs..., outputs...; a null output is not wanted
};

/// A call on its way through the gate. Inputs have come to one dtype.
struct GateCall {
  Op& op;
  const Body* const* inputs;
  int input_count;
  OptionsView options;
  Caller site;
  Body* const* outputs;  // allocated before the first interceptor
  int output_count;
  const Variable* updated;  // the Variables that an update writes; as many as outputs
  Part part = Part::value;  // another only for interceptors that take gradients, and observers
};

struct CallView;
class Tensors;

/// What C++ asks of a tensor's elements.
enum class HostRead : std::uint8_t { truth, values };

/// Sees every op of this thread and may change what runs. Who only watches is an Observer.
class Interceptor {
 public:
  virtual ~Interceptor() = default;
  /// Before the kernel. False: the kernel is not called now, but later by run_deferred_kernel().
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
  /// A user's function or kernel is about to run. True if the interceptor gives its results.
  virtual bool user_code_begins(const CallView&, Tensors& /*results*/) { return false; }
  /// It has run; null if it threw. What interceptors hear of a kernel comes behind this.
  virtual void user_code_ends(const GateCall*) {}
  /// Whether gradients may run their own kernels; where not, they are made of ops.
  virtual bool takes_gradients() const { return false; }
  Interceptor* next = nullptr;
};

/// Puts an interceptor at this thread's gate while it lives.
class InterceptorScope {
 public:
  explicit InterceptorScope(Interceptor& interceptor);
  ~InterceptorScope();
  InterceptorScope(const InterceptorScope&) = delete;
  InterceptorScope& operator=(const InterceptorScope&) = delete;

 private:
  Interceptor& interceptor_;
};
/// No interceptor stands at this thread's gate while it lives.
class InterceptorPause {
 public:
  InterceptorPause();
  ~InterceptorPause();
  InterceptorPause(const InterceptorPause&) = delete;
  InterceptorPause& operator=(const InterceptorPause&) = delete;

 private:
  Interceptor* interceptors_;
};

/// Tells the interceptors of this thread: see Interceptor::cannot_follow.
void tell_interceptors(const char* what);
/// Tells interceptors and observers of this thread that C++ is about to ask a tensor for its
/// elements.
void tell_host_read(const Tensor& x, HostRead read);
/// Tells them that a Variable was made.
void tell_variable_made(Context& context, const Variable& variable);
/// Tells them that a Variable was read; gives its value, or what stands in for it.
const Tensor& read_variable(Context& context, const Variable& variable);
/// The same for an update that does not read the elements: observers are not told.
const Tensor& find_variable(Context& context, const Variable& variable);
/// Another header for a body, which may carry a record of its own; undefined if there is no memory.
Tensor make_alias(Context& context, Body* body);
}  // namespace reel
