// SPDX-License-Identifier: BSD-3-Clause
#include <reel/tape.hpp>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include <reel/autocast.hpp>
#include <reel/ops.hpp>

#include "autograd/completion.hpp"
#include "autograd/late_tapes.hpp"
#include "autograd/lookups.hpp"
#include "autograd/playing.hpp"
#include "autograd/unconnected.hpp"
#include "lib/body/room.hpp"
#include "lib/flow/observer.hpp"
#include "lib/flow/redirect.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/recording.hpp"
#include "lib/pool/process.hpp"
#include "lib/table/backend.hpp"

namespace reel {
namespace {
FlowReel& reel_of(void* reel) { return *static_cast<FlowReel*>(reel); }

/// The marks of the target and of the upstream gradient.
[[gnu::noinline]] void read_marks(Context& context, const Body& target, const Body* upstream,
                                  std::uint64_t tape, Caller caller, ResultMarks& marks) {
  const std::uint64_t active = context.reel->active;
  marks.read(context, target, "gradient", caller);
  marks.check(context, active | tape, "gradient", "target", caller);
  if (!upstream) return;
  marks.read(context, *upstream, "gradient", caller);
  marks.check(context, active & ~tape, "gradient", "upstream", caller);
}
}  // namespace

void fail_thread(std::string_view what, Caller caller) {
  fail<TapeError>(caller, what, "tape", "the thread that made the tape", "another thread");
}

[[noreturn, gnu::noinline]] static void fail_batched(Caller caller) {
  fail<TapeError>(caller, "GradientTape", "tape", "one around batched(), parallel() or vmap()",
                  "one inside of their function",
                  "It follows all examples. For a gradient of each, use a loop or "
                  "batch_jacobian().");
}

GradientTape::GradientTape(TapeOptions options, Caller caller) try : options_(options) {
  Context& context = Context::here();
  if (context.refuses_tapes) [[unlikely]]
    fail_batched(caller);
  FlowReel& reel = *context.reel;
  reel_ = &reel;
  close_tapes_ended_elsewhere(context);
  bit_ = reel.open_tape(options.watch_variables);
  if (!bit_)
    fail<TapeError>(caller, "GradientTape", "tapes", "at most 64 alive on a thread", "one more");
  context.update_recording();
  if (reel.alive == bit_) announce_tape(context);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "GradientTape");
}

GradientTape::~GradientTape() {
  if (pauses_) {
    const Locked held(Lock::contexts);
    for (Pause* pause = pauses_; pause; pause = pause->next_) pause->tape_ = nullptr;
  }
  if (!spent_) close_tape(reel_of(reel_), bit_);
}

void GradientTape::watch(const Tensor& x, Caller caller) try {
  Body* body = Access::body(Redirect::read_tensor(Context::here(), x));
  if (!body) fail<Error>(caller, "watch", "x", "a tensor", "an undefined Tensor");
  if (!is_floating(body->dtype))
    fail<DTypeError>(caller, "watch", "x", "a floating dtype", name_of(body->dtype));
  Context& context = own_context(reel_, "watch", caller);
  if (!spent_) context.reel->watch(body, nullptr, bit_, context.caller_of(caller));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "watch");
}
void GradientTape::watch(const Variable& x, Caller caller) try {
  if (!is_floating(x.dtype()))
    fail<DTypeError>(caller, "watch", "x", "a floating dtype", name_of(x.dtype()));
  Context& context = own_context(reel_, "watch", caller);
  if (spent_) return;
  context.reel->watch(Access::body(read_variable(context, x)), &Access::cell(x), bit_,
                      context.caller_of(caller));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "watch");
}

GradientTape::Pause GradientTape::pause(Caller caller) { return Pause(*this, caller); }
GradientTape::Pause::Pause(GradientTape& tape, Caller caller) : tape_(&tape) {
  Context& context = own_context(tape.reel_, "pause", caller);
  const Locked held(Lock::contexts);
  next_ = std::exchange(tape.pauses_, this);
  context.reel->open &= ~tape.bit_;
  context.reel->paused |= tape.bit_;
  context.update_recording();
}
GradientTape::Pause::~Pause() {
  const Locked held(Lock::contexts);
  if (tape_) tape_->end_pause(*this);
}
void GradientTape::end_pause(Pause& pause) {
  Pause** link = &pauses_;
  while (*link != &pause) link = &(*link)->next_;
  *link = pause.next_;
  if (pauses_ || spent_) return;
  if (!Context::current() || reel_ != Context::current()->reel) {
    __atomic_store_n(&pause_ended_elsewhere_, true, __ATOMIC_RELAXED);
    return;
  }
  Context::here().reel->open |= bit_;
  Context::here().update_recording();
}

