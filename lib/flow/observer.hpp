// SPDX-License-Identifier: BSD-3-Clause
// What watches a thread: profilers, NaN checks, debuggers, loggers.
#pragma once
#include <exception>

#include "lib/flow/interceptor.hpp"

namespace reel {
class GradientSource;

// Note [Observers]
// An observer changes nothing. Ops take the path and the memory that they take without it, tapes
// record the same, traces are captured and replayed. So no code asks Mode::observed what to run:
// Context::path_mode() has no such bit.
// While an observer is told of an event, no tape records, no interceptor sees an op, and no
// observer is told. It may run ops, also ops that read elements. It must not write Variables, draw
// from the thread's generator, keep a tensor that it was given (only a copy), or end a scope or a
// tape that it has not made.
// What it throws leaves the op, gradient() or the traced call as an error of the op would: what
// happened before has happened, and the op has no result. A Variable whose update has ended is
// written.
// Bodies and calls live as long as the event. A body is null where there is no tensor, and in a
// replay where a value exists only block by block.

/// An error that the library has found on this thread, on its way to the caller.
struct ErrorEvent {
  const std::exception& error;
  std::string_view op;  // the name of the function that found it
  Caller site;
};

/// Watches a thread. Of several, the newest is told first.
class Observer {
 public:
  virtual ~Observer() = default;

  /// The inputs of an op are ready; its kernel comes next. There are no outputs yet.
  virtual void op_begins(const GateCall&) {}
  /// The op has its outputs; on other devices than the CPU its kernel waits in the queue. An input
  /// whose memory the op has taken over holds the output. Not told of an op that throws.
  virtual void op_ends(const GateCall&) {}
  /// The same for a kernel of a gradient: call.part says which. It may add to its outputs. A
  /// gradient made of ops is told as these ops.
  virtual void gradient_begins(const GateCall&) {}
  virtual void gradient_ends(const GateCall&) {}
  /// A tape has a record of the last op now.
  virtual void recorded(const Record&) {}

  /// gradient() of a tape begins, and ends, `finished` unless it throws.
  virtual void backward_begins(const Body& /*target*/) {}
  virtual void backward_ends(bool /*finished*/) {}
  /// The gradient of source number `i` of gradient() has all its contributions. Told once for each
  /// source, while the records before its first use are still to be played. The gradient may be
  /// kept.
  virtual void gradient_complete(const GradientSource&, std::size_t /*i*/,
                                 const Tensor& /*gradient*/) {}

  virtual void variable_made(const Variable&) {}
  virtual void variable_read(const Variable&) {}
  virtual void variable_written(const Variable&) {}
  /// C++ is about to ask a tensor for its elements.
  virtual void host_read(const Body&, HostRead) {}
  /// What this throws is dropped, as an error is already on its way.
  virtual void error(const ErrorEvent&) {}

  Observer* next = nullptr;
  std::size_t bytes = 0;  // of the whole object
};

/// Tells an observer of what happens on this thread while it lives.
class ObserverScope {
 public:
  template <class T>
  explicit ObserverScope(T& observer) : ObserverScope(observer, sizeof(T)) {}
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  ObserverScope(Observer& observer, std::size_t bytes);
  Observer& observer_;
};
/// No observer of this thread is told of anything while it lives.
class ObserverPause {
 public:
  explicit ObserverPause(Context& context);
  ~ObserverPause();
  ObserverPause(const ObserverPause&) = delete;
  ObserverPause& operator=(const ObserverPause&) = delete;

 private:
  Context& context_;
  Observer* observers_;
};

// Each of these is to be called where Mode::observed is set.
/// Tells of the op or of the gradient kernel, as call.part says.
[[gnu::cold]] void tell_begin(Context& context, GateCall call);
[[gnu::cold]] void tell_end(Context& context, const GateCall& call);
[[gnu::cold]] void tell_recorded(Context& context, const Record& record);
[[gnu::cold]] void tell_backward_begin(Context& context, const Body& target);
/// Throws nothing where the backward pass has thrown.
[[gnu::cold]] void tell_backward_end(Context& context, bool finished);
[[gnu::cold]] void tell_gradient_complete(Context& context, const GradientSource& source,
                                          std::size_t i, const Tensor& gradient);
[[gnu::cold]] void tell_made(Context& context, const Variable& variable);
[[gnu::cold]] void tell_read(Context& context, const Variable& variable);
[[gnu::cold]] void tell_written(Context& context, const Variable& variable);
[[gnu::cold]] void tell_host_read(Context& context, const Body& x, HostRead read);
/// Where the thread has an observer.
void tell_error(const std::exception& error, std::string_view op, Caller site) noexcept;
}  // namespace reel
