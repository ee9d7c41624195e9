// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dispatch/context.hpp"

#include <mutex>

#include <reel/train.hpp>

#include "lib/tensor/access.hpp"

namespace reel {
constinit thread_local Context* current_context = nullptr;

namespace {
struct AllContexts {
  std::mutex mutex;
  Context* first = nullptr;
  std::int64_t retired_tensors = 0, retired_bytes = 0;
};
AllContexts& all_contexts() {
  static AllContexts* contexts = new AllContexts;  // outlives every thread and static
  return *contexts;
}

struct ContextOwner {
  Context* context = nullptr;
  ~ContextOwner() {
    if (!context) return;
    // Tensors that outlive this thread's locals make themselves a new context.
    current_context = nullptr;
    retire_blocks(*context);
    AllContexts& contexts = all_contexts();
    std::lock_guard lock(contexts.mutex);
    for (Context** link = &contexts.first; *link; link = &(*link)->next)
      if (*link == context) {
        *link = context->next;
        break;
      }
    contexts.retired_tensors += context->live_tensors;
    contexts.retired_bytes += context->live_bytes;
    delete context;
  }
};
thread_local ContextOwner context_owner;
thread_local bool context_ended = false;
}  // namespace

Context& make_context() {
  auto* context = new Context;
  if (context_ended) {
    context->list_bytes = 0;  // the thread ends: nobody would take what it keeps
  } else {
    context_owner.context = context;
    context_ended = true;
  }
  AllContexts& contexts = all_contexts();
  std::lock_guard lock(contexts.mutex);
  context->next = contexts.first;
  contexts.first = context;
  current_context = context;
  return *context;
}

CallerScope::CallerScope(Caller caller, std::string_view name) {
  Context& context = Context::here();
  outermost_ = context.site.file == nullptr;
  names_ = context.site_name.empty() && !name.empty();
  if (outermost_) context.site = caller;
  if (names_) context.site_name = name;
}
CallerScope::~CallerScope() {
  if (!outermost_ && !names_) return;
  Context& context = Context::here();
  if (outermost_) context.site = {};
  if (names_) context.site_name = {};
}

StageScope::StageScope(Stage& stage) : stage_(stage) {
  Context& context = Context::here();
  stage.next = context.stages;
  context.stages = &stage;
  context.mode |= staged;
}
StageScope::~StageScope() {
  Context& context = Context::here();
  for (Stage** link = &context.stages; *link; link = &(*link)->next)
    if (*link == &stage_) {
      *link = stage_.next;
      break;
    }
  if (!context.stages) context.mode &= static_cast<std::uint8_t>(~staged);
}

StagePause::StagePause() : stages_(Context::here().stages) {
  Context& context = Context::here();
  context.stages = nullptr;
  context.mode &= static_cast<std::uint8_t>(~staged);
}
StagePause::~StagePause() {
  Context& context = Context::here();
  context.stages = stages_;
  if (stages_) context.mode |= staged;
}

const Tensor& read_variable(Context& context, const Variable& variable) {
  const Tensor* value = &Access::cell(variable).value;
  for (Stage* stage = context.stages; stage; stage = stage->next)
    if (const Tensor* other = stage->variable_read(variable, *value)) value = other;
  return *value;
}
Tensor name_again(Context& context, Body* body) {
  Tensor made = Access::adopt(allocate_view(context, body));
  for (Stage* stage = context.stages; made.defined() && stage; stage = stage->next)
    stage->named_again(*body, *Access::body(made));
  return made;
}

InferScope::InferScope() : before_(Context::here().mode & infer_only) {
  Context::here().mode |= infer_only;
}
InferScope::~InferScope() {
  if (!before_) Context::here().mode &= static_cast<std::uint8_t>(~infer_only);
}

bool training() { return Context::here().training; }
TrainScope::TrainScope(bool training) : before_(Context::here().training) {
  Context::here().training = training;
}
TrainScope::~TrainScope() { Context::here().training = before_; }

MemoryStatistics memory_statistics() {
  MemoryStatistics statistics;
  AllContexts& contexts = all_contexts();
  std::lock_guard lock(contexts.mutex);
  statistics.live_tensors = contexts.retired_tensors;
  statistics.live_bytes = contexts.retired_bytes;
  for (Context* context = contexts.first; context; context = context->next) {
    statistics.live_tensors += __atomic_load_n(&context->live_tensors, __ATOMIC_RELAXED);
    statistics.live_bytes += __atomic_load_n(&context->live_bytes, __ATOMIC_RELAXED);
    statistics.live_records += context->reel.live_records();
  }
  add_cached(statistics);
  return statistics;
}
void trim_memory() { return_blocks_to_system(); }
}  // namespace reel
