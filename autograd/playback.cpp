// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/playback.hpp"

#include <bit>
#include <utility>

#include <reel/ops.hpp>

#include "lib/dispatch/op_options.hpp"
#include "lib/dispatch/pointwise.hpp"
#include "lib/ops/ops.hpp"

namespace reel {
namespace {
Tensor new_like(Context& context, const Op& op, DType dtype, const Shape& shape) {
  Body* body = allocate(context, dtype, shape, shape.elements());
  if (!body)
    fail<MemoryError>({}, op.name, "gradient", "memory for shape " + to_text(shape), "none");
  return Access::adopt(body);
}

bool writable(const Tensor& x) {
  const Body* body = Access::body(x);
  return body && unshared(*body) && body->contiguous;
}
}  // namespace

Playback::Playback(Context& context, std::uint64_t tape, std::uint32_t start, bool keeps_saved)
    : context_(context), tape_(tape), start_(start), keeps_saved_(keeps_saved) {}

void Playback::seed(std::uint32_t record, int output, Tensor dy) {
  const Record& target = context_.reel[record];
  first_value_ = context_.reel[start_].first_value;
  slots_.resize(target.first_value + target.output_count - first_value_);
  slot(target, output) = std::move(dy);
}

void Playback::add(Tensor& slot, Tensor dx) {
  if (!slot.defined()) {
    slot = std::move(dx);
    return;
  }
  if (!listened() && writable(slot) && Access::body(dx)->contiguous) {
    Body& sum = *Access::body(slot);
    const void* inputs[] = {sum.data, Access::body(dx)->data};
    add_op.tiles->value[static_cast<int>(sum.dtype)](sum.elements, inputs, 0, sum.data);
    return;
  }
  slot = run_binary(add_op, std::move(slot), std::move(dx));
}

void Playback::play_record(Record& record) {
  bool any = false;
  dy_.resize(record.output_count);
  for (int i = 0; i < record.output_count; ++i) {
    dy_[static_cast<std::size_t>(i)] = std::move(slot(record, i));
    any |= dy_[static_cast<std::size_t>(i)].defined();
  }
  if (any) {
    context_.site = record.site();
    wanted_ = ~std::uint64_t{0};
    const Op& op = *record.op;
    const bool fused = !listened() && op.fused_gradient;
    if ((fused && op.tiles) || op.passes) play_pointwise(record, fused ? op.tiles : nullptr);
    if (wanted_ && fused && op.cpu_gradient) {
      play_fused(record);
    } else if (wanted_) {
      GradientCall call(*this, record);
      op.gradient(call);
    }
  }
  for (Tensor& dy : dy_) dy = Tensor();
  if (keeps_saved_) return;
  record.tapes &= ~tape_;
  if (!record.tapes) Reel::release_saved(record);
}

/// Each wanted input whose gradient is dy itself, or one tile over neighbours; others stay wanted.
void Playback::play_pointwise(Record& record, const Tiles* tiles) {
  const Op& op = *record.op;
  const Body& dy = *Access::body(dy_[0]);
  std::uint64_t wanted = 0, left = 0;
  for (int i = 0; i < record.input_count; ++i) wanted |= std::uint64_t{wants(record, i)} << i;
  for (int i = 0; wanted >> i; ++i) {
    if (!(wanted >> i & 1)) continue;
    const bool last = wanted >> i == 1 && !left;
    const InputSlot& input = record.inputs[i];
    const bool same =
        input.shape == record.outputs[0].shape || *input.shape == *record.outputs[0].shape;
    const GradientTile tile =
        tiles && i < 2 ? tiles->gradient[i][static_cast<int>(input.dtype)] : nullptr;
    if (same && op.passes >> i & 1) {
      add(input_slot(record, i), last ? std::move(dy_[0]) : dy_[0]);
    } else if (same && tile && dy.contiguous && dy.dtype == input.dtype) {
      tile_gradient(record, i, tile, last);
    } else {
      left |= std::uint64_t{1} << i;
    }
  }
  wanted_ = left;
}

void Playback::tile_gradient(const Record& record, int i, GradientTile tile, bool last) {
  const Body& dy = *Access::body(dy_[0]);
  const Body* saved[] = {&dy, record.inputs[0].saved,
                         record.input_count > 1 ? record.inputs[1].saved : nullptr,
                         record.outputs[0].saved};
  const void* values[4] = {};
  unsigned scalars = 0;
  Few<Tensor, 4> copies;
  for (unsigned k = 0; k < 4; ++k) {
    if (!saved[k]) continue;
    const Body* body = saved[k];
    const bool as_it_lies = body->contiguous && body->elements == dy.elements;
    if (!as_it_lies && body->elements == 1)
      scalars |= 1u << k;
    else if (!as_it_lies) {
      copies.push_back(contiguous_copy(
          *Access::body(broadcast_to(Operand(Access::share(const_cast<Body*>(body))), dy.shape))));
      body = Access::body(copies[copies.size() - 1]);
    }
    values[k] = body->data;
  }
  Tensor& slot = input_slot(record, i);
  if (writable(slot)) {
    tile(dy.elements, values, scalars, Access::body(slot)->data, true);
    return;
  }
  Tensor dx = last && writable(dy_[0])
                  ? std::move(dy_[0])
                  : new_like(context_, *record.op, dy.dtype, *record.inputs[i].shape);
  tile(Access::body(dx)->elements, values, scalars, Access::body(dx)->data, false);
  add(slot, std::move(dx));
}

/// The op's fused gradient kernel: dy, inputs and outputs in, every wanted gradient out.
void Playback::play_fused(Record& record) {
  const int inputs = record.input_count, outputs = record.output_count;
  Few<const Body*, 8> given;
  Few<Tensor, 4> copies;
  const auto give = [&](const Body* body) {
    if (body && !body->contiguous) {
      copies.push_back(contiguous_copy(*body));
      body = Access::body(copies[copies.size() - 1]);
    }
    given.push_back(body);
  };
  for (int i = 0; i < outputs; ++i) give(Access::body(dy_[static_cast<std::size_t>(i)]));
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
      made[at] = new_like(context_, *record.op, record.inputs[i].dtype, *record.inputs[i].shape);
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
void GradientCall::give_sum(int input, Tensor dx) {
  if (!wants(input)) return;
  if (dx.shape() == input_shape(input)) return give(input, std::move(dx));
  give(input, sum_to_op, {dx}, ShapeOptions{input_shape(input)});
}
void GradientCall::give(int input, Op& op, std::initializer_list<Operand> inputs,
                        OptionsView options) {
  if (!wants(input)) return;
  Tensor& slot = playback_.input_slot(record_, input);
  if (op.accumulates && !playback_.listened() && writable(slot) && op.cpu)
    return run_into(op, inputs, options, *Access::body(slot));
  Few<Tensor, 2> outputs;
  run(op, std::span(inputs.begin(), inputs.size()), options, record_.site(), outputs);
  give(input, std::move(outputs[0]));
}
}  // namespace reel
