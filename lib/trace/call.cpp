// SPDX-License-Identifier: BSD-3-Clause
// One call of a traced function: replayed, run and captured, run beside a replay, or just run.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/dispatch/call_kernel.hpp"
#include "lib/dispatch/call_view.hpp"
#include "lib/dispatch/crossing.hpp"
#include "lib/dispatch/process.hpp"
#include "lib/trace/book.hpp"
#include "lib/trace/replay.hpp"

namespace reel::detail {
enum class Doing : std::uint8_t { eager, replaying, capturing, verifying };

struct TraceProgress {
  TraceBook* book = nullptr;
  Caller caller;
  Doing doing = Doing::eager;
  Key key;
  std::vector<Tensor*> arguments;                  // each tensor once
  std::vector<std::pair<Tensor*, Tensor*>> again;  // and where it comes again
  std::vector<const Variable*> variables;
  std::vector<Tensor> results;
  TraceEntry* entry = nullptr;
  std::optional<tracing::Replay> replay;
  const tracing::Ending* replayed = nullptr;
  std::optional<tracing::Tracer> tracer;
  std::optional<StageScope> scope;
  std::shared_ptr<tracing::KeptResult> result;
  bool result_shared = false, differs = false;
  // What a replay gave, of which nothing was committed.
  std::shared_ptr<tracing::Ending> ending;
  std::vector<Tensor> expected;
  std::vector<std::pair<Variable, Tensor>> assigned;
  std::uint64_t position = 0;
  std::uint64_t crossings = 0;  // of the thread, before a capture
  TraceProgress* next = nullptr;

  void clear() {
    replay.reset();
    key.clear();
    arguments.clear();
    again.clear();
    variables.clear();
    if (std::exchange(doing, Doing::eager) == Doing::replaying) return;
    scope.reset();
    tracer.reset();
    results.clear();
    entry = nullptr;
    result.reset();
    result_shared = differs = false;
    ending.reset();
    expected.clear();
    assigned.clear();
  }
};

namespace {
/// Kept for the next call: a call inside a call takes another.
struct SpareProgress {
  TraceProgress* first = nullptr;
  ~SpareProgress() {
    while (first) delete std::exchange(first, first->next);
  }
};
constinit thread_local OfThread<SpareProgress> spare;

TraceProgress* take_progress() {
  TraceProgress*& first = spare.get().first;
  if (first) return std::exchange(first, first->next);
  auto made = std::make_unique<TraceProgress>();
  made->key.reserve(8);  // its begin needs no memory then
  return made.release();
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}
std::uint64_t hash_of(const Key& key) {
  std::uint64_t hash = 0;
  for (const std::uint64_t word : key) hash = mix(hash, word);
  return hash;
}
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

std::string signature_of(const TraceProgress& call) {
  std::string text = "(";
  for (const Tensor* x : call.arguments)
    text += (text.size() > 1 ? ", " : "") + std::string(name_of(x->dtype())) + to_text(x->shape());
  return text + (Context::here().training ? "), training" : "), evaluating");
}

/// A replay need not round as a run does: it adds up gradients in another order.
constexpr double tolerance = 1e-4;

template <class T>
bool close(const T* a, const T* b, std::int64_t n) {
  double most = 0;
  for (std::int64_t i = 0; i < n; ++i)
    if (std::isfinite(b[i])) most = std::max(most, std::abs(static_cast<double>(b[i])));
  for (std::int64_t i = 0; i < n; ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= tolerance * most))
      return false;
  }
  return true;
}

bool alike(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const Tensor x = contiguous_copy(*Access::body(a)), y = contiguous_copy(*Access::body(b));
  const Body &p = *Access::body(x), &q = *Access::body(y);
  if (p.dtype != q.dtype || !(p.shape == q.shape)) return false;
  if (p.dtype == DType::float32) return close(p.as<float>(), q.as<float>(), p.elements);
  if (p.dtype == DType::float64) return close(p.as<double>(), q.as<double>(), p.elements);
  return !std::memcmp(p.data, q.data, static_cast<std::size_t>(p.bytes()));
}

