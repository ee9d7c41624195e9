// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/playback.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include <reel/ops.hpp>

#include "lib/dispatch/op_options.hpp"
#include "lib/dispatch/pointwise.hpp"
#include "lib/ops/ops.hpp"

namespace reel {
namespace {
Tensor adopt_gradient(Body* body, const Op& op, const Shape& shape) {
  if (!body)
    fail<MemoryError>({}, op.name, "gradient", "memory for shape " + to_text(shape), "none");
  return Access::adopt(body);
}

bool writable(const Tensor& x) {
  const Body* body = Access::body(x);
  return body && unshared(*body) && body->contiguous;
}
}  // namespace

Playback::Playback(Context& context, std::uint64_t tape, std::uint32_t start, std::uint32_t target,
                   bool keeps_saved)
    : context_(context),
      tape_(tape),
      start_(start),
      target_(target),
      first_value_(context.reel[start].first_value),
      keeps_saved_(keeps_saved) {
  const Record& last = context.reel[target];
  slots_.resize(last.first_value + last.output_count - first_value_);
}

void Playback::grant(std::uint32_t value, Tensor& to) {
  Slot* found = slot_of(value);
  if (!found) return;
  const bool last = --found->wishes == 0;
  if (found->gradient.defined()) add(to, last ? std::move(found->gradient) : found->gradient);
}

void Playback::play(std::uint32_t value, Tensor dy) {
  slot_of(value)->gradient = std::move(dy);
  for (std::uint32_t i = target_ + 1; i-- > start_;) {
    Record& record = context_.reel[i];
    if (record.tapes & tape_) play_record(record);
  }
  for (DeferredProduct& product : deferred_) run_deferred(product);
}

bool Playback::add_in_place(Tensor& slot, const Tensor& dx) {
  if (listened() || !writable(slot) || !Access::body(dx)->contiguous) return false;
  Body& sum = *Access::body(slot);
  const void* inputs[] = {sum.data, Access::body(dx)->data};
  add_op.tiles->value[static_cast<int>(sum.dtype)](sum.elements, inputs, 0, sum.data);
  return true;
}

void Playback::add(Tensor& slot, Tensor dx) {
  if (!slot.defined())
    slot = std::move(dx);
  else if (!add_in_place(slot, dx))
    slot = run_binary(add_op, std::move(slot), std::move(dx));
}

bool Playback::add_in_place(Tensor& slot, Op& op, std::initializer_list<Operand> inputs,
                            OptionsView options) {
  if (!op.accumulates || listened() || !writable(slot) || !op.cpu) return false;
  run_into(op, inputs, options, *Access::body(slot));
  return true;
}

bool Playback::defer_product(const Record& record, const Tensor& x) {
  const InputSlot& matrix = record.inputs[1];
  Slot& slot = slots_[matrix.value - first_value_];
  const Body &x_rows = *Access::body(x), &dz_rows = *Access::body(dy(0));
  // The first use does not wait: most matrices have one.
  if (listened() || !slot.gradient.defined() || matrix.shape->rank() != 2 ||
      !DeferredProduct::fits(x_rows, dz_rows))
    return false;
  if (!slot.deferred) {
    deferred_.emplace_back().matrix = matrix.value;
    slot.deferred = static_cast<std::uint32_t>(deferred_.size());
  }
  DeferredProduct& product = deferred_[slot.deferred - 1];
  const std::uint32_t bias = deferred_bias(record, slot.deferred);
  if (product.bias != bias || !product.has_room(x_rows)) run_deferred(product);
  product.bias = bias;
  product.append(context_, x_rows, dz_rows);
  wanted_ &= bias == DeferredProduct::no_value ? ~std::uint64_t{2} : ~std::uint64_t{6};
  return true;
}

/// The bias that has the sum over the rows of dz as gradient, if there is one to wait.
std::uint32_t Playback::deferred_bias(const Record& record, std::uint32_t product) {
  if (record.input_count < 3 || !wants(record, 2)) return DeferredProduct::no_value;
  const InputSlot& bias = record.inputs[2];
  if (bias.shape->rank() != 1 || (*bias.shape)[0] != (*record.inputs[1].shape)[1])
    return DeferredProduct::no_value;
  Slot& slot = slots_[bias.value - first_value_];
  if (slot.deferred && slot.deferred != product) return DeferredProduct::no_value;
  slot.deferred = product;
  return bias.value;
}

void Playback::run_deferred(DeferredProduct& product) {
  if (product.empty()) return;
  const auto [x, dz] = product.take();
  Tensor& matrix = slots_[product.matrix - first_value_].gradient;
  const Tensor turned = transpose(x);
  if (!add_in_place(matrix, matmul_op, {turned, dz}, {})) add(matrix, matmul(turned, dz));
  if (product.bias != DeferredProduct::no_value)
    add(slots_[product.bias - first_value_].gradient, sum(dz, 0));
}

void Playback::play_record(Record& record) {
  dy_ = slot_of(record.first_value);
  bool any = false;
  for (int i = 0; i < record.output_count; ++i) {
    if (dy_[i].deferred) run_deferred(deferred_[dy_[i].deferred - 1]);
    any |= dy(i).defined();
  }
  if (any) {
    context_.site = record.site();
    wanted_ = 0;
    for (int i = 0; i < record.input_count; ++i)
      wanted_ |= std::uint64_t{follows(record.inputs[i])} << std::min(i, 63);
    const Op& op = *record.op;
    const bool fused = !listened() && op.fused_gradient;
    if ((fused && op.tiles) || op.passes) play_pointwise(record, fused ? op.tiles : nullptr);
    if (wanted_ && fused && op.cpu_gradient) {
      play_fused(record);
    } else if (wanted_) {
      GradientCall call(*this, record);
      op.gradient(call);
    }
    for (int i = 0; i < record.output_count; ++i)
      if (!dy_[i].wishes) dy_[i].gradient = Tensor();
    copies_.resize(0);
  }
  if (keeps_saved_) return;
  record.tapes &= ~tape_;
  if (!record.tapes) Reel::release_saved(record);
}

/// Each wanted input whose gradient is dy itself, or one pass over neighbours; others stay wanted.
void Playback::play_pointwise(const Record& record, const Tiles* tiles) {
  // The last input without a gradient so far goes last: it may take dy over.
  std::uint64_t taker = 0;
  for (std::uint64_t left = wanted_; left; left &= left - 1)
    if (!input_slot(record, std::countr_zero(left)).defined()) taker = left & -left;
  TileValues values;
  for (std::uint64_t left = wanted_; left;) {
    const std::uint64_t others = left & ~taker;
    const std::uint64_t bit = others ? others & -others : taker;
    const bool last = wanted_ == bit && !dy_->wishes;
    if (play_neighbours(record, std::countr_zero(bit), tiles, values, last)) wanted_ ^= bit;
    left ^= bit;
  }
}

inline bool Playback::play_neighbours(const Record& record, int i, const Tiles* tiles,
                                      TileValues& values, bool last) {
  const InputSlot& input = record.inputs[i];
  const OutputSlot& output = record.outputs[0];
  if (input.shape != output.shape && !(*input.shape == *output.shape)) return false;
  Tensor& slot = input_slot(record, i);
  Tensor& dy = dy_->gradient;
  if (record.op->passes >> i & 1) {
    if (!add_in_place(slot, dy)) add(slot, last ? std::move(dy) : dy);
    return true;
  }
  if (!tiles || i >= 2) return false;
  const GradientTile tile = tiles->gradient[i][static_cast<int>(input.dtype)];
  Body& given = *Access::body(dy);
  if (!tile || !given.contiguous || given.dtype != input.dtype) return false;
  if (!values.of[0]) read_values(record, given, values);
  if (writable(slot)) {
    tile(given.elements, values.of, values.scalars, Access::body(slot)->data, true);
    return true;
  }
  Tensor dx = last && writable(dy) ? std::move(dy)
                                   : adopt_gradient(allocate_like(context_, given.dtype, given),
                                                    *record.op, given.shape);
  tile(given.elements, values.of, values.scalars, Access::body(dx)->data, false);
  add(slot, std::move(dx));
  return true;
}

inline void Playback::read_values(const Record& record, const Body& dy, TileValues& values) {
  const Body* saved[] = {&dy, record.inputs[0].saved,
                         record.input_count > 1 ? record.inputs[1].saved : nullptr,
                         record.outputs[0].saved};
  for (unsigned k = 0; k < 4; ++k) {
    const Body* body = saved[k];
    if (!body) continue;
    const bool beside = body->contiguous && body->elements == dy.elements;
    if (!beside && body->elements == 1)
      values.scalars |= 1u << k;
    else if (!beside)
      body = spread(*body, dy.shape);
    values.of[k] = body->data;
  }
}

/// A copy in the shape of dy, for the record being played.
const Body* Playback::spread(const Body& body, const Shape& shape) {
  copies_.push_back(contiguous_copy(
      *Access::body(broadcast_to(Operand(Access::share(const_cast<Body*>(&body))), shape))));
  return Access::body(copies_[copies_.size() - 1]);
}

/// The op's fused gradient kernel: dy, inputs and outputs in, every wanted gradient out.
void Playback::play_fused(Record& record) {
  const int inputs = record.input_count, outputs = record.output_count;
  Few<const Body*, 8> given;
  const auto give = [&](const Body* body) {
    if (body && !body->contiguous) {
      copies_.push_back(contiguous_copy(*body));
      body = Access::body(copies_[copies_.size() - 1]);
    }
    given.push_back(body);
  };
  for (int i = 0; i < outputs; ++i) give(Access::body(dy(i)));
  for (int i = 0; i < inputs; ++i) give(record.inputs[i].saved);
  for (int i = 0; i < outputs; ++i) give(record.outputs[i].saved);
  Few<Tensor, 4> made(static_cast<std::size_t>(inputs));
  Few<Body*, 4> results(static_cast<std::size_t>(inputs));
  unsigned accumulate = 0;
  for (int i = 0; i < inputs; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!wants(record, i)) continue;
    Tensor& slot = input_slot(record, i);
    if (writable(slot)) {
      results[at] = Access::body(slot);
      accumulate |= 1u << i;
    } else {
      const Shape& shape = *record.inputs[i].shape;
      made[at] = adopt_gradient(allocate(context_, record.inputs[i].dtype, shape, shape.elements()),
                                *record.op, shape);
      results[at] = Access::body(made[at]);
    }
  }
  const KernelCall call{given.data(),   results.data(),
                        record.options, static_cast<int>(given.size()),
                        inputs,         accumulate};
  call_checked(*record.op, record.op->cpu_gradient, call, record.site());
  for (int i = 0; i < inputs; ++i)
    if (made[static_cast<std::size_t>(i)].defined())
      add(input_slot(record, i), std::move(made[static_cast<std::size_t>(i)]));
}

