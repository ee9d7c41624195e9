// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/playback.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <reel/ops.hpp>

#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/reshape.hpp"
#include "lib/table/passes.hpp"

namespace reel {
namespace {
[[gnu::always_inline]] inline Tensor new_gradient(Context& context, const Op& op, Device device,
                                                  DType dtype, const Shape& shape,
                                                  std::int64_t elements) {
  Body* body = device.kind == Device::Kind::cpu
                   ? allocate(context, dtype, shape, elements)
                   : allocate_on(context, device, dtype, shape, elements);
  if (!body)
    fail<MemoryError>({}, op.name, "gradient", "memory for shape " + to_text(shape), "none");
  return Access::adopt(body);
}

/// Whether all elements are one number in memory.
bool is_one_number(const Body& x) {
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape.data()[i] != 1 && x.strides[i] != 0) return false;
  return x.elements > 0;
}

/// A matrix, or its transposed view. Its counts are not copied: other threads
/// write them while they use the same weight.
Body matrix_of(const Body& x, Transposed transposed) {
  Body view;
  view.dtype = x.dtype;
  view.contiguous = x.contiguous;
  view.device_kind = view.device_index = 0;
  view.data = x.data;
  view.elements = x.elements;
  view.shape = x.shape;
  std::memcpy(view.strides, x.strides, sizeof(Strides));
  if (transposed == Transposed::yes) {
    std::swap(view.shape.data()[0], view.shape.data()[1]);
    std::swap(view.strides[0], view.strides[1]);
  }
  return view;
}

/// Whether an interceptor or another tape needs gradients that are made of ops.
bool wants_ops(const Context& context) {
  if (context.path_mode() & ~intercepted) return true;
  for (const Interceptor* each = context.interceptors; each; each = each->next)
    if (!each->takes_gradients()) return true;
  return false;
}
/// See Playback::watched_.
std::uint8_t watchers_of(const Context& context) {
  const bool reports = context.mode & observed && !only_times(context);
  return static_cast<std::uint8_t>(wants_ops(context) | (reports ? 2 : 0));
}
}  // namespace

Playback::Playback(Context& context, ResultMarks& marks, std::uint64_t tape, std::uint32_t start,
                   std::uint32_t target, bool keeps_saved, Caller caller)
    : context_(context),
      marks_(marks),
      tape_(tape),
      start_(start),
      target_(target),
      first_value_((*context.reel)[start].first_value),
      played_(target + 1),
      keeps_saved_(keeps_saved),
      watched_(context.mode ? watchers_of(context) : 0),
      caller_(context.caller_of(caller)) {
  const Record& last = (*context.reel)[target];
  slots_.resize(last.first_value + static_cast<std::uint32_t>(last.output_count()) - first_value_);
}

void Playback::ignore_other_leaves() {
  for (const Leaf& leaf : context_.reel->leaves()) {
    const Record& record = (*context_.reel)[leaf.record];
    if (!(record.watchers & tape_)) continue;
    Slot* slot = slot_of(record.first_value);
    if (slot && !slot->requests) slot->requests = Slot::ignored;
  }
}

void Playback::take_requested(std::uint32_t value, Tensor& to, bool is_needed) {
  Slot* found = slot_of(value);
  if (!found) return;
  const bool last = !is_needed && --found->requests == 0;
  if (found->aside) take_back(*found);
  if (found->gradient.defined()) add(to, last ? std::move(found->gradient) : found->gradient);
}

[[gnu::always_inline]] inline void Playback::play_records(std::uint32_t end) {
  for (std::uint32_t i = played_; i-- > end;) {
    Record& record = (*context_.reel)[i];
    if (record.tapes & tape_ && !(record.outputs_and_flags & Record::alike && play_alike(record))) {
      only_played_ = false;
      play_record(record);
    }
  }
}
void Playback::play_down_to(std::uint32_t record) {
  play_records(record);
  played_ = std::min(played_, record);
}
void Playback::play_rest() {
  play_records(start_);
  for (DeferredProduct& product : deferred_) run_deferred(product);
}

std::vector<std::uint32_t> Playback::first_uses() const {
  std::vector<std::uint32_t> uses(slots_.size(), no_record);
  for (std::uint32_t i = target_ + 1; i-- > start_;) {
    const Record& record = (*context_.reel)[i];
    for (int k = 0; record.tapes & tape_ && k < record.input_count; ++k)
      if (is_wanted(record.inputs[k])) uses[record.inputs[k].value - first_value_] = i;
  }
  return uses;
}
std::uint32_t Playback::first_use_of(std::uint32_t value,
                                     const std::vector<std::uint32_t>& uses) const {
  if (value - first_value_ >= uses.size()) return no_record;
  const std::uint32_t first = uses[value - first_value_];
  return first == no_record && slots_[value - first_value_].gradient.defined() ? target_ + 1
                                                                               : first;
}

