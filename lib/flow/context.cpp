// SPDX-License-Identifier: BSD-3-Clause
#include "lib/flow/context.hpp"

#include <sys/single_threaded.h>

#include <string>

#include <reel/error.hpp>
#include <reel/threads.hpp>
#include <reel/train.hpp>

#include "lib/flow/interceptor.hpp"
#include "lib/pool/process.hpp"
#include "lib/pool/thread_count.hpp"

namespace reel {
namespace {
/// Behind Lock::contexts.
constinit struct AllContexts {
  Context* first = nullptr;
  std::int64_t retired_tensors = 0, retired_bytes = 0;

  void remove(Context& context) {
    Context** link = &first;
    while (*link != &context) link = &(*link)->next;
    *link = context.next;
    retired_tensors += context.live_tensors;
    retired_bytes += context.live_bytes;
  }
  Context* find(std::uint64_t thread) const {
    Context* context = first;
    while (context && context->thread != thread) context = context->next;
    return context;
  }
} all_contexts;

/// The thread has ended, and this one has the reel to itself: closes what tapes others have ended
/// by now. With the last tape the context goes.
void close_left_tapes(Context& context) {
  for (bool ended = false; !ended;) {
    close_tapes_ended_elsewhere(context);
    const Locked held(Lock::contexts);
    ended = !context.reel.ended_elsewhere;
    if (!ended) continue;
    context.tapes_closing = false;
    if (context.reel.alive) return;
    all_contexts.remove(context);
  }
  delete &context;
}

/// The context lives on while a tape of it does.
void end_context(ThreadEnd&) {
  Context& context = *Context::current();
  close_tapes_ended_elsewhere(context);
  retire_blocks(context);
  current_memory = nullptr;  // what is freed from here on is another context's
  {
    const Locked held(Lock::contexts);
    context.thread_ended = context.tapes_closing = true;
  }
  close_left_tapes(context);
}
constinit thread_local ThreadEnd context_end{end_context};
constinit std::uint64_t contexts_made = 0;

/// f(the context of that thread), if it has not ended. Another thread's is held while f runs.
template <class F>
void at_context_of(std::uint64_t thread, const F& f) {
  if (Context::current() && Context::current()->thread == thread) return f(*Context::current());
  const Locked held(Lock::contexts);
  if (Context* const context = all_contexts.find(thread)) f(*context);
}
}  // namespace

Context* first_context() { return all_contexts.first; }

void announce_tape(Context& context) {
  if (__libc_single_threaded) return;
  const Locked held(Lock::contexts);
  for (Context* other = all_contexts.first; other; other = other->next)
    if (other != &context) other->set_watchful();
}

std::uint64_t threads_begun() { return __atomic_load_n(&contexts_made, __ATOMIC_RELAXED); }

Context& make_context() try {
  auto* context = new Context(__atomic_add_fetch(&contexts_made, 1u, __ATOMIC_RELAXED));
  {
    const Locked held(Lock::contexts);
    // A new thread may be given what tapes of others follow, and what has a mark.
    for (const Context* other = all_contexts.first; other; other = other->next)
      if (other->reel.live_number() || other->is_watchful()) context->set_watchful();
    context->next = all_contexts.first;
    all_contexts.first = context;
  }
  current_memory = context;
  at_thread_end(context_end);
  return *context;
} catch (const std::bad_alloc&) {
  fail_memory({}, "reel");
}

namespace {
/// In the middle of its own gradient() a tape is closed when that has ended.
void close_own_tape(Reel& reel, std::uint64_t bit) {
  if (reel.playing & bit)
    reel.ended |= bit;
  else
    reel.close_tape(bit);
}
}  // namespace

void close_tapes_ended_elsewhere(Context& context) {
  Reel& reel = context.reel;
  if (!__atomic_load_n(&reel.ended_elsewhere, __ATOMIC_RELAXED)) return;
  std::uint64_t bits = __atomic_exchange_n(&reel.ended_elsewhere, 0u, __ATOMIC_ACQUIRE);
  for (; bits; bits &= bits - 1) close_own_tape(reel, bits & -bits);
  context.update_recording();
}

void close_tape(Context& context, std::uint64_t bit) {
  if (&context == Context::current()) {
    close_tapes_ended_elsewhere(context);
    close_own_tape(context.reel, bit);
    return context.update_recording();
  }
  Context::here();  // gets what the tape held
  {
    const Locked held(Lock::contexts);
    __atomic_fetch_or(&context.reel.ended_elsewhere, bit, __ATOMIC_RELEASE);
    if (!context.thread_ended || context.tapes_closing) return;
    context.tapes_closing = true;
  }
  close_left_tapes(context);
}

CallerScope::CallerScope(Caller caller, std::string_view name) {
  Context& context = Context::here();
  outermost_ = context.site.file == nullptr;
  names_ = context.site_name.empty() && !name.empty();
  if (!outermost_ && !names_) return;
  thread_ = context.thread;
  if (outermost_) context.site = caller;
  if (names_) context.site_name = name;
}
CallerScope::~CallerScope() {
  if (!outermost_ && !names_) return;
  at_context_of(thread_, [this](Context& context) {
    if (outermost_) context.site = {};
    if (names_) context.site_name = {};
  });
}

Context& open_scope(OpenScope& scope, OpenScope* Context::*kind) {
  Context& context = Context::here();
  scope = {context.thread, context.*kind};
  context.*kind = &scope;
  return context;
}
void close_scope(OpenScope& scope, OpenScope* Context::*kind, void (*set)(Context&, OpenScope*)) {
  at_context_of(scope.thread, [&](Context& context) {
    OpenScope** link = &(context.*kind);
    while (*link != &scope) link = &(*link)->outer;
    *link = scope.outer;
    set(context, context.*kind);
  });
}

int num_threads() {
  tell_interceptors("it reads num_threads()");
  return kernels::thread_count();
}
void set_num_threads(int threads, Caller caller) try {
  tell_interceptors("it calls set_num_threads()");
  if (threads < 1 || threads > kernels::most_threads)
    fail<Error>(caller, "set_num_threads", "threads",
                "a whole number in [1, " + std::to_string(kernels::most_threads) + "]",
                std::to_string(threads));
  kernels::set_thread_count(threads);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "set_num_threads");
}
InferScope::InferScope() : before_(Context::here().mode & infer_only) {
  Context::here().mode |= infer_only;
}
InferScope::~InferScope() {
  if (!before_) Context::here().mode &= static_cast<std::uint8_t>(~infer_only);
}

bool training() { return Context::here().training; }
TrainScope::TrainScope(bool training) : training_(training) {
  open_scope(*this, &Context::train_scopes).training = training;
}
TrainScope::~TrainScope() {
  close_scope(*this, &Context::train_scopes, [](Context& context, OpenScope* innermost) {
    context.training = !innermost || static_cast<TrainScope*>(innermost)->training_;
  });
}

MemoryStatistics memory_statistics() {
  MemoryStatistics statistics;
  close_tapes_ended_elsewhere(Context::here());
  const Locked held(Lock::contexts);
  statistics.live_tensors = all_contexts.retired_tensors;
  statistics.live_bytes = all_contexts.retired_bytes;
  for (Context* context = all_contexts.first; context; context = context->next) {
    statistics.live_tensors += __atomic_load_n(&context->live_tensors, __ATOMIC_RELAXED);
    statistics.live_bytes += __atomic_load_n(&context->live_bytes, __ATOMIC_RELAXED);
    statistics.live_records += context->reel.live_records();
  }
  add_shared(statistics);
  return statistics;
}
void trim_memory() {
  Context& context = Context::here();
  close_tapes_ended_elsewhere(context);
  context.reel.trim();
  return_blocks_to_system();
}
}  // namespace reel
