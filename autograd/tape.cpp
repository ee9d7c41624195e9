// SPDX-License-Identifier: BSD-3-Clause
#include <reel/tape.hpp>

#include <algorithm>
#include <utility>

#include <reel/ops.hpp>

#include "autograd/completion.hpp"
#include "autograd/playback.hpp"
#include "autograd/unconnected.hpp"
#include "lib/body/dtypes.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/recording.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace {
FlowReel& reel_of(void* reel) { return *static_cast<FlowReel*>(reel); }
[[noreturn, gnu::cold]] void fail_thread(std::string_view what, Caller caller) {
  fail<TapeError>(caller, what, "tape", "the thread that made the tape", "another thread");
}
/// For calls that only the thread that made the tape may make, in the flow that made it.
inline Context& own_context(void* reel, std::string_view what, Caller caller) {
  Context& context = Context::here();
  if (reel != context.reel) [[unlikely]]
    fail_thread(what, caller);
  return context;
}

/// This tape does not record, and errors speak of the records being played, while it lives.
class PlaybackScope {
 public:
  PlaybackScope(Context& context, std::uint64_t tape)
      : context_(context),
        muted_(tape & ~context.reel->muted),
        site_(context.site),
        names_(context.site_name.empty()) {
    if (names_) context_.site_name = "gradient";
    context_.reel->muted |= tape;
    context_.update_recording();
  }
  ~PlaybackScope() {
    context_.reel->muted &= ~muted_;
    context_.update_recording();
    context_.site = site_;
    if (names_) context_.site_name = {};
  }
  PlaybackScope(const PlaybackScope&) = delete;
  PlaybackScope& operator=(const PlaybackScope&) = delete;

 private:
  Context& context_;
  std::uint64_t muted_;
  Caller site_;
  bool names_;
};

Tensor ones_alike(Context& context, const Body& like, Caller caller) {
  Body* ones = allocate(context, like.dtype, like.shape, like.elements);
  if (!ones) fail<MemoryError>(caller, "gradient", "upstream", "memory", "none from the system");
  with_element(like.dtype,
               [&]<class T>(Type<T>) { std::fill_n(ones->as<T>(), like.elements, T(1)); });
  Tensor result = Access::adopt(ones);
  if (!on_cpu(like)) [[unlikely]]
    result = copy_to(*ones, device_of(like), caller);
  return result;
}

Tensor upstream_for(Context& context, const Body& like, const Tensor& upstream, Caller caller) {
  if (!upstream.defined()) return ones_alike(context, like, caller);
  if (!(upstream.shape() == like.shape))
    fail<ShapeError>(caller, "gradient", "upstream", "the target's shape " + to_text(like.shape),
                     to_text(upstream.shape()));
  const Device device = device_of(like);
  if (!(upstream.device() == device))
    fail<DeviceError>(caller, "gradient", "upstream", "a tensor on the target's " + to_text(device),
                      "one on " + to_text(upstream.device()));
  return upstream.to(like.dtype, caller);
}

/// The marks of what gradient() of a tape starts with.
[[gnu::noinline]] void read_marks(Context& context, const Body& target, const Body* upstream,
                                  std::uint64_t tape, Caller caller, Crossings& crossings) {
  const std::uint64_t active = context.reel->active;
  crossings.read(context, target, "gradient", caller);
  crossings.check(context, active | tape, "gradient", "target", caller);
  if (!upstream) return;
  crossings.read(context, *upstream, "gradient", caller);
  crossings.check(context, active & ~tape, "gradient", "upstream", caller);
}
}  // namespace