void Playback::put_aside(Slot& slot) {
  if (!slot.aside) {
    aside_.emplace_back();
    slot.aside = static_cast<std::uint32_t>(aside_.size());
  }
  slot.added = 0;
  std::vector<Tensor>& sums = aside_[slot.aside - 1];
  Tensor sum = std::move(slot.gradient);
  for (Tensor& place : sums) {
    if (!place.defined()) {
      place = std::move(sum);
      return;
    }
    add(sum, std::move(place));
  }
  sums.push_back(std::move(sum));
}

void Playback::take_back(Slot& slot) {
  for (Tensor& sum : aside_[slot.aside - 1])
    if (sum.defined()) add(slot.gradient, std::move(sum));
  aside_[slot.aside - 1].clear();
  slot.aside = 0;
}

/// `hooked` where the mode is not 0.
template <bool hooked>
inline bool Playback::add_to(Tensor& slot, const Tensor& dx) {
  if (!owned(slot) || !Access::body(dx)->contiguous) return false;
  if (hooked && context_.path_mode()) return false;
  Body& sum = *Access::body(slot);
  const Pass pass = pass_of(core_ops.add, sum.dtype);
  if (on_cpu(sum) && !pass) return false;
  const Body* const summands[] = {&sum, Access::body(dx)};
  Body* output = &sum;
  const GateCall call{core_ops.add, summands,    2, {},          context_.outer_caller, &output, 1,
                      nullptr,      Part::value, 1, only_played_};
  if (hooked) tell_begin(context_, call);
  if (on_cpu(sum)) {
    const void* inputs[] = {sum.data, summands[1]->data};
    run_pass(pass, sum.elements, inputs, 2, sum.dtype, 0, sum.data, sum.dtype);
  } else {
    run_kernel(core_ops.add, {}, {summands, &output, nullptr, 2, 1}, context_.outer_caller);
  }
  if (hooked) tell_end(context_, call);
  return true;
}

bool Playback::add_in_place(Tensor& slot, const Tensor& dx) {
  return context_.mode ? add_to<true>(slot, dx) : add_to<false>(slot, dx);
}

void Playback::add_another(Tensor& slot, Tensor dx) {
  if (!add_in_place(slot, dx)) slot = run_binary(core_ops.add, std::move(slot), std::move(dx));
}

bool Playback::add_in_place(Tensor& slot, Op& op, std::initializer_list<Operand> inputs,
                            OptionsView options) {
  if (!op.accumulates || op.composite || !writable(slot)) return false;
  run_into(op, inputs, options, *Access::body(slot));
  return true;
}

bool Playback::add_product(Tensor& slot, const Body& a, Transposed a_transposed, const Body& b,
                           Transposed b_transposed) {
  if (context_.path_mode() || core_ops.matmul.composite || a.rank() != 2 || b.rank() != 2)
    return false;
  if (!on_cpu(a)) return false;
  Body x = matrix_of(a, a_transposed), y = matrix_of(b, b_transposed);
  const bool adds = writable(slot);
  Tensor made;
  if (!adds) {
    const std::int64_t rows = x.shape.data()[0], columns = y.shape.data()[1];
    made = new_gradient(context_, core_ops.matmul, cpu(), a.dtype, Shape({rows, columns}),
                        rows * columns);
  }
  const Body* inputs[] = {&x, &y};
  Body* output = Access::body(adds ? slot : made);
  const GateCall call{core_ops.matmul, inputs, 2,       {},          context_.outer_caller,
                      &output,         1,      nullptr, Part::value, adds};
  // Observers read a transposed matrix as one that is not row-major; the kernel reads the strides.
  const auto order = [&] {
    for (Body* view : {&x, &y}) view->contiguous = is_row_major(view->shape, view->strides);
  };
  if (context_.mode) [[unlikely]] {
    for (Body* view : {&x, &y}) view->references = 1, view->owner = nullptr;
    order();
    tell_begin(context_, call);
    x.contiguous = a.contiguous, y.contiguous = b.contiguous;
  }
  run_on_host(core_ops.matmul, {}, {inputs, &output, nullptr, 2, 1, adds}, context_.outer_caller);
  if (context_.mode) [[unlikely]] {
    order();
    tell_end(context_, call);
  }
  if (!adds) add(slot, std::move(made));
  return true;
}

