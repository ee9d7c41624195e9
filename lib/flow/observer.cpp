// SPDX-License-Identifier: BSD-3-Clause
#include "lib/flow/observer.hpp"

#include <utility>

namespace reel {
namespace {
void (*stop_listener)(bool stopped) = nullptr;  // atomic
}
void tell_stopped(bool stopped) {
  if (const auto tell = __atomic_load_n(&stop_listener, __ATOMIC_ACQUIRE)) tell(stopped);
}
void listen_to_stops(void (*f)(bool stopped)) {
  __atomic_store_n(&stop_listener, f, __ATOMIC_RELEASE);
}

void start_observing(Observer& observer, std::size_t bytes) {
  Context& context = Context::here();
  observer.bytes = bytes;
  observer.next = context.observers;
  context.observers = &observer;
  context.mode |= observed;
}
void start_owned(OwnedObserver& observer, std::size_t bytes) {
  tell_interceptors("it makes a scope that watches its ops, such as a FiniteScope");
  start_observing(observer, bytes);
}
bool stop_observing(Observer& observer) {
  Context& context = Context::here();
  Observer** link = &context.observers;
  while (*link && *link != &observer) link = &(*link)->next;
  if (!*link) return false;
  *link = observer.next;
  if (!context.observers) context.mode &= static_cast<std::uint8_t>(~observed);
  return true;
}

void end_observing(OwnedObserver* observer) {
  if (stop_observing(*observer)) {
    delete observer;
    return;
  }
  static constinit OwnedObserver* left = nullptr;  // by which a search for leaks finds them
  __atomic_store_n(&observer->ended_, true, __ATOMIC_RELAXED);
  observer->next_left_ = __atomic_load_n(&left, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&left, &observer->next_left_, observer, true,
                                      __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

ObserverPause::ObserverPause(Context& context)
    : context_(context), observers_(std::exchange(context.observers, nullptr)) {
  context.mode &= static_cast<std::uint8_t>(~observed);
}
ObserverPause::~ObserverPause() {
  context_.observers = observers_;
  if (observers_) context_.mode |= observed;
}

namespace {
/// The one observer, if it only looks.
inline Observer* only_looker(const Context& context) {
  Observer* const only = context.observers;
  return only->only_looks && !only->next ? only : nullptr;
}
/// For a handler of what an observer throws.
[[noreturn, gnu::cold]] void rethrow_reported() {
  tell_interceptors("an observer throws");
  throw;
}
template <class F>
void tell(Context& context, const F& f) try {
  if (Observer* const only = only_looker(context)) {
    if (!only->ended_elsewhere()) f(*only);
    return;
  }
  const Unobserved unobserved(context);
  for (Observer* each = unobserved.observers(); each; each = each->next)
    if (!each->ended_elsewhere()) f(*each);
} catch (...) {
  rethrow_reported();
}
[[gnu::noinline]] void tell_all_begin(Context& context, GateCall call) {
  call.output_count = 0;
  tell(context, [&](Observer& each) { each.call_begins(call); });
}
[[gnu::noinline]] void tell_all_end(Context& context, const GateCall& call) {
  tell(context, [&](Observer& each) { each.call_ends(call); });
}
}  // namespace

// A profile pays for each instruction of these two.
void tell_begin(Context& context, const GateCall& call) {
  Observer* const only = only_looker(context);
  if (!only || only->ended_elsewhere()) return tell_all_begin(context, call);
  try {
    only->call_begins(call);
  } catch (...) {
    rethrow_reported();
  }
}
void tell_end(Context& context, const GateCall& call) {
  Observer* const only = only_looker(context);
  if (!only || only->ended_elsewhere()) return tell_all_end(context, call);
  try {
    only->call_ends(call);
  } catch (...) {
    rethrow_reported();
  }
}
void tell_kernel(Context& context, const DeviceCall& call, bool begins) {
  tell(context,
       [&](Observer& each) { begins ? each.kernel_begins(call) : each.kernel_ends(call); });
}
void tell_recorded(Context& context, const Record& record) {
  tell(context, [&](Observer& each) { each.recorded(record); });
}
void tell_played(Context& context, const Record& record, const Body* dy) {
  if (!only_times(context)) tell(context, [&](Observer& each) { each.record_played(record, dy); });
}
void tell_backward_begin(Context& context, const Body& target) {
  tell(context, [&](Observer& each) { each.backward_begins(target); });
}
void tell_backward_end(Context& context, bool finished) try {
  tell(context, [&](Observer& each) { each.backward_ends(finished); });
} catch (...) {
  if (finished) throw;
}
void tell_gradient_complete(Context& context, const GradientSource& source, std::size_t i,
                            const Tensor& gradient) {
  tell(context, [&](Observer& each) { each.gradient_complete(source, i, gradient); });
}
void tell_rows_complete(Context& context, const GradientSource& source, std::size_t i,
                        const RowGradient& gradient) {
  tell(context, [&](Observer& each) { each.rows_complete(source, i, gradient); });
}
void tell_made(Context& context, const Variable& variable) {
  tell(context, [&](Observer& each) { each.variable_made(variable); });
}
void tell_read(Context& context, const Variable& variable) {
  tell(context, [&](Observer& each) { each.variable_read(variable); });
}
void tell_written(Context& context, const Variable& variable) {
  tell(context, [&](Observer& each) { each.variable_written(variable); });
}
void tell_host_read(Context& context, const Body& x, HostRead read) {
  tell(context, [&](Observer& each) { each.host_read(x, read); });
}
void tell_error(const std::exception& error, std::string_view op, Caller caller) noexcept try {
  Context* const context = Context::current();
  if (!context || !(context->mode & observed)) return;
  const ErrorEvent event{error, op, context->caller_of(caller)};
  tell(*context, [&](Observer& each) { each.error(event); });
} catch (...) {  // the first error is already being thrown
}
}  // namespace reel
