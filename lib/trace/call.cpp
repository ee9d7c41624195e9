// SPDX-License-Identifier: BSD-3-Clause
// One call of a traced function. The call is one of four kinds: a replay; a run that is captured; a
// replay that is checked against a run; a run without capture.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "lib/body/dtypes.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/gate/marks.hpp"
#include "lib/pool/process.hpp"
#include "lib/trace/check.hpp"
#include "lib/trace/progress.hpp"

namespace reel::detail {
namespace {
/// Objects kept for later calls. A nested call needs an object of its own.
struct SpareProgress {
  TraceProgress* first = nullptr;
  int calls = 0;  // calls of traced functions that this thread is in
  ~SpareProgress() {
    while (first) delete std::exchange(first, first->next);
  }
};
constinit thread_local OfThread<SpareProgress> spare;

TraceProgress* take_progress() {
  SpareProgress& own = spare.get();
  ++own.calls;
  TraceProgress*& first = own.first;
  if (first) return std::exchange(first, first->next);
  auto made = std::make_unique<TraceProgress>();
  made->key.reserve(8);  // so that the start of a key does not allocate
  return made.release();
}
}  // namespace

int open_calls() { return spare.get().calls; }
void Traces::clear() const { cache().clear(open_calls() > 0); }

TraceCall::TraceCall(Traces traces, Caller caller) try
    : traces_(traces), progress_(take_progress()) {
  progress_->cache = &traces_.cache();
  progress_->caller = caller;
  if (progress_->cache->on_trial.load(std::memory_order_relaxed))
    progress_->began = std::chrono::steady_clock::now();
  const Context& context = Context::here();
  progress_->key.push_back(
      registrations() << 24 | static_cast<std::uint64_t>(context.autocast) << 16 |
      static_cast<std::uint64_t>(context.device.kind) << 9 |
      std::uint64_t{static_cast<std::uint8_t>(context.device.index)} << 1 | context.training);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "trace");
}
TraceCall::~TraceCall() {
  if (progress_->measured == TraceProgress::Measured::replay) note_time(*progress_);
  progress_->clear();
  SpareProgress& own = spare.get();
  --own.calls;
  progress_->next = std::exchange(own.first, progress_);
}