bool GradientCall::wants(int input) const { return playback_.wants(record_, input); }
bool GradientCall::has_dy(int output) const { return playback_.dy(output).defined(); }
const Tensor& GradientCall::dy(int output) {
  if (has_dy(output)) return playback_.dy(output);
  zeros_.resize(record_.output_count);
  Tensor& none = zeros_[static_cast<std::size_t>(output)];
  const OutputSlot& slot = record_.outputs[output];
  if (!none.defined()) none = zeros(*slot.shape, {.dtype = slot.dtype});
  return none;
}

namespace {
const Tensor& saved_value(Body* const& body, const Record& record, const char* what, int i) {
  if (!body)
    fail<TapeError>(record.site(), record.op->name, what + std::string(" ") + std::to_string(i),
                    "a value that the op's needs name", "one that is not kept");
  return Access::tensor(body);
}
}  // namespace
const Tensor& GradientCall::input(int i) {
  return saved_value(record_.inputs[i].saved, record_, "input", i);
}
const Tensor& GradientCall::output(int i) {
  return saved_value(record_.outputs[i].saved, record_, "output", i);
}
const Shape& GradientCall::input_shape(int i) const { return *record_.inputs[i].shape; }
DType GradientCall::input_dtype(int i) const { return record_.inputs[i].dtype; }

