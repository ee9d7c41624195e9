// SPDX-License-Identifier: BSD-3-Clause
#include "lib/flow/context.hpp"

#include <memory>
#include <string>

#include <reel/autocast.hpp>
#include <reel/error.hpp>
#include <reel/threads.hpp>
#include <reel/train.hpp>

#include "lib/body/text.hpp"
#include "lib/flow/hooks.hpp"
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
} all_contexts;

void end_context(ThreadEnd&) {
  Context& context = *Context::current();
  context_hooks.ended(context);
  close_tapes_ended_elsewhere(context);
  retire_blocks(context);
  current_memory = nullptr;  // what is freed from here on is another context's
  end_flow(context);
  {
    const Locked held(Lock::contexts);
    all_contexts.remove(context);
  }
  delete &context;
}
constinit thread_local ThreadEnd context_end{end_context};

/// Calls f with the flow of that number, if it has not ended. The flow of another thread is locked
/// while f runs.
template <class F>
void at_flow(std::uint64_t number, const F& f) {
  if (Context::current() && Context::current()->number == number) return f(*Context::current());
  const Locked held(Lock::contexts);
  for (const FlowReel* reel = first_reel(); reel; reel = reel->next)
    if (reel->number == number && reel->flow) return f(*reel->flow);
}
}  // namespace

Context& make_context() try {
  auto context = std::make_unique<Context>();
  begin_flow(*context);
  context->thread = context->number;
  {
    const Locked held(Lock::contexts);
    context->next = all_contexts.first;
    all_contexts.first = context.get();
  }
  current_memory = context.get();
  at_thread_end(context_end);
  context_hooks.made(*context);
  return *context.release();
} catch (const std::bad_alloc&) {
  fail_memory({}, "reel");
}

CallerScope::CallerScope(Caller caller, std::string_view name) {
  Context& context = Context::here();
  outermost_ = context.outer_caller.file == nullptr;
  names_ = context.layer_name.empty() && !name.empty();
  if (!outermost_ && !names_) return;
  thread_ = context.number;
  if (outermost_) context.outer_caller = caller;
  if (names_) context.layer_name = name;
}
CallerScope::~CallerScope() {
  if (!outermost_ && !names_) return;
  at_flow(thread_, [this](Flow& flow) {
    if (outermost_) flow.outer_caller = {};
    if (names_) flow.layer_name = {};
  });
}

Context& open_scope(OpenScope& scope, OpenScope* Flow::*kind) {
  Context& context = Context::here();
  scope = {context.number, context.*kind};
  context.*kind = &scope;
  return context;
}
void close_scope(OpenScope& scope, OpenScope* Flow::*kind, void (*set)(Flow&, OpenScope*)) {
  at_flow(scope.thread, [&](Flow& flow) {
    OpenScope** link = &(flow.*kind);
    while (*link != &scope) link = &(*link)->outer;
    *link = scope.outer;
    set(flow, flow.*kind);
  });
}

int num_threads() {
  tell_interceptors("it reads num_threads()");
  return kernels::thread_count();
}
void set_num_threads(CountNumber threads, Caller caller) {
  tell_interceptors("it calls set_num_threads()");
  if (threads < 1 || threads > kernels::most_threads)
    fail<Error>(caller, "set_num_threads", "threads",
                "a whole number in [1, " + to_text(kernels::most_threads) + "]",
                to_text(threads.value));
  kernels::set_thread_count(static_cast<int>(threads));
}
InferScope::InferScope() : before_(Context::here().mode & infer_only) {
  Context::here().mode |= infer_only;
}
InferScope::~InferScope() {
  if (!before_) Context::here().mode &= static_cast<std::uint8_t>(~infer_only);
}

bool training() { return Context::here().training; }
TrainScope::TrainScope(bool training) : training_(training) {
  open_scope(*this, &Flow::train_scopes).training = training;
}
TrainScope::~TrainScope() {
  close_scope(*this, &Flow::train_scopes, [](Flow& flow, OpenScope* innermost) {
    flow.training = !innermost || static_cast<TrainScope*>(innermost)->training_;
  });
}

namespace {
void set_autocast(Flow& flow, DType dtype) {
  flow.autocast = dtype;
  const int others = flow.mode & ~autocasts;
  flow.mode = static_cast<std::uint8_t>(dtype == DType::float32 ? others : others | autocasts);
}
}  // namespace
AutocastScope::AutocastScope(AutocastOptions options, Caller caller) : dtype_(options.dtype) {
  if (dtype_ != DType::float32 && !is_half(dtype_))
    fail<DTypeError>(caller, "AutocastScope", "dtype", "bfloat16, float16 or float32",
                     name_of(dtype_));
  set_autocast(open_scope(*this, &Flow::autocast_scopes), dtype_);
}
AutocastScope::~AutocastScope() {
  close_scope(*this, &Flow::autocast_scopes, [](Flow& flow, OpenScope* innermost) {
    set_autocast(flow, innermost ? static_cast<AutocastScope*>(innermost)->dtype_ : DType::float32);
  });
}

MemoryStatistics live_tensors() {
  MemoryStatistics statistics;
  const Locked held(Lock::contexts);
  statistics.live_tensors = all_contexts.retired_tensors;
  statistics.live_bytes = all_contexts.retired_bytes;
  for (Context* context = all_contexts.first; context; context = context->next) {
    statistics.live_tensors += __atomic_load_n(&context->live_tensors, __ATOMIC_RELAXED);
    statistics.live_bytes += __atomic_load_n(&context->live_bytes, __ATOMIC_RELAXED);
  }
  subtract_freed(statistics);
  return statistics;
}
MemoryStatistics memory_statistics() {
  close_tapes_ended_elsewhere(Context::here());
  MemoryStatistics statistics = live_tensors();
  const Locked held(Lock::contexts);
  for (const FlowReel* reel = first_reel(); reel; reel = reel->next)
    statistics.live_records += reel->live_records();
  add_shared(statistics);
  return statistics;
}
void trim_memory() {
  Context& context = Context::here();
  close_tapes_ended_elsewhere(context);
  context.reel->trim();
  return_blocks_to_system();
  for (DeviceMemory* const memory : device_memories)
    if (memory) memory->trim();
}
}  // namespace reel
