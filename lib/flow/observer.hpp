// SPDX-License-Identifier: BSD-3-Clause
// Observers watch a thread: profilers, NaN checks, debuggers, loggers.
#pragma once
#include <exception>

#include "lib/flow/interceptor.hpp"

namespace reel {
class GradientSource;
struct RowGradient;
struct DeviceCall;

// Note [Observers]
// An observer changes nothing. Ops take the path and the memory that they take without it, tapes
// record the same, traces are captured and replayed: Context::path_mode() has no bit for it. Only
// a replay gives a device its kernels one by one, not as a graph, so that each has an event.
// While an observer handles an event, no tape records, no interceptor sees an op, and no observer
// is notified. It may run ops, also ops that read elements. It must not write Variables, draw
// from the thread's generator, keep a tensor that it was given (only a copy), or end a scope or a
// tape that it has not made.
// An exception of an observer leaves the op, gradient() or the traced call as an error of the op
// does: earlier effects stay, and the op has no result. A Variable whose update has ended keeps its
// new value.
// Bodies and calls are valid during the event only. A body is null where there is no tensor, and in
// a replay where a value exists only block by block.

/// An error that the library is about to throw on this thread.
struct ErrorEvent {
  const std::exception& error;
  std::string_view op;  // the name of the function that found it
  Caller caller;
};

class OwnedObserver;
/// Watches a thread. Of several, the newest is notified first.
class Observer {
 public:
  virtual ~Observer() = default;

  /// The inputs of an op are ready; its kernel comes next. There are no outputs yet.
  virtual void op_begins(const GateCall&) {}
  /// The op has its outputs; on other devices than the CPU its kernel waits in the queue. An input
  /// whose memory the op has taken over holds the output. Not called for an op that throws.
  virtual void op_ends(const GateCall&) {}
  /// A kernel of a gradient begins, and has ended: call.part says which. It may add to its outputs.
  /// For a gradient made of ops, there are events for these ops.
  virtual void gradient_begins(const GateCall&) {}
  virtual void gradient_ends(const GateCall&) {}
  /// Each of the four events above comes by one of these two, for observers that take ops and
  /// gradients alike.
  virtual void call_begins(const GateCall& call) {
    call.part == Part::value ? op_begins(call) : gradient_begins(call);
  }
  virtual void call_ends(const GateCall& call) {
    call.part == Part::value ? op_ends(call) : gradient_ends(call);
  }
  /// A kernel of a device other than the CPU is about to be put on the queue, and was put on the
  /// queue.
  virtual void kernel_begins(const DeviceCall&) {}
  virtual void kernel_ends(const DeviceCall&) {}
  /// A tape has a record of the last op now.
  virtual void recorded(const Record&) {}

  /// The gradients of a record's inputs are about to be computed. `dy` is the gradient of its first
  /// output, if that is complete, else null. For observers that began before the pass.
  virtual void record_played(const Record&, const Body* /*dy*/) {}

  /// gradient() of a tape begins, and ends, `finished` unless it throws.
  virtual void backward_begins(const Body& /*target*/) {}
  virtual void backward_ends(bool /*finished*/) {}
  /// The gradient of source number `i` of gradient() is complete. There is one such event for each
  /// source, before the records are processed that precede its first use. The observer may keep
  /// this tensor.
  virtual void gradient_complete(const GradientSource&, std::size_t /*i*/,
                                 const Tensor& /*gradient*/) {}
  /// The gradient of a source is complete, as rows for row_gradients(). These events come last.
  virtual void rows_complete(const GradientSource&, std::size_t /*i*/, const RowGradient&) {}

  virtual void variable_made(const Variable&) {}
  virtual void variable_read(const Variable&) {}
  virtual void variable_written(const Variable&) {}
  /// C++ is about to ask a tensor for its elements.
  virtual void host_read(const Body&, HostRead) {}
  /// An exception of this function is dropped, because an error is already being thrown.
  virtual void error(const ErrorEvent&) {}

  Observer* next = nullptr;
  std::size_t bytes = 0;  // of the whole object
  /// Whether it runs ops, and what reads elements by them, only while an Unobserved lives. Then
  /// nothing need be paused while it handles an event, which takes 30 ns. It must not look at
  /// outputs where an op begins.
  bool only_looks = false;
  /// Whether it handles no events of reads, writes, records and complete gradients. If no observer
  /// does, these events are left out.
  bool only_times = false;
  /// Whether traced functions run eagerly from their next call on.
  bool refuses_replays = false;
  /// Whether its scope has ended on another thread than its own.
  bool ended_elsewhere() const { return __atomic_load_n(&ended_, __ATOMIC_RELAXED); }