void GradientTape::truncate(std::int64_t steps, Caller caller) try {
  Reel& reel = *own_context(reel_, "truncate", caller).reel;
  if (steps < 1) fail<Error>(caller, "truncate", "steps", "a number from 1 on", to_text(steps));
  require_unspent("truncate", caller);
  if (reel.playing & bit_)
    fail<TapeError>(caller, "truncate", "tape", "one outside of its gradient()", "one inside");
  tell_interceptors("it calls truncate()");
  reel.begin_step(bit_, static_cast<std::size_t>(steps));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "truncate");
}

Tensor GradientTape::gradient(Operand target, GradientSource source, GradientOptions options) {
  Tensor result;
  gradients(target, GradientSources(source), options, &result);  // a braced list would copy it
  return result;
}
Tensor GradientTape::gradient(Operand target, GradientSource source, Unconnected unconnected) {
  return gradient(target, source, GradientOptions{.unconnected = unconnected});
}
std::vector<Tensor> GradientTape::gradient(Operand target, GradientSources sources,
                                           GradientOptions options) {
  auto results = room_for<Tensor>(sources.size(), target.caller(), "gradient");
  results.resize(sources.size());
  gradients(target, sources, options, results.data());
  return results;
}
std::vector<Tensor> GradientTape::gradient(Operand target, GradientSources sources,
                                           Unconnected unconnected) {
  return gradient(target, sources, GradientOptions{.unconnected = unconnected});
}

namespace {
[[noreturn, gnu::cold]] void fail_undefined_source(std::size_t i, Caller caller) {
  fail<Error>(caller, "gradient", "source " + to_text(i), "a tensor", "an undefined Tensor");
}
inline void check_source(const GradientSource& source, std::size_t i, Caller caller) {
  if (source.tensor() && !source.tensor()->defined()) [[unlikely]]
    fail_undefined_source(i, caller);
}

[[noreturn, gnu::cold]] void fail_spent(std::string_view what, bool inside, Caller caller) {
  fail<TapeError>(caller, what, "tape", "one call of gradient() on a tape that is not persistent",
                  inside               ? "another call inside its own gradient()"
                  : what == "gradient" ? "another call"
                                       : Text(what) + "() after it",
                  "Make it GradientTape tape({.persistent = true}).");
}
}  // namespace

void GradientTape::require_unspent(std::string_view what, Caller caller) const {
  const bool inside = reel_of(reel_).playing & bit_;
  if (spent_ || (inside && !options_.persistent)) [[unlikely]]
    fail_spent(what, inside, caller);
}

namespace {
/// Throws TapeError for a source that the tape does not know, while the tape has all its records.
inline void require_known(const AskedTarget& target, Context& context,
                          const GradientSources& sources,
                          const SmallVector<SourceValue, 16>& places, Caller caller) {
  if (sources.size() == 1 && places.size() > 0) [[likely]]
    return;
  std::uint64_t known = 0;  // of the first 64 sources
  for (const SourceValue& place : places)
    if (place.source < 64) known |= std::uint64_t{1} << place.source;
  const std::size_t unknown = static_cast<std::size_t>(std::countr_one(known));
  if (unknown < std::min<std::size_t>(sources.size(), 64)) [[unlikely]]
    unconnected_source(context, target, sources[unknown], unknown, caller);
}
}  // namespace