bool as_expected(const TraceProgress& call) {
  if (call.differs || call.results.size() != call.expected.size()) return false;
  for (std::size_t i = 0; i < call.results.size(); ++i)
    if (!alike(call.expected[i], call.results[i])) return false;
  for (const auto& [variable, value] : call.assigned)
    if (!alike(value, Access::cell(variable).value)) return false;
  return current_generator().position() == call.position;
}

void warn(TraceProgress& call, const std::string& why) {
  if (call.book->warned.exchange(true)) return;
  std::fprintf(stderr, "reel: %s:%u: a traced function runs eagerly: %s\n",
               call.caller.file ? call.caller.file : "?", call.caller.line, why.c_str());
}
void warn(TraceProgress& call) {
  const Locked held(Lock::traces);
  warn(call, call.entry->trouble);
}

void finish_capture(TraceProgress& call) {
  call.scope.reset();
  tracing::Capture way = call.tracer->finish(call.results);
  way.result = std::move(call.result);
  if (call.crossings != Context::here().crossings) return;  // a replay would pass no marks on
  const char* trouble =
      call.result_shared ? "copies of its result share what it points at" : call.tracer->trouble();
  if (trouble ? !call.entry->skip(trouble) : !call.entry->publish(way)) warn(call);
}

/// The run must have gone the way of the replay, and come to the same.
void finish_verification(TraceProgress& call) {
  call.scope.reset();
  const tracing::Capture way = call.tracer->finish(call.results);
  bool holds = true;
  if (call.tracer->trouble())
    holds = call.entry->restart(call.tracer->trouble());
  else if (!call.entry->knows(way))
    holds = call.entry->restart("it took another way although no value that it read was another");
  else if (!as_expected(call))
    holds = call.entry->restart(
        "its first replay gave another result than a run: it uses something besides its arguments, "
        "Variables and random numbers that has changed");
  else
    call.ending->verified = true;
  if (!holds) warn(call);
}
}  // namespace

TraceCall::TraceCall(Traces traces, Caller caller) try
    : traces_(traces), progress_(take_progress()) {
  progress_->book = &traces_.book();
  progress_->caller = caller;
  progress_->key.push_back(registrations() << 1 | Context::here().training);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "trace");
}
TraceCall::~TraceCall() {
  progress_->clear();
  progress_->next = std::exchange(spare.get().first, progress_);
}

void TraceCall::begin_argument() { progress_->key.push_back(~std::uint64_t{0}); }
void TraceCall::add_tensor(std::string_view path, Tensor& x) {
  Key& key = progress_->key;
  const Body* body = Access::body(x);
  if (!path.empty()) key.push_back(hash_of(path));
  if (!body) return key.push_back(~std::uint64_t{1});
  key.push_back(static_cast<std::uint64_t>(body->dtype) | body->shape.rank() << 8 |
                std::uint64_t{body->device_kind} << 16 |
                std::uint64_t{static_cast<std::uint8_t>(body->device_index)} << 24);
  for (const std::int64_t length : body->shape) key.push_back(static_cast<std::uint64_t>(length));
  // One tensor in two places is one value, as it is for a tape. Looked for among a few only.
  auto& before = progress_->arguments;
  for (std::size_t i = 0; i < std::min<std::size_t>(before.size(), 16); ++i)
    if (Access::body(*before[i]) == body) {
      progress_->again.emplace_back(&x, before[i]);
      return key.push_back(~std::uint64_t{2} - i);
    }
  before.push_back(&x);
}
void TraceCall::add_variable(std::string_view path, const Variable& x) {
  progress_->key.push_back(hash_of(path));
  progress_->key.push_back(reinterpret_cast<std::uintptr_t>(&Access::cell(x)));
  progress_->variables.push_back(&x);
}
void TraceCall::add_plain(std::string_view path, std::string_view bytes) {
  Key& key = progress_->key;
  key.push_back(hash_of(path));
  key.push_back(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<std::size_t>(8, bytes.size() - i));
    key.push_back(word);
  }
}