GradientTape::GradientTape(TapeOptions options, Caller caller) try : options_(options) {
  Context& context = Context::here();
  reel_ = context.reel;
  close_tapes_ended_elsewhere(context);
  bit_ = context.reel->open_tape(options.watch_variables);
  if (!bit_)
    fail<TapeError>(caller, "GradientTape", "tapes", "at most 64 alive on a thread", "one more");
  context.update_recording();
  if (context.reel->alive == bit_) announce_tape(context);
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
  Body* body = Access::body(x);
  if (!body) fail<Error>(caller, "watch", "x", "a tensor", "an undefined Tensor");
  if (!is_floating(body->dtype))
    fail<DTypeError>(caller, "watch", "x", "a floating dtype", std::string(name_of(body->dtype)));
  Context& context = own_context(reel_, "watch", caller);
  if (!spent_) context.reel->watch(body, nullptr, bit_, context.site_of(caller));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "watch");
}
void GradientTape::watch(const Variable& x, Caller caller) try {
  if (!is_floating(x.dtype()))
    fail<DTypeError>(caller, "watch", "x", "a floating dtype", std::string(name_of(x.dtype())));
  Context& context = own_context(reel_, "watch", caller);
  if (spent_) return;
  context.reel->watch(Access::body(read_variable(context, x)), &Access::cell(x), bit_,
                      context.site_of(caller));
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

Tensor GradientTape::gradient(Operand target, GradientSource source, GradientOptions options) {
  Tensor result;
  gradients(target, GradientSources(source), options, &result);  // a braced list would copy it
  return result;
}
Tensor GradientTape::gradient(Operand target, GradientSource source, Unconnected unconnected) {
  return gradient(target, source, GradientOptions{.unconnected = unconnected});
}
std::vector<Tensor> GradientTape::gradient(Operand target, GradientSources sources,
                                           GradientOptions options) try {
  std::vector<Tensor> results(sources.size());
  gradients(target, sources, options, results.data());
  return results;
} catch (const std::bad_alloc&) {
  fail_memory(target.caller(), "gradient");
}
std::vector<Tensor> GradientTape::gradient(Operand target, GradientSources sources,
                                           Unconnected unconnected) {
  return gradient(target, sources, GradientOptions{.unconnected = unconnected});
}

namespace {
[[noreturn, gnu::cold]] void fail_undefined_source(std::size_t i, Caller caller) {
  fail<Error>(caller, "gradient", "source " + std::to_string(i), "a tensor", "an undefined Tensor");
}
inline void check_source(const GradientSource& source, std::size_t i, Caller caller) {
  if (source.tensor() && !source.tensor()->defined()) [[unlikely]]
    fail_undefined_source(i, caller);
}

/// Tells observers that a backward pass begins, and that it has ended, however it does.
class BackwardEvents {
 public:
  BackwardEvents(Context& context, const Body& target)
      : context_(context), told_(context.mode & observed) {
    if (told_) tell_backward_begin(context, target);
  }
  ~BackwardEvents() {
    if (told_) tell_backward_end(context_, false);
  }
  BackwardEvents(const BackwardEvents&) = delete;
  BackwardEvents& operator=(const BackwardEvents&) = delete;
  void end() {
    if (std::exchange(told_, false)) tell_backward_end(context_, true);
  }

 private:
  Context& context_;
  bool told_;
};

/// Where the sources stand on the reel.
void find_sources(Reel& reel, const GradientSources& sources, std::uint64_t tape,
                  std::uint32_t start, SmallVector<SourceValue, 16>& places) {
  SmallVector<std::pair<const Cell*, std::size_t>, 16> cells;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].variable()) {
      cells.push_back({&Access::cell(*sources[i].variable()), i});
      continue;
    }
    const Body& body = *Access::body(*sources[i].tensor());
    std::uint32_t record = reel.find(body);
    std::uint32_t value = record == no_record ? 0 : Reel::value_of(body, reel[record]);
    // A leaf that only later tapes watch is the identity for this one: the gradient is below it.
    while (record != no_record && record >= start && reel.is_leaf(record) &&
           !(reel[record].watchers & tape) && reel[record].tapes & tape) {
      value = reel[record].inputs[0].value;
      record = reel[record].inputs[0].record;
    }
    if (record == no_record || record < start) continue;
    const bool played = reel[record].tapes & tape;
    if (played || reel[record].watchers & tape) places.push_back({value, i, played});
  }
  if (cells.size() > 1) std::sort(cells.begin(), cells.end());
  for (const Leaf& leaf : reel.leaves()) {
    if (!leaf.cell || !(reel[leaf.record].watchers & tape)) continue;
    auto* cell = std::lower_bound(cells.begin(), cells.end(),
                                  std::pair<const Cell*, std::size_t>(leaf.cell, 0));
    for (; cell != cells.end() && cell->first == leaf.cell; ++cell)
      places.push_back({reel[leaf.record].first_value, cell->second, false});
  }
}
}  // namespace

namespace {
[[noreturn, gnu::cold]] void fail_spent(std::string_view what, bool inside, Caller caller) {
  fail<TapeError>(caller, what, "tape", "one call of gradient() on a tape that is not persistent",
                  inside ? "another call inside its own gradient()" : "another call",
                  "Make it GradientTape tape({.persistent = true}).");
}
}  // namespace

inline void GradientTape::require_unspent(std::string_view what, Caller caller) const {
  const bool inside = reel_of(reel_).playing & bit_;
  if (spent_ || (inside && !options_.persistent)) [[unlikely]]
    fail_spent(what, inside, caller);
}