 private:
  friend void end_observing(OwnedObserver* observer);
  bool ended_ = false;
};

/// From now on this thread notifies the observer, whose whole object has so many bytes.
void start_observing(Observer& observer, std::size_t bytes);
/// Stops notifying it. Returns false if this thread, or its fiber, did not notify it.
bool stop_observing(Observer& observer);
/// The observer of a public scope. It ends with the scope.
class OwnedObserver : public Observer {
  friend void end_observing(OwnedObserver* observer);
  OwnedObserver* next_left_ = nullptr;
};
/// Like start_observing(). A traced function that makes a public scope runs eagerly, because a
/// replay would not make it.
void start_owned(OwnedObserver& observer, std::size_t bytes);
/// Deletes the observer. Another thread or fiber has another list of observers. There, the observer
/// stays in its own list and is not notified any more.
void end_observing(OwnedObserver* observer);
/// While it lives, an observer is notified of events on this thread.
class ObserverScope {
 public:
  template <class T>
  explicit ObserverScope(T& observer) : observer_(observer) {
    start_observing(observer, sizeof(T));
  }
  ~ObserverScope() { stop_observing(observer_); }
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  Observer& observer_;
};
/// While it lives, no observer of this thread is notified.
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

/// While it lives, ops and reads of an observer do not count as the program's.
class Unobserved {
 public:
  explicit Unobserved(Context& context)
      : context_(context),
        observers_(context.observers),
        infers_(context.mode & infer_only),
        marked_reads_(context.marked_reads),
        no_observers_(context),
        no_records_(context) {
    context.mode &= static_cast<std::uint8_t>(~infer_only);
  }
  ~Unobserved() {
    context_.marked_reads = marked_reads_;
    if (infers_) context_.mode |= infer_only;
  }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
  Observer* observers() const { return observers_; }

 private:
  Context& context_;
  Observer* observers_;
  bool infers_;
  std::uint64_t marked_reads_;
  ObserverPause no_observers_;
  InterceptorPause no_interceptors_;
  RecordingPause no_records_;
};

/// Whether the one observer of this thread `only_times`. Call it where Mode::observed is set.
inline bool only_times(const Context& context) {
  return context.observers->only_times && !context.observers->next;
}

/// Whether an observer of this thread `refuses_replays`.
inline bool refuses_replays(const Context& context) {
  const Observer* each = context.mode & observed ? context.observers : nullptr;
  while (each && !each->refuses_replays) each = each->next;
  return each;
}

// Each of these is to be called where Mode::observed is set.
/// Notifies observers of the op, or of the gradient kernel if call.part says so.
void tell_begin(Context& context, const GateCall& call);
void tell_end(Context& context, const GateCall& call);
[[gnu::cold]] void tell_kernel(Context& context, const DeviceCall& call, bool begins);
[[gnu::cold]] void tell_recorded(Context& context, const Record& record);
[[gnu::cold]] void tell_played(Context& context, const Record& record, const Body* dy);
[[gnu::cold]] void tell_backward_begin(Context& context, const Body& target);
/// Throws nothing if the backward pass has thrown.
[[gnu::cold]] void tell_backward_end(Context& context, bool finished);
[[gnu::cold]] void tell_gradient_complete(Context& context, const GradientSource& source,
                                          std::size_t i, const Tensor& gradient);
[[gnu::cold]] void tell_rows_complete(Context& context, const GradientSource& source, std::size_t i,
                                      const RowGradient& gradient);
[[gnu::cold]] void tell_made(Context& context, const Variable& variable);
[[gnu::cold]] void tell_read(Context& context, const Variable& variable);
[[gnu::cold]] void tell_written(Context& context, const Variable& variable);
[[gnu::cold]] void tell_host_read(Context& context, const Body& x, HostRead read);
/// A debugger stops this thread, or lets it go on.
void tell_stopped(bool stopped);
/// What is called then, if other ranks may wait for this one.
void listen_to_stops(void (*f)(bool stopped));
/// Where the thread has an observer.
void tell_error(const std::exception& error, std::string_view op, Caller caller) noexcept;
}  // namespace reel