void GradientTape::gradients(const Operand& target, const GradientSources& sources,
                             const GradientOptions& options, Tensor* out, bool may_miss,
                             detail::Lookups* lookups) try {
  const Caller caller = target.caller();
  Context& context = own_context(reel_, "gradient", caller);
  require_unspent("gradient", caller);
  if (__atomic_load_n(&pause_ended_elsewhere_, __ATOMIC_RELAXED))
    fail<TapeError>(caller, "gradient", "tape", "pauses that end on the thread that made the tape",
                    "one that ended on another thread");
  if (target.kind() == Operand::Kind::scalar)
    fail<TapeError>(caller, "gradient", "target", "a tensor", "a number");
  for (std::size_t i = 0; i < sources.size(); ++i) check_source(sources[i], i, caller);
  const Operand asked = read_target(context, target);
  Body* body = body_of(asked);
  if (!body) fail<Error>(caller, "gradient", "target", "a tensor", "an undefined Tensor");
  if (!is_floating(body->dtype))
    fail<DTypeError>(caller, "gradient", "target", "a floating dtype", name_of(body->dtype));

  std::optional<BackwardEvents> own_events;
  std::optional<BackwardEvents>& events = lookups ? lookups->events : own_events;
  events.emplace(context, *body);
  // If the target is a Variable, reading it makes a leaf of it, while the tape still records.
  const Origin origin = origin_of(context, asked, body);
  FlowReel& reel = *context.reel;
  std::uint32_t record = origin.record;
  if (record != no_record && !((reel[record].tapes | reel[record].watchers) & bit_))
    record = no_record;
  ResultMarks marks;
  if (context.is_watchful())
    read_marks(context, *body, Access::body(options.upstream), bit_, caller, marks);
  const std::uint32_t start = reel.start_of(bit_);
  const bool recorded = record != no_record && record >= start;
  SmallVector<SourceValue, 16> places;
  if (recorded) {
    find_sources(reel, sources, bit_, start, places);
    if (options.upstream.defined()) check_upstream(*body, options.upstream, caller);
  }
  if (options.unconnected == Unconnected::error && !may_miss && !lookups)
    require_known({bit_, start, record, body}, context, sources, places, caller);
  // From here on, saved values are freed as the records are played, so the tape is spent even if a
  // rule throws. A gradient function may destroy the tape, so the code after play() must check this
  // before it reads the tape.
  struct End {
    GradientTape* tape;
    FlowReel& reel;
    std::uint64_t bit;
    bool outermost;
    ~End() {
      if (outermost) reel.playing &= ~bit;
      if (!(reel.ended & bit)) {
        if (!tape->options_.persistent) tape->spend();
      } else if (outermost) {
        reel.ended &= ~bit;
        close_tape(reel, bit);
      }
    }
  } const end{this, reel, bit_, !(reel.playing & bit_)};
  reel.playing |= bit_;
  if (recorded) {
    std::optional<LateTapes> late;
    if (reel.active & ~bit_) [[unlikely]]
      late.emplace().find(context, bit_, start, record);
    const PlaybackScope scope(context, bit_);
    std::optional<AutocastScope> as_recorded;
    if (context.mode & autocasts) [[unlikely]]
      as_recorded.emplace(AutocastOptions{DType::float32});
    Playback playback(context, marks, bit_, start, record, options_.persistent, caller);
    if (lookups) lookups->find(reel, bit_, start, record, sources, places, caller);
    for (const SourceValue& place : places) playback.request(place.value);
    if (lookups) lookups->request(playback);
    playback.ignore_other_leaves();
    playback.begin(origin.value, options.upstream.defined()
                                     ? options.upstream.to(body->dtype, caller)
                                     : ones_alike(context, *body, caller));
    if (Completed::is_awaited(context, options)) [[unlikely]] {
      Completion(playback, sources.size(), {places.data(), places.size()})
          .play({context, sources, options, out, caller}, marks, late ? &*late : nullptr);
    } else {
      playback.play_rest();
      for (const SourceValue& place : places)
        playback.take_requested(place.value, out[place.source]);
      if (late) late->mark(context, out, sources.size(), caller);
    }
    if (lookups) lookups->take(playback, context, marks, caller);
  }
  if (reel.ended & end.bit) [[unlikely]]
    fail<TapeError>(caller, "gradient", "tape", "a tape that lives until gradient() has ended",
                    "one that was destroyed inside one of its gradient functions");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (out[i].defined() || may_miss || (lookups && lookups->has(i))) continue;
    if (options.unconnected == Unconnected::none) continue;
    if (options.unconnected == Unconnected::error)
      unconnected_source(context, {bit_, start, record, body}, sources[i], i, caller);
    out[i] = sources[i].variable() ? zeros_like(Operand(*sources[i].variable(), caller))
                                   : zeros_like(Operand(*sources[i].tensor(), caller));
    if (Completed::is_awaited(context, options))
      Completed(context, sources, options, out, caller)(i, marks, nullptr);
  }
  if (marks)
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (out[i].defined()) marks.mark(context, out[i], caller);
  if (!lookups) events->end();
} catch (const std::bad_alloc&) {
  fail_memory(target.caller(), "gradient");
}

void GradientTape::spend() {
  spent_ = true;
  close_tape(reel_of(reel_), std::exchange(bit_, 0));
}

namespace {
Shape shape_of(const GradientSource& source) {
  return source.variable() ? source.variable()->shape() : source.tensor()->shape();
}
/// The upstream gradient that chooses element i of each of so many parts of the target.
Tensor choose(std::int64_t i, std::int64_t parts, const Tensor& y, Caller caller) {
  const std::int64_t each = y.size() / parts;
  const Tensor chosen = one_hot(Operand(i, caller), each, y.dtype());
  return broadcast_to(Operand(chosen.reshape({1, each}, caller), caller), {parts, each})
      .reshape(y.shape(), caller);
}
Shape joined(const Shape& first, std::span<const std::int64_t> second, Caller caller) {
  SmallVector<std::int64_t, 2 * Shape::max_rank> lengths;
  for (const std::int64_t length : first) lengths.push_back(length);
  for (const std::int64_t length : second) lengths.push_back(length);
  return Shape(std::span<const std::int64_t>(lengths.data(), lengths.size()), caller);
}
}  // namespace