void GradientTape::gradients(const Operand& target, const GradientSources& sources,
                             const GradientOptions& options, Tensor* out) try {
  const Caller caller = target.caller();
  Context& context = own_context(reel_, "gradient", caller);
  require_unspent("gradient", caller);
  if (__atomic_load_n(&pause_ended_elsewhere_, __ATOMIC_RELAXED))
    fail<TapeError>(caller, "gradient", "tape", "pauses that end on the thread that made the tape",
                    "one that ended on another thread");
  if (target.kind() == Operand::Kind::scalar)
    fail<TapeError>(caller, "gradient", "target", "a tensor", "a number");
  for (std::size_t i = 0; i < sources.size(); ++i) check_source(sources[i], i, caller);
  Body* body = body_of(target);
  if (!body) fail<Error>(caller, "gradient", "target", "a tensor", "an undefined Tensor");
  if (!is_floating(body->dtype))
    fail<DTypeError>(caller, "gradient", "target", "a floating dtype",
                     std::string(name_of(body->dtype)));

  BackwardEvents events(context, *body);
  // Reading a Variable as the target makes a leaf of it, while the tape still records.
  const Origin origin = origin_of(context, target, body);
  FlowReel& reel = *context.reel;
  std::uint32_t record = origin.record;
  if (record != no_record && !((reel[record].tapes | reel[record].watchers) & bit_))
    record = no_record;
  Crossings crossings;
  if (context.is_watchful())
    read_marks(context, *body, Access::body(options.upstream), bit_, caller, crossings);
  // From here on saved values go as they are passed, so the tape is spent even if a rule throws.
  // A gradient function may destroy the tape: what comes after play() must not read it before it
  // knows.
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
  const std::uint32_t start = reel.start_of(bit_);
  if (record != no_record && record >= start) {
    const PlaybackScope scope(context, bit_);
    Playback playback(context, crossings, bit_, start, record, options_.persistent);
    SmallVector<SourceValue, 16> places;
    find_sources(reel, sources, bit_, start, places);
    for (const SourceValue& place : places) playback.request(place.value);
    playback.ignore_other_leaves();
    playback.begin(origin.value, upstream_for(context, *body, options.upstream, caller));
    const bool told = context.mode & observed;
    if (told)
      Completion(context, playback, sources, {places.data(), places.size()}, out).play();
    else
      playback.play_rest();
    if (!told && !(reel.ended & end.bit))
      for (const SourceValue& place : places)
        playback.take_requested(place.value, out[place.source]);
  }
  if (reel.ended & end.bit)
    fail<TapeError>(caller, "gradient", "tape", "a tape that lives until gradient() has ended",
                    "one that was destroyed inside one of its gradient functions");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (out[i].defined()) continue;
    if (options.unconnected == Unconnected::error)
      unconnected_source(context, {bit_, start, record, body}, sources[i], i, caller);
    out[i] = sources[i].variable() ? zeros_like(Operand(*sources[i].variable(), caller))
                                   : zeros_like(Operand(*sources[i].tensor(), caller));
    if (context.mode & observed) tell_gradient_complete(context, sources[i], i, out[i]);
  }
  if (crossings)
    for (std::size_t i = 0; i < sources.size(); ++i) crossings.mark(context, out[i], caller);
  events.end();
} catch (const std::bad_alloc&) {
  fail_memory(target.caller(), "gradient");
}

void GradientTape::spend() {
  spent_ = true;
  close_tape(reel_of(reel_), std::exchange(bit_, 0));
}

Tensor GradientTape::jacobian(Operand target, GradientSource source, Unconnected unconnected) try {
  const Caller caller = target.caller();
  const FunctionScope scope(caller, "jacobian");
  if (target.kind() == Operand::Kind::scalar || !body_of(target))
    fail<TapeError>(caller, "jacobian", "target", "a tensor", "something else");
  check_source(source, 0, caller);
  Context& context = own_context(reel_, "jacobian", caller);
  require_unspent("jacobian", caller);
  const Tensor y = Access::share(body_of(target));
  const PlaceScope place(context, y.device());
  const Shape x_shape = source.variable() ? source.variable()->shape() : source.tensor()->shape();
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
  std::vector<Tensor> rows;
  {
    const Persistence persistence{this, *context.reel, bit_,
                                  std::exchange(options_.persistent, true)};
    for (std::int64_t i = 0; i < y.size(); ++i) {
      Tensor upstream = one_hot(Operand(i, caller), y.size(), y.dtype()).reshape(y.shape(), caller);
      rows.push_back(gradient(Operand(y, caller), source, {std::move(upstream), unconnected}));
    }
  }
  std::vector<std::int64_t> lengths(y.shape().begin(), y.shape().end());
  lengths.insert(lengths.end(), x_shape.begin(), x_shape.end());
  const Shape shape(lengths, caller);
  if (rows.empty()) return zeros(shape, {.dtype = y.dtype()}, caller);
  return reshape(Operand(stack(Operands(rows, caller)), caller), shape);
} catch (const std::bad_alloc&) {
  fail_memory(target.caller(), "jacobian");
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
    for (int k = 0; k < record.input_count; ++k) op.inputs.push_back(*record.inputs[k].shape);
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