void GradientCall::give(int input, Tensor dx) {
  if (!wants(input) || !dx.defined()) return;
  if (dx.dtype() != input_dtype(input)) dx = dx.to(input_dtype(input));
  if (!(dx.shape() == input_shape(input)))
    fail<ShapeError>(record_.site(), record_.op->name, "gradient of input " + std::to_string(input),
                     "shape " + to_text(input_shape(input)), to_text(dx.shape()));
  playback_.add(playback_.input_slot(record_, input), std::move(dx));
}
bool GradientCall::defer_product() { return playback_.defer_product(record_, input(0)); }
void GradientCall::give_sum(int input, Tensor dx) {
  if (!wants(input)) return;
  if (dx.shape() == input_shape(input)) return give(input, std::move(dx));
  give(input, sum_to_op, {dx}, ShapeOptions{input_shape(input)});
}
void GradientCall::give(int input, Op& op, std::initializer_list<Operand> inputs,
                        OptionsView options) {
  if (!wants(input)) return;
  if (playback_.add_in_place(playback_.input_slot(record_, input), op, inputs, options)) return;
  Few<Tensor, 2> outputs;
  run(op, std::span(inputs.begin(), inputs.size()), options, record_.site(), outputs);
  give(input, std::move(outputs[0]));
}
}  // namespace reel