inline void Playback::find_wanted(const Record& record) {
  std::uint64_t wanted = 0, fresh = 0;
  for (int i = 0; i < record.input_count; ++i) {
    if (!is_wanted(record.inputs[i])) continue;
    const std::uint64_t bit = std::uint64_t{1} << std::min(i, 63);
    wanted |= bit;
    Slot& slot = slots_[record.inputs[i].value - first_value_];
    if (!expect(slot)) fresh |= bit;
  }
  wanted_ = wanted;
  fresh_ = fresh;
}

/// Observers that began before the pass are told which record is played.
void Playback::tell_record(const Record& record) {
  if (context_.mode & observed) tell_played(context_, record, Access::body(dy_->gradient));
}

void Playback::play_record(Record& record) {
  dy_ = slot_of(record.first_value);
  const Body* given = nullptr;  // the gradient of the first output that has one
  for (int i = 0; i < record.output_count(); ++i) {
    if (dy_[i].deferred) run_deferred(deferred_[dy_[i].deferred - 1]);
    if (dy_[i].aside) take_back(dy_[i]);
    if (!given) given = Access::body(dy(i));
  }
  if (given) {
    context_.outer_caller = record.caller();
    if (watched_) [[unlikely]]
      tell_record(record);
    find_wanted(record);
    const Op& op = *record.op;
    const Device device = device_of(*given);
    const Kernels& kernels = op.on(device.kind);
    const bool fused = !listened() && op.gradient.fused;
    static constexpr Kernels none;
    if (op.fusion == Fusion::pointwise || op.gradient.passes)
      play_pointwise(record, fused ? kernels : none);
    if (wanted_ && fused && kernels.has(Part::gradients)) {
      play_fused(record, device);
    } else if (wanted_) {
      const PlaceScope place(context_, device);
      GradientCall call(*this, record);
      op.gradient.rule(call);
    }
    for (int i = 0; i < record.output_count(); ++i)
      if (!dy_[i].requests) dy_[i].gradient = Tensor();
    copies_.clear();
  }
  let_go(record);
}

/// The gradients of the record are computed. Frees its saved values if no other tape needs them.
inline void Playback::let_go(Record& record) {
  if (keeps_saved_) return;
  record.tapes &= ~tape_;
  if (!record.tapes) Reel::release_saved(record);
}

/// The fast path of play_record(), for pointwise ops over tensors of one shape. Returns false,
/// without effect, if it cannot handle the record.
bool Playback::play_alike(Record& record) {
  const Op& op = *record.op;
  Slot& slot = slots_[record.first_value - first_value_];
  if (watched_ || !op.gradient.fused || slot.deferred || slot.aside || !slot.gradient.defined())
    return false;
  const Body& given = *Access::body(slot.gradient);
  if (given.dtype != record.outputs[0].dtype || !on_cpu(given)) return false;
  const Kernels& kernels = op.on_cpu();
  int order[2], count = 0;
  for (int i = 0; i < record.input_count; ++i) {
    if (!is_wanted(record.inputs[i])) continue;
    if (!(op.gradient.passes >> i & 1) && !gradient_pass_of(kernels, i, given.dtype)) return false;
    order[count++] = i;
  }
  if (count > 0) expect(slots_[record.inputs[order[0]].value - first_value_]);
  // An input without a gradient so far comes last, because it may take over the memory of dy.
  if (count == 2 && expect(slots_[record.inputs[order[1]].value - first_value_]))
    std::swap(order[0], order[1]);
  dy_ = &slot;
  context_.outer_caller = record.caller();
  TileValues values;
  for (int k = 0; k < count; ++k) {
    const bool last = k == count - 1 && !slot.requests;
    if (context_.mode) [[unlikely]]
      play_neighbours<true>(record, order[k], kernels, values, last);
    else
      play_neighbours<false>(record, order[k], kernels, values, last);
  }
  if (!slot.requests) slot.gradient = Tensor();
  copies_.clear();
  let_go(record);
  only_played_ = true;
  return true;
}

/// Whether a saved input has neither one element nor the shape of the output.
bool Playback::has_broadcast_factor(const Record& record) {
  for (int i = 0; i < record.input_count; ++i)
    if (const Body* const saved = record.inputs[i].saved;
        saved && !is_one_number(*saved) && !(saved->shape == *record.outputs[0].shape))
      return true;
  return false;
}

