// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/gradient_call.hpp"

#include <utility>

#include <reel/ops.hpp>

#include "autograd/playback.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
bool GradientCall::wants(int input) const { return playback_.wants(record_, input); }
bool GradientCall::has_dy(int output) const { return playback_.dy(output).defined(); }
const Tensor& GradientCall::dy(int output) {
  if (own_dy_.defined() && output == 0) return own_dy_;
  if (has_dy(output)) return playback_.dy(output);
  zeros_.resize(static_cast<std::size_t>(record_.output_count()));
  Tensor& none = zeros_[static_cast<std::size_t>(output)];
  const OutputSlot& slot = record_.outputs[output];
  if (!none.defined()) none = zeros(*slot.shape, {.dtype = slot.dtype});
  return none;
}

namespace {
const Tensor& saved_value(Body* const& body, const Record& record, const char* what, int i) {
  if (!body)
    fail<TapeError>(record.caller(), record.op->name, Text(what) + " " + to_text(i),
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
  playback_.use(record_, input, dx);
  if (dx.dtype() != input_dtype(input)) dx = dx.to(input_dtype(input));
  if (!(dx.shape() == input_shape(input)))
    fail<ShapeError>(record_.caller(), record_.op->name, "gradient of input " + to_text(input),
                     "shape " + to_text(input_shape(input)), to_text(dx.shape()));
  playback_.add(playback_.input_slot(record_, input), std::move(dx));
}
bool GradientCall::give_product(int input, const Tensor& a, Transposed a_transposed,
                                const Tensor& b, Transposed b_transposed) {
  return playback_.add_product(playback_.input_slot(record_, input), *Access::body(a), a_transposed,
                               *Access::body(b), b_transposed);
}
bool GradientCall::defer_product() { return playback_.defer_product(record_, input(0), dy()); }
bool GradientCall::step_before(const Op& op) {
  own_dy_ = playback_.step_before(record_, op);
  return own_dy_.defined();
}
void GradientCall::give_sum(int input, Tensor dx) {
  if (!wants(input)) return;
  if (dx.shape() == input_shape(input)) return give(input, std::move(dx));
  give(input, core_ops.sum_to, {dx}, ShapeOptions{input_shape(input)});
}
void GradientCall::give(int input, Op& op, std::initializer_list<Operand> inputs,
                        OptionsView options) {
  if (!wants(input)) return;
  if (playback_.add_in_place(playback_.input_slot(record_, input), op, inputs, options)) return;
  SmallVector<Tensor, 2> outputs;
  run(op, std::span(inputs.begin(), inputs.size()), options, record_.caller(), outputs);
  give(input, std::move(outputs[0]));
}
}  // namespace reel