namespace {
/// The ending of a replay that can be committed. Else null, and the function is to be run: as a
/// check if there was a replay, else to be captured.
const tracing::Ending* replay_plan(TraceProgress& call, Context& context, tracing::Plan& plan) {
  try {
    call.replay.emplace(context, plan);
  } catch (const MemoryError&) {  // a run needs less at a time
    return nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  for (std::size_t i = 0; i < call.arguments.size(); ++i)
    call.replay->argument(static_cast<int>(i), *call.arguments[i]);
  const tracing::Ending* const ending = call.replay->run();
  if (!ending || ending->verified.load(std::memory_order_relaxed)) return ending;
  for (const int result : ending->results) call.expected.push_back(call.replay->result(result));
  for (const auto& [variable, value] : ending->assigned)
    call.assigned.emplace_back(plan.tree.variables[static_cast<std::size_t>(variable)],
                               call.replay->assigned(variable));
  call.position = call.replay->position();
  call.ending = std::const_pointer_cast<tracing::Ending>(ending->shared_from_this());
  call.doing = Doing::verifying;
  return nullptr;
}

bool may_cross_any(const Context& context, const TraceProgress& call) {
  for (const Tensor* x : call.arguments)
    if (may_cross(context, *Access::body(*x))) return true;
  const tracing::Plan* plan = call.entry->plan.load(std::memory_order_acquire);
  if (!plan) return false;
  for (const Variable& variable : plan->tree.variables)
    if (may_cross(context, *Access::body(Access::cell(variable).value))) return true;
  for (const tracing::Value& value : plan->tree.values)
    if (value.constant.defined() && may_cross(context, *Access::body(value.constant))) return true;
  return false;
}

/// From here on ops are written down. Each argument gets a header of its own: whoever else has the
/// tensor has a constant.
void listen(TraceProgress& call) {
  call.tracer.emplace();
  for (Tensor* x : call.arguments) {
    Body* body = Access::body(*x);
    *x = body->contiguous ? tracing::named_apart(*x) : contiguous_copy(*body);
    call.tracer->argument(*x);
  }
  for (const auto& [again, first] : call.again) *again = *first;
  call.scope.emplace(*call.tracer);
}
}  // namespace

const void* TraceCall::replay() try {
  TraceProgress& call = *progress_;
  Context& context = Context::here();
  if (context.mode) return nullptr;  // a tape or a stage is to see every op
  const std::uint64_t hash = hash_of(call.key);
  call.entry = call.book->find(call.key, hash);
  if (!call.entry)
    call.entry = call.book->find_or_add(call.key, hash, call.variables, signature_of(call));
  if (!call.entry) {
    warn(call, "it has been called with more than 1024 signatures");
    return nullptr;
  }
  if (call.entry->eager.load(std::memory_order_relaxed)) return nullptr;
  if (context.is_watchful() && may_cross_any(context, call)) return nullptr;
  call.crossings = context.crossings;
  if (tracing::Plan* plan = call.entry->plan.load(std::memory_order_acquire)) {
    if (const tracing::Ending* ending = replay_plan(call, context, *plan)) {
      call.replay->commit();
      call.doing = Doing::replaying;
      call.replayed = ending;
      return ending->result ? ending->result->object : ending;
    }
    if (!call.replay) return nullptr;
    call.replay.reset();
  }
  if (call.doing != Doing::verifying) call.doing = Doing::capturing;
  listen(call);
  return nullptr;
} catch (const std::bad_alloc&) {
  fail_memory(progress_->caller, "trace");
}

Tensor TraceCall::take_result(std::size_t i) {
  return progress_->replay->result(progress_->replayed->results[i]);
}
void TraceCall::add_result(const Tensor& x) {
  if (progress_->doing != Doing::eager) progress_->results.push_back(x);
}
bool TraceCall::captures() const { return progress_->doing == Doing::capturing; }
const void* TraceCall::checked_against() const {
  return progress_->doing == Doing::verifying ? progress_->ending->result->object : nullptr;
}
void TraceCall::differs() { progress_->differs = true; }
void TraceCall::keep_result(void* copy, void (*free)(void*)) {
  std::unique_ptr<void, void (*)(void*)> owned(copy, free);
  progress_->result = std::make_shared<tracing::KeptResult>(copy, free);
  owned.release();
}
void TraceCall::keep_nothing() { progress_->result_shared = true; }

void TraceCall::finish() try {
  if (progress_->doing == Doing::capturing) finish_capture(*progress_);
  if (progress_->doing == Doing::verifying) finish_verification(*progress_);
} catch (const std::bad_alloc&) {  // the next call captures, or checks, again
} catch (const MemoryError&) {
}
}  // namespace reel::detail