/// The gradients of element i of each of so many parts of the target: a row for each i.
std::vector<Tensor> GradientTape::rows(const Tensor& y, GradientSource source,
                                       Unconnected unconnected, std::int64_t parts, Caller caller) {
  // Each row is a gradient(); the tape may be destroyed inside one, which ends that with an error.
  struct Persistence {
    GradientTape* tape;
    const Reel& reel;
    std::uint64_t bit;
    bool before;
    ~Persistence() {
      if (reel.alive & ~reel.ended & bit) tape->options_.persistent = before;
    }
  };
  const Persistence persistence{this, reel_of(reel_), bit_,
                                std::exchange(options_.persistent, true)};
  const std::int64_t count = parts > 0 ? y.size() / parts : 0;
  auto found = room_for<Tensor>(static_cast<std::size_t>(count), caller, "gradient");
  for (std::int64_t i = 0; i < count; ++i)
    found.push_back(
        gradient(Operand(y, caller), source, {choose(i, parts, y, caller), unconnected}));
  return found;
}

Tensor GradientTape::jacobian_target(const Operand& target, GradientSource source,
                                     std::string_view name) {
  const Caller caller = target.caller();
  if (target.kind() == Operand::Kind::scalar || !body_of(target))
    fail<TapeError>(caller, name, "target", "a tensor", "something else");
  check_source(source, 0, caller);
  own_context(reel_, name, caller);
  require_unspent(name, caller);
  return Access::share(body_of(target));
}

Tensor GradientTape::jacobian(Operand target, GradientSource source, Unconnected unconnected) {
  const Caller caller = target.caller();
  const FunctionScope scope(caller, "jacobian");
  const Tensor y = jacobian_target(target, source, "jacobian");
  const PlaceScope place(Context::here(), y.device());
  const Shape x = shape_of(source);
  const Shape shape = joined(y.shape(), {x.begin(), x.end()}, caller);
  const std::vector<Tensor> found = rows(y, source, unconnected, 1, caller);
  if (found.empty()) return zeros(shape, {.dtype = y.dtype()}, caller);
  return reshape(Operand(stack(Operands(found, caller)), caller), shape);
}

Tensor GradientTape::batch_jacobian(Operand target, GradientSource source,
                                    Unconnected unconnected) {
  const Caller caller = target.caller();
  const FunctionScope scope(caller, "batch_jacobian");
  const Tensor y = jacobian_target(target, source, "batch_jacobian");
  const PlaceScope place(Context::here(), y.device());
  const Shape x = shape_of(source);
  if (y.rank() < 1 || x.rank() < 1 || y.shape()[0] != x[0])
    fail<ShapeError>(caller, "batch_jacobian", "target",
                     "a first axis like the source " + to_text(x), to_text(y.shape()));
  const Shape shape = joined(y.shape(), {x.begin() + 1, x.end()}, caller);
  const std::vector<Tensor> found = rows(y, source, unconnected, x[0], caller);
  if (found.empty()) return zeros(shape, {.dtype = y.dtype()}, caller);
  // A row has the shape of the source: the batch comes first in each.
  const auto count = static_cast<std::int64_t>(found.size());
  const Tensor all = stack(Operands(found, caller)).reshape({count, x[0], -1}, caller);
  return reshape(Operand(transpose(Operand(all, caller), {1, 0, 2}), caller), shape);
}

std::vector<RecordedOp> GradientTape::ops(Caller caller) const try {
  Reel& reel = *own_context(reel_, "ops", caller).reel;
  std::vector<RecordedOp> list;
  if (spent_) return list;
  for (std::uint32_t i = reel.start_of(bit_); i < reel.size(); ++i) {
    const Record& record = reel[i];
    if (!(record.tapes & bit_)) continue;
    RecordedOp op{
        std::string(record.op->name), record.file ? record.file : "", record.line, {}, {}, {}};
    for (int k = 0; k < record.listed_count(); ++k) op.inputs.push_back(*record.inputs[k].shape);
    for (int k = 0; k < record.output_count(); ++k) op.outputs.push_back(*record.outputs[k].shape);
    if (record.options_type)
      op.options = to_string(OptionsView(record.options_type, record.options));
    list.push_back(std::move(op));
  }
  return list;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "ops");
}
}  // namespace reel