namespace {
/// Measures a replay. A replay with user code is not repeated; it is assumed to take as long as the
/// check.
double seconds_of_replay(TraceProgress& call, Context& context, tracing::Plan& plan) {
  if (call.is_taped || !call.replay->user_calls().empty()) return 0;
  const ObserverPause unobserved(context);
  tracing::Replay replay(context, plan);
  for (std::size_t i = 0; i < call.arguments.size(); ++i)
    replay.argument(static_cast<int>(i), *call.arguments[i]);
  const auto start = std::chrono::steady_clock::now();
  replay.run();
  return tracing::seconds_since(start);
}

Tensor ones_alike(Context& context, const Tensor& x) {
  tracing::Layout layout(*Access::body(x));
  Tensor made = tracing::made_for(context, layout);
  const Body& body = *Access::body(made);
  with_element(body.dtype, [&]<class T>(Type<T>) {
    if constexpr (!std::is_same_v<T, bool>)
      std::fill_n(body.as<T>(), body.elements, static_cast<T>(1.0f));
  });
  return made;
}

/// The ending of a replay that can be committed. If it is null, the function must run: as a check
/// if there was a replay, else as a capture.
const tracing::Ending* replay_plan(TraceProgress& call, Context& context, tracing::Plan& plan) {
  plan.wait_for_earlier();
  try {
    if (call.is_taped)
      call.kept = std::make_shared<tracing::Replay>(context, plan);
    else
      call.replay.emplace(context, plan);
  } catch (const MemoryError&) {  // a run needs less memory than a replay
    return nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  tracing::Replay& replay = call.replaying();
  for (std::size_t i = 0; i < call.arguments.size(); ++i)
    replay.argument(static_cast<int>(i), *call.arguments[i]);
  if (call.is_taped) replay.keep_for_gradient(call.arguments.size());
  const tracing::Ending* const ending = replay.run();
  if (!ending || !replay.due()) return ending;
  call.began = std::chrono::steady_clock::now();
  const tracing::Segment& last = plan.tree.segments[ending->segment];
  for (std::size_t i = 0; i < last.results.size() - ending->sources.size(); ++i)
    call.expected.push_back(replay.result(last.results[i]));
  if (call.is_taped) {
    std::vector<Tensor> ones;
    for (const Tensor& result : call.expected)
      if (result.defined() && is_floating(result.dtype()))
        ones.push_back(ones_alike(context, result));
    for (Tensor& gradient : replay.run_gradient(call.arguments.size(), ones))
      call.expected.push_back(std::move(gradient));
  }
  for (const auto& [variable, value] : last.assigned)
    call.assigned.emplace_back(plan.tree.variables[static_cast<std::size_t>(variable)],
                               replay.assigned(variable));
  call.position = replay.position();
  call.ending = std::const_pointer_cast<tracing::Ending>(ending->shared_from_this());
  call.scheduled = replay.scheduled();
  call.changes = std::move(replay.changes());
  call.plan = &plan;
  call.doing = Doing::verifying;
  call.replay_seconds = call.scheduled && tracing::needs_times(*ending, call.cache->options.verify)
                            ? seconds_of_replay(call, context, plan)
                            : 0;
  return nullptr;
}

/// Whether a tape of another thread may follow what the call reads.
bool may_give_any_marks(Context& context, const TraceProgress& call) {
  const auto may_give_marks = [&](const Context&, const Body& x) {
    ResultMarks marks;
    if (reel::may_give_marks(context, x)) marks.read(context, x, "trace", call.caller);
    return static_cast<bool>(marks);
  };
  for (const Tensor* x : call.arguments)
    if (may_give_marks(context, *Access::body(*x))) return true;
  const tracing::Plan* plan = call.entry->plan.load(std::memory_order_acquire);
  if (!plan) return false;
  for (const Variable& variable : plan->tree.variables)
    if (may_give_marks(context, *Access::body(Access::cell(variable).value))) return true;
  for (const tracing::Value& value : plan->tree.values)
    if (value.constant.defined() && may_give_marks(context, *Access::body(value.constant)))
      return true;
  return false;
}

/// Starts recording ops. Each argument gets a new header, so every other handle to the tensor is a
/// constant.
void listen(TraceProgress& call) {
  call.tracer.emplace();
  call.tracer->called(std::move(call.user_calls));
  for (Tensor* x : call.arguments) {
    Body* body = Access::body(*x);
    *x = body->contiguous ? tracing::named_apart(*x) : contiguous_copy(*body);
    call.tracer->argument(*x);
    call.slots.push_back(x);
  }
  for (const auto& [again, first] : call.again) {
    *again = *first;
    call.slots.push_back(again);
  }
  call.scope.emplace(*call.tracer);
}
}  // namespace

namespace {
/// Whether exactly one tape records, which watches the Variables that are read, and nothing else
/// has to see ops.
bool follows_one_tape(const Context& context) {
  const std::uint64_t active = context.reel->active;
  return !(context.mode & ~(recording | observed | autocasts)) && std::popcount(active) == 1 &&
         active & context.reel->watching_variables;
}
bool is_tracked(const Context& context, const Body& body) {
  Reel& reel = *context.reel;
  const std::uint32_t record = reel.find(body);
  return record != no_record && (reel[record].tapes | reel[record].watchers) & reel.active;
}
/// The signature of a call under a tape has the arguments that the tape follows.
void note_tape(TraceProgress& call, const Context& context) {
  call.is_taped = true;
  std::uint64_t bits = 1;
  for (const Tensor* x : call.arguments) {
    const Body* const body = Access::body(*x);
    call.taped.tracked.push_back(body && is_tracked(context, *body));
    call.taped.arguments.push_back(*x);
    bits = bits << 1 | call.taped.tracked.back();
    if (bits >> 62) call.key.push_back(std::exchange(bits, 1));
  }
  call.key.push_back(bits);
  call.key.push_back(~std::uint64_t{0});  // no other signature ends like this
}
/// Whether the tape follows a constant of the graph, or of a loop in it, for which a path of the
/// plan has no gradient.
bool tracks_constants(const Context& context, const graph::Graph& graph,
                      const tracing::Plan& plan) {
  for (const tracing::Value& value : graph.values) {
    if (value.kind != tracing::Value::Kind::constant || !value.constant.defined()) continue;
    const Body* const body = Access::body(value.constant);
    if (!is_tracked(context, *body)) continue;
    const auto is_it = [&](const TapedSource& source) {
      return Access::body(source.tensor) == body;
    };
    for (const tracing::Plan::PlannedSegment& segment : plan.segments)
      if (segment.ending &&
          std::none_of(segment.ending->sources.begin(), segment.ending->sources.end(), is_it))
        return true;
  }
  for (const tracing::Segment& segment : graph.segments)
    for (const tracing::Step& step : segment.steps)
      if (step.loop)
        for (const graph::Graph* body : step.loop->bodies())
          if (tracks_constants(context, *body, plan)) return true;
  return false;
}
}  // namespace

const void* TraceCall::replay() try {
  TraceProgress& call = *progress_;
  Context& context = Context::here();
  if (!context.replays()) {  // several tapes or an interceptor must see every op
    if (!follows_one_tape(context)) return nullptr;
    note_tape(call, context);
  }
  if (refuses_replays(context)) return nullptr;
  if (!call.cache->reads.empty()) add_reads();
  if (__atomic_load_n(&call.cache->thread, __ATOMIC_RELAXED) != context.thread &&
      !call.cache->shared.load(std::memory_order_relaxed)) [[unlikely]]
    call.cache->note_thread(context.thread);
  call.number = 1 + call.cache->calls.load(std::memory_order_relaxed);
  call.cache->calls.store(call.number, std::memory_order_relaxed);
  call.entry = call.cache->last.load(std::memory_order_acquire);
  if (!call.entry || call.entry->key != call.key) {
    if (call.entry) call.entry->used.store(call.number, std::memory_order_relaxed);
    const std::uint64_t hash = hash_of(call.key);
    call.entry = call.cache->find(call.key, hash);
    if (!call.entry) {
      Key rest;
      if (!call.cache->reads.empty())
        rest.assign(call.key.begin(), call.key.begin() + static_cast<std::ptrdiff_t>(call.rest));
      call.entry = call.cache->find_or_add(call.key, hash, hash_of(rest), call.variables,
                                           call.tensors, open_calls() > 1);
    }
    if (call.entry) {
      call.entry->used.store(call.number, std::memory_order_relaxed);
      call.cache->last.store(call.entry, std::memory_order_release);
    }
    call.cache->on_trial.store(false, std::memory_order_relaxed);
    if (!call.entry || !call.entry->is_slow) call.cache->slow_calls = 0;
  }
  if (!call.entry) {
    if (!call.cache->warned.exchange(true)) warn(call, call.cache->why_not_captured());
    return nullptr;
  }
  if (call.entry->eager.load(std::memory_order_relaxed)) return nullptr;
  if (call.entry->is_slow.load(std::memory_order_relaxed)) {
    call.cache->count_slow_call();
    return nullptr;
  }
  if (context.is_watchful() && may_give_any_marks(context, call)) return nullptr;
  call.marked_reads = context.marked_reads;
  tracing::Plan* const plan = call.entry->plan.load(std::memory_order_acquire);
  if (plan) {
    if (call.entry->use.load(std::memory_order_relaxed) != TraceEntry::Use::again) [[unlikely]]
      if (call.entry->use.exchange(TraceEntry::Use::again) == TraceEntry::Use::captured)
        --call.cache->unused;
    if (call.is_taped && tracks_constants(context, plan->tree, *plan)) return nullptr;
    if (call.entry->replays.load(std::memory_order_relaxed) >=
        call.entry->trial_begins.load(std::memory_order_relaxed)) [[unlikely]]
      if (runs_on_trial(call, context)) return nullptr;
    if (const tracing::Ending* ending = replay_plan(call, context, *plan)) {
      call.replaying().commit();
      call.entry->replays.store(call.entry->replays.load(std::memory_order_relaxed) + 1,
                                std::memory_order_relaxed);
      call.doing = Doing::replaying;
      call.replayed = ending;
      return ending->result ? ending->result->object : ending;
    }
    if (!call.replay && !call.kept) return nullptr;
    call.user_calls = std::move(call.replaying().user_calls());
    call.replay.reset();
    call.kept.reset();
  }
  if (call.doing != Doing::verifying) call.doing = Doing::capturing;
  return nullptr;
} catch (const std::bad_alloc&) {
  fail_memory(progress_->caller, "trace");
}

Tensor TraceCall::take_result(std::size_t i) {
  const tracing::Replay& replay = progress_->replaying();
  return replay.result(replay.plan().tree.segments[progress_->replayed->segment].results[i]);
}
void TraceCall::add_result(const Tensor& x) {
  if (progress_->doing != Doing::eager) progress_->results.push_back(x);
}
bool TraceCall::captures() const {
  return progress_->doing == Doing::capturing ||
         (progress_->doing == Doing::verifying && progress_->ending->derived);
}
const void* TraceCall::checked_against() const {
  return progress_->doing == Doing::verifying ? progress_->ending->result->object : nullptr;
}
void TraceCall::differs() { progress_->differs = true; }
void TraceCall::keep_result(void* copy, void (*free)(void*),
                            bool (*equal)(const void*, const void*)) {
  std::unique_ptr<void, void (*)(void*)> owned(copy, free);
  progress_->result = std::make_shared<tracing::KeptResult>(copy, free, equal);
  owned.release();
}
void TraceCall::keep_nothing() { progress_->result_shared = true; }

bool TraceCall::is_new() const {
  TraceEntry* entry = progress_->entry;
  if (!entry || entry->described.load(std::memory_order_acquire)) return false;
  progress_->texts.clear();
  return true;
}
void TraceCall::describe_number(std::string_view path, Scalar number) {
  progress_->texts.push_back({to_text(number), std::string(path)});
}
void TraceCall::describe_text(std::string_view text) {
  constexpr std::size_t most = 40;
  const std::string shown(text.substr(0, most));
  progress_->texts.push_back({'"' + shown + (text.size() > most ? "...\"" : "\""), {}});
}
void TraceCall::describe_value(const Tensor& x) {
  progress_->texts.push_back(
      {x.defined() ? std::string(name_of(x.dtype())) + to_text(x.shape()) : "undefined", {}});
}
void TraceCall::describe_value(const Variable& x) { progress_->texts.push_back({x.name(), {}}); }
void TraceCall::describe_value(const Shape& x) { progress_->texts.push_back({to_text(x), {}}); }
void TraceCall::described() {
  const std::size_t arguments = progress_->texts.size();
  for (const ReadObject& each : progress_->cache->reads) each.describe(each.object, *this);
  for (std::size_t i = arguments; i < progress_->texts.size(); ++i)
    progress_->texts[i] = {"reads " + progress_->texts[i].text, {}};
  const std::string number =
      progress_->cache->describe(*progress_->entry, progress_->texts, Context::here().training);
  if (number.empty()) return;
  std::fprintf(stderr,
               "reel: %s:%u: %d signatures of a traced function differ in %s only: pass "
               "live(number) and take it as a Tensor; then one trace serves all calls\n",
               progress_->caller.file ? progress_->caller.file : "?", progress_->caller.line,
               TraceCache::alike_signatures, number.c_str());
}

void* TraceCall::begin_run() {
  progress_->runs = true;
  progress_->run = ++progress_->cache->begun;
  progress_->alone = progress_->cache->ended + 1 == progress_->run;
  if (progress_->measured == TraceProgress::Measured::run)
    progress_->began = std::chrono::steady_clock::now();
  return progress_->cache->function.target;
}

StateList* TraceCall::begin_state() {
  if (progress_->doing != Doing::capturing && progress_->doing != Doing::verifying) return nullptr;
  const TracedFunction& function = progress_->cache->function;
  function.list(function.object, progress_->state);
  return &progress_->state;
}
void TraceCall::owns(const void* first, std::size_t bytes) {
  if (progress_->doing >= Doing::capturing) progress_->state.exclude(first, bytes);
}
void TraceCall::note_state() {
  for (const Tensor* x : progress_->arguments) owns(x, sizeof *x);
  for (const auto& again : progress_->again) owns(again.first, sizeof(Tensor));
  progress_->state.exclude(progress_->cache, sizeof *progress_->cache);
  progress_->state.exclude(progress_, sizeof *progress_);
  const Context& context = Context::here();
  progress_->state.exclude(&context, sizeof context);
  const void* generator = nullptr;  // what its handle leads to: draws are no state
  static_assert(sizeof(Generator) == sizeof generator);
  std::memcpy(&generator, static_cast<const void*>(&current_generator()), sizeof generator);
  progress_->state.exclude(generator, 3 * sizeof(std::uint64_t));
  progress_->state.exclude(context.reel, sizeof *context.reel);
  for (const Observer* each = context.observers; each; each = each->next)
    progress_->state.exclude(each, each->bytes);
  progress_->state.begin(reinterpret_cast<std::uintptr_t>(this + 1),
                         progress_->cache->reads.empty());
  listen(*progress_);
}

}  // namespace reel::detail
