// SPDX-License-Identifier: BSD-3-Clause
#include "lib/flow/observer.hpp"

#include <utility>

namespace reel {
ObserverScope::ObserverScope(Observer& observer, std::size_t bytes) : observer_(observer) {
  Context& context = Context::here();
  observer.bytes = bytes;
  observer.next = context.observers;
  context.observers = &observer;
  context.mode |= observed;
}
ObserverScope::~ObserverScope() {
  Context& context = Context::here();
  for (Observer** link = &context.observers; *link; link = &(*link)->next)
    if (*link == &observer_) {
      *link = observer_.next;
      break;
    }
  if (!context.observers) context.mode &= static_cast<std::uint8_t>(~observed);
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
/// What an observer does is none of the program's doing while it lives.
class Aside {
 public:
  explicit Aside(Context& context)
      : context_(context),
        observers_(context.observers),
        infers_(context.mode & infer_only),
        crossings_(context.crossings),
        no_observers_(context),
        no_records_(context) {
    context.mode &= static_cast<std::uint8_t>(~infer_only);
  }
  ~Aside() {
    context_.crossings = crossings_;
    if (infers_) context_.mode |= infer_only;
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  Observer* observers() const { return observers_; }

 private:
  Context& context_;
  Observer* observers_;
  bool infers_;
  std::uint64_t crossings_;
  ObserverPause no_observers_;
  InterceptorPause no_interceptors_;
  RecordingPause no_records_;
};

template <class F>
void tell(Context& context, const F& f) try {
  const Aside aside(context);
  for (Observer* each = aside.observers(); each; each = each->next) f(*each);
} catch (...) {
  tell_interceptors("an observer throws");
  throw;
}
}  // namespace

void tell_begin(Context& context, GateCall call) {
  call.output_count = 0;
  tell(context, [&](Observer& each) {
    call.part == Part::value ? each.op_begins(call) : each.gradient_begins(call);
  });
}
void tell_end(Context& context, const GateCall& call) {
  tell(context, [&](Observer& each) {
    call.part == Part::value ? each.op_ends(call) : each.gradient_ends(call);
  });
}
void tell_recorded(Context& context, const Record& record) {
  tell(context, [&](Observer& each) { each.recorded(record); });
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
void tell_error(const std::exception& error, std::string_view op, Caller site) noexcept try {
  Context* const context = Context::current();
  if (!context || !(context->mode & observed)) return;
  const ErrorEvent event{error, op, context->site_of(site)};
  tell(*context, [&](Observer& each) { each.error(event); });
} catch (...) {  // the error itself is on its way
}
}  // namespace reel