/// Computes the gradient of each wanted input for which it is dy itself, or one pass over
/// contiguous elements. Other inputs stay wanted.
void Playback::play_pointwise(const Record& record, const Kernels& kernels) {
  // The op itself reads rows and columns without a copy.
  if (record.op == &core_ops.multiply && has_broadcast_factor(record)) return;
  // The last input without a gradient so far comes last, because it may take over the memory of dy.
  const std::uint64_t taker = std::bit_floor(fresh_);
  TileValues values;
  for (std::uint64_t left = wanted_; left;) {
    const std::uint64_t others = left & ~taker;
    const int i = std::countr_zero(others ? others : taker);
    const std::uint64_t bit = std::uint64_t{1} << i;
    const bool last = wanted_ == bit && !dy_->requests;
    if (context_.mode ? play_neighbours<true>(record, i, kernels, values, last)
                      : play_neighbours<false>(record, i, kernels, values, last))
      wanted_ ^= bit;
    left ^= bit;
  }
}

[[gnu::noinline]] void Playback::tell_gradient_end(const GateCall& call) {
  if (context_.mode & observed) tell_end(context_, call);
  for (Interceptor* each = context_.interceptors; each; each = each->next) each->after(call);
}

/// For calls that interceptors or observers see, and for devices other than the CPU.
[[gnu::noinline]] void Playback::play_part(const Record& record, int i, const Kernels& kernels,
                                           const TileValues& values, Tensor& slot, bool last) {
  Tensor& dy = dy_->gradient;
  const Body& given = *Access::body(dy);
  const Pass pass = gradient_pass_of(kernels, i, given.dtype);
  const Device device = device_of(given);
  const Op& op = *record.op;
  const Part part = part_of(i);
  const bool adds = writable(slot);
  Tensor dx;
  if (!adds)
    dx = last && writable(dy)
             ? std::move(dy)
             : new_gradient(context_, op, device, given.dtype, given.shape, given.elements);
  Body* output = Access::body(adds ? slot : dx);
  const GateCall call{
      const_cast<Op&>(op), values.bodies, 4, {}, record.caller(), &output, 1, nullptr, part, adds,
      only_played_};
  if (context_.mode & observed) tell_begin(context_, call);
  if (pass)
    run_pass(pass, given.elements, values.of, 4, given.dtype,
             values.scalars | (adds ? pass_adds : 0), output->data, given.dtype);
  else
    run_gradient(op, part, {}, {values.bodies, &output, nullptr, 4, 1, adds}, device,
                 record.caller());
  tell_gradient_end(call);
  if (!adds) add(slot, std::move(dx));
}

/// `hooked` where the mode is not 0.
template <bool hooked>
inline bool Playback::play_neighbours(const Record& record, int i, const Kernels& kernels,
                                      TileValues& values, bool last) {
  const InputSlot& input = record.inputs[i];
  const OutputSlot& output = record.outputs[0];
  if (input.shape != output.shape && !(*input.shape == *output.shape)) return false;
  Tensor& slot = input_slot(record, i);
  Tensor& dy = dy_->gradient;
  if (record.op->gradient.passes >> i & 1) {
    if (!slot.defined() || !add_to<hooked>(slot, dy)) add(slot, last ? std::move(dy) : dy);
    return true;
  }
  if (i >= 2) return false;
  const Pass pass = gradient_pass_of(kernels, i, input.dtype);
  Body& given = *Access::body(dy);
  if (given.dtype != input.dtype || (!pass && !kernels.has(part_of(i)))) return false;
  if (!values.of[0]) read_values(record, given, values);
  if ((hooked && context_.mode != observed) || !pass) [[unlikely]] {
    play_part(record, i, kernels, values, slot, last);
    return true;
  }
  const auto run_into = [&](Body* out, unsigned adds) {
    const auto run = [&] {
      run_pass(pass, given.elements, values.of, 4, given.dtype,
               values.scalars | (adds ? pass_adds : 0), out->data, given.dtype);
    };
    if constexpr (!hooked) return run();
    const GateCall call{const_cast<Op&>(*record.op),
                        values.bodies,
                        4,
                        {},
                        record.caller(),
                        &out,
                        1,
                        nullptr,
                        part_of(i),
                        adds,
                        only_played_};
    tell_begin(context_, call);
    run();
    tell_end(context_, call);
  };
  if (owned(slot)) {
    run_into(Access::body(slot), 1);
    return true;
  }
  Tensor dx = last && owned(dy) ? std::move(dy)
                                : new_gradient(context_, *record.op, cpu(), given.dtype,
                                               given.shape, given.elements);
  run_into(Access::body(dx), 0);
  add(slot, std::move(dx));
  return true;
}

