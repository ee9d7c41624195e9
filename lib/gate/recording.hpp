// SPDX-License-Identifier: BSD-3-Clause
// Adds a record to the reel.
#pragma once
#include "lib/body/dtypes.hpp"
#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"

namespace reel {
/// The record that made an input, and the tapes that watch it.
struct Origin {
  std::uint32_t record = no_record;
  std::uint32_t value = 0;
  std::uint64_t tapes = 0;
  const Shape* shape = nullptr;  // the input's, on the reel
  Tensor* temporary = nullptr;   // that is not read again
};

[[gnu::always_inline]] inline Origin origin_of(Context& context, const Operand& x, Body* body) {
  Reel& reel = *context.reel;
  std::uint32_t record = reel.find(*body);
  if (x.kind() == Operand::Kind::variable) {
    const std::uint64_t tapes = reel.watching_variables & reel.active;
    if (tapes && has_floating_bit(body->dtype) && !reel.watches(record, tapes))
      record = reel.watch(body, &Access::cell(x.variable()), tapes, context.caller_of(x.caller()));
  }
  Tensor* const temporary =
      x.kind() == Operand::Kind::temporary ? &const_cast<Tensor&>(x.tensor()) : nullptr;
  if (record == no_record) return {.temporary = temporary};
  const Record& made = reel[record];
  const std::uint32_t value = Reel::value_of(*body, made);
  return {record, value, (made.tapes | made.watchers) & reel.active,
          made.outputs[value - made.first_value].shape, temporary};
}

/// Which inputs (low byte) and outputs (high byte) the gradients of the tracked inputs need.
[[gnu::always_inline]] inline std::uint16_t needs_of(const Op& op, const Origin* origins,
                                                     int count) {
  unsigned needs = 0;
#pragma GCC unroll 2
  for (int i = 0; i < count; ++i)
    if (origins[i].tapes) needs |= op.gradient.needs.of[i < 3 ? i : 3];
  return static_cast<std::uint16_t>(needs);
}

/// An input of a record for `tapes`. If `saves`, its value is kept for the gradient.
[[gnu::always_inline]] inline void set_input(Reel& reel, InputSlot& slot, const Origin& origin,
                                             Body* body, const Shape* shape, std::uint64_t tapes,
                                             bool saves) {
  slot.record = origin.record;
  slot.value = origin.value;
  slot.shape = shape;
  slot.saved = nullptr;
  slot.dtype = body->dtype;
  slot.tracked = origin.tapes != 0;
  slot.followed = origin.tapes == tapes;
  slot.borrows = false;
  if (!saves) return;
  slot.saved = body;
  slot.borrows = origin.record != no_record && !(tapes & ~reel[origin.record].watchers) &&
                 reel[origin.record].options == body;
  if (slot.borrows) return;
  if (origin.temporary && origin.temporary->defined())
    Access::detach(*origin.temporary);  // the record has its reference now
  else
    retain(body);
}

/// Appends a record of this call for `tapes`, and stores its id in the outputs. The last inputs are
/// those that the op does not list, see InputSlot::is_listed().
[[gnu::always_inline]] inline Record& write_record(Context& context, const Op& op,
                                                   OptionsView options, Caller caller,
                                                   Body* const* inputs, const Origin* origins,
                                                   int input_count, Body* const* outputs,
                                                   int output_count, std::uint64_t tapes,
                                                   int unlisted = 0) {
  Reel& reel = *context.reel;
  const std::uint32_t number = reel.size();
  if (output_count > 1) reel.require_values(output_count, op, caller);
  const int listed = input_count - unlisted;
  const unsigned needs = needs_of(op, origins, listed);
  Record& record = reel.append(op, input_count, output_count, options, needs != 0);
  record.file = caller.file;
  record.line = caller.line;
  record.tapes = 0;  // none until it is complete: allocating its shapes may fail
  for (int i = 0; i < input_count; ++i)
    record.inputs[i].shape = nullptr, record.inputs[i].saved = nullptr;
  for (int i = 0; i < output_count; ++i) record.outputs[i] = {};
  const Shape* shape = nullptr;  // on the reel already, so far the last of them
  const auto shape_of = [&](const Body& body) {
    if (!shape || !(*shape == body.shape))
      shape = new (reel.arena().take(sizeof(Shape))) Shape(body.shape);
    return shape;
  };
  for (int i = listed; i < input_count; ++i)
    set_input(reel, record.inputs[i], origins[i], inputs[i], nullptr, tapes, false);
#pragma GCC unroll 3
  for (int i = 0; i < listed; ++i) {
    if (origins[i].shape) shape = origins[i].shape;
    set_input(reel, record.inputs[i], origins[i], inputs[i],
              origins[i].shape ? shape : shape_of(*inputs[i]), tapes, needs >> (i < 7 ? i : 7) & 1);
  }
  for (int i = 0; i < output_count; ++i) {
    Body& body = *outputs[i];
    const bool saves = needs >> (8 + (i < 7 ? i : 7)) & 1;
    record.outputs[i] = {shape_of(body), nullptr, body.dtype};
    if (saves) retain(record.outputs[i].saved = &body);
    body.id = {reel.uid(), number, static_cast<std::uint32_t>(i)};
  }
  record.tapes = tapes;
  return record;
}
/// leave_record() for any counts, out of line.
Record& leave_record(Context& context, const Op& op, OptionsView options, Caller caller,
                     Body* const* inputs, const Origin* origins, int input_count,
                     Body* const* outputs, int output_count, std::uint64_t tapes, int unlisted = 0);
/// leave_record() for a call without options whose inputs and output have one shape and dtype.
template <int N>
[[gnu::always_inline]] inline Record& leave_record_alike(Context& context, const Op& op,
                                                         Caller caller, Body* const* inputs,
                                                         const Origin* origins, unsigned needs,
                                                         Body* output, std::uint64_t tapes) {
  Reel& reel = *context.reel;
  const std::uint32_t number = reel.size();
  Record& record = reel.append(op, N, 1, {}, needs != 0, true);
  const Shape* shape = origins[0].shape;
  if (N > 1 && !shape) shape = origins[N - 1].shape;
  record.file = caller.file;
  record.line = caller.line;
  record.tapes = tapes;
#pragma GCC unroll 2
  for (int i = 0; i < N; ++i)
    set_input(reel, record.inputs[i], origins[i], inputs[i], shape, tapes, needs >> i & 1);
  const bool saves_output = needs >> 8 & 1;
  if (saves_output) retain(output);
  record.outputs[0] = {shape, saves_output ? output : nullptr, output->dtype};
  output->id = {reel.uid(), number, 0};
  return record;
}

/// Notes that tracked inputs were used by an op without a gradient.
inline void note_cut(Context& context, const Op& op, Caller caller, const Origin* origins,
                     int input_count) {
  for (int i = 0; i < input_count; ++i)
    if (origins[i].tapes) context.reel->add_cut(op, caller, origins[i].record);
}
}  // namespace reel