Tensor Playback::step_before(const Record& record, const Op& op) {
  Tensor& dy = dy_->gradient;
  if (listened()) return {};
  const Pass pass = gradient_pass_of(op.on_cpu(), 0, dy.dtype());
  const Body* out = record.outputs[0].saved;
  if (!pass || dy.dtype() != out->dtype || !on_cpu(*out)) return {};
  const Body* given = Access::body(dy);
  if (!given->contiguous) given = in_order(*given);
  if (!out->contiguous) out = in_order(*out);
  const Body* const bodies[] = {given, nullptr, nullptr, out};
  const void* const values[] = {given->data, nullptr, nullptr, out->data};
  Tensor dz =
      given == Access::body(dy) && !dy_->requests && writable(dy)
          ? std::move(dy)
          : new_gradient(context_, *record.op, cpu(), out->dtype, out->shape, out->elements);
  Body* output = Access::body(dz);
  const GateCall call{const_cast<Op&>(op), bodies, 4, {}, record.caller(), &output, 1, nullptr,
                      Part::gradient_0};
  if (context_.mode & observed) tell_begin(context_, call);
  run_pass(pass, out->elements, values, 4, out->dtype, 0, output->data, out->dtype);
  if (context_.mode) tell_gradient_end(call);
  return dz;
}

inline void Playback::read_values(const Record& record, const Body& dy, TileValues& values) {
  const Body* saved[] = {&dy, record.inputs[0].saved,
                         record.input_count > 1 ? record.inputs[1].saved : nullptr,
                         record.outputs[0].saved};
  for (unsigned k = 0; k < 4; ++k) {
    const Body* body = saved[k];
    if (!body) continue;
    const bool beside = body->contiguous && body->elements == dy.elements;
    if (!beside && is_one_number(*body))
      values.scalars |= 1u << k;
    else if (!beside)
      body = spread(*body, dy.shape);
    values.of[k] = body->data;
    values.bodies[k] = body;
  }
}

/// A copy in the shape of dy, for the record being played.
const Body* Playback::spread(const Body& body, const Shape& shape) {
  const Tensor wide = broadcast_to(Operand(Access::tensor(const_cast<Body*>(&body))), shape);
  return in_order(*Access::body(wide));
}

/// A row-major copy, for the record being played.
const Body* Playback::in_order(const Body& body) {
  copies_.push_back(run(core_ops.cast, Operand(Access::share(const_cast<Body*>(&body))),
                        DTypeOptions{body.dtype}));
  return Access::body(copies_[copies_.size() - 1]);
}

/// Calls the op's fused gradient kernel, which computes every wanted gradient from dy, inputs and
/// outputs.
void Playback::play_fused(Record& record, Device device) {
  const int inputs = record.input_count, outputs = record.output_count();
  SmallVector<const Body*, 8> given;
  const auto give = [&](const Body* body) {
    given.push_back(body && !body->contiguous ? in_order(*body) : body);
  };
  for (int i = 0; i < outputs; ++i) give(Access::body(dy(i)));
  for (int i = 0; i < inputs; ++i) give(record.inputs[i].saved);
  for (int i = 0; i < outputs; ++i) give(record.outputs[i].saved);
  SmallVector<Tensor, 4> made(static_cast<std::size_t>(inputs));
  SmallVector<Body*, 4> results(static_cast<std::size_t>(inputs));
  unsigned accumulate = 0;
  for (int i = 0; i < inputs; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!wants(record, i)) continue;
    Tensor& slot = input_slot(record, i);
    if (writable(slot)) {
      results[at] = Access::body(slot);
      accumulate |= 1u << i;
    } else {
      made[at] = new_gradient(context_, *record.op, device, record.inputs[i].dtype,
                              *record.inputs[i].shape, record.inputs[i].shape->elements());
      results[at] = Access::body(made[at]);
    }
  }
  const KernelCall call{given.data(),   results.data(),
                        record.options, static_cast<int>(given.size()),
                        inputs,         accumulate};
  const OptionsView options{record.options_type, record.options};
  const GateCall event{const_cast<Op&>(*record.op),
                       given.data(),
                       call.input_count,
                       options,
                       record.caller(),
                       results.data(),
                       inputs,
                       nullptr,
                       Part::gradients,
                       accumulate};
  if (context_.mode & observed) tell_begin(context_, event);
  run_gradient(*record.op, Part::gradients, options, call, device, record.caller());
  if (context_.mode) tell_gradient_end(event);
  for (int i = 0; i < inputs; ++i)
    if (made[static_cast<std::size_t>(i)].defined())
      add(input_slot(record, i), std::move(made[static_cast<std::size_t>(i)]));
}
}  // namespace reel
