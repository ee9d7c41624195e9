// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/recurrent.hpp>

#include <reel/ops/arithmetic.hpp>
#include <reel/ops/reshape.hpp>

#include "lib/dispatch/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
/// gates [..., count n] and cells [..., n] give h and c [..., n].
void gates_shape(Inference& call, std::int64_t count) {
  for (int i = 0; i < call.input_count; ++i) require_floating(call, i);
  require_rank(call, 1, 1);
  const Shape& cell = call.input(1).shape;
  const Shape& gates = call.input(0).shape;
  Shape one = gates;
  const bool whole = gates.rank() > 0 && gates.end()[-1] % count == 0;
  if (whole) one.data()[gates.rank() - 1] /= count;
  if (!whole || !(one == cell))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 0),
                     "last axis " + std::to_string(count) + " times that of " +
                         argument_name(call.op, 1) + " " + to_text(cell),
                     to_text(gates));
  for (int i = 2; i < call.input_count; ++i)
    if (!(call.input(i).shape == cell))
      fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i),
                       to_text(cell) + ", the shape of " + argument_name(call.op, 1),
                       to_text(call.input(i).shape));
  for (int i = 0; i < 2; ++i) call.output(call.input(0).dtype, cell);
}
void lstm_shape(Inference& call) { gates_shape(call, 4); }
void tree_lstm_shape(Inference& call) { gates_shape(call, 5); }

using Cell = HiddenAndCell (*)(const std::vector<Tensor>&);

/// Of both results at once, and of each alone: then the other has no gradient.
void cell_samples(SampleList out, Cell f, std::int64_t gates) {
  using enum Layout;
  const ShapeAndLayout cells[] = {{{1}},
                                  {{3}},
                                  {{17}, reversed},
                                  {{0}},
                                  {{2, 3}},
                                  {{0, 2}},
                                  {{3, 2}, transposed},
                                  {{4, 3}, repeated},
                                  {{2, 1}, stepped},
                                  {{2, 2, 3}}};
  for (const auto& [shape, layout] : cells) {
    Shape wide = shape;
    wide.data()[shape.rank() - 1] *= gates;
    std::vector<Tensor> inputs = {drawn(wide, layout), drawn(shape, layout, {}, 5)};
    if (gates == 5) inputs.push_back(drawn(shape, layout, {}, 9));
    sample(
        out, inputs, [f](const std::vector<Tensor>& in) { return f(in).h; }, "h");
    sample(
        out, inputs, [f](const std::vector<Tensor>& in) { return f(in).c; }, "c");
    sample(
        out, inputs,
        [f](const std::vector<Tensor>& in) {
          const HiddenAndCell next = f(in);
          return 2 * next.h - next.c;
        },
        "both");
  }
}
}  // namespace

constinit Op lstm_gates_op{
    .name = "lstm_gates",
    .arity = 2,
    .shape = lstm_shape,
    .promote = Promote::numeric,
    .needs = {{need_input(0) | need_input(1) | need_output(1),
               need_input(0) | need_input(1) | need_output(1)}},
    .contiguous_inputs = true,
    .samples =
        [](SampleList out) {
          cell_samples(
              out, [](const std::vector<Tensor>& in) { return lstm_gates(in[0], in[1]); }, 4);
        },
    .argument_names = "gates, c"};
constexpr std::uint16_t tree_needs = need_input(0) | need_input(1) | need_input(2) | need_output(1);
constinit Op tree_lstm_gates_op{
    .name = "tree_lstm_gates",
    .arity = 3,
    .shape = tree_lstm_shape,
    .promote = Promote::numeric,
    .needs = {{tree_needs, tree_needs, tree_needs}},
    .contiguous_inputs = true,
    .samples =
        [](SampleList out) {
          cell_samples(
              out,
              [](const std::vector<Tensor>& in) { return tree_lstm_gates(in[0], in[1], in[2]); },
              5);
        },
    .argument_names = "gates, c_left, c_right"};

HiddenAndCell lstm_gates(Operand gates, Operand c) {
  const Operand inputs[] = {gates, c};
  Few<Tensor, 2> outputs;
  run(lstm_gates_op, inputs, {}, gates.caller(), outputs);
  return {std::move(outputs[0]), std::move(outputs[1])};
}

HiddenAndCell tree_lstm_gates(Operand gates, Operand c_left, Operand c_right) {
  const Operand inputs[] = {gates, c_left, c_right};
  Few<Tensor, 2> outputs;
  run(tree_lstm_gates_op, inputs, {}, gates.caller(), outputs);
  return {std::move(outputs[0]), std::move(outputs[1])};
}

void add_recurrent(OpTable& ops) {
  for (Op* op : {&lstm_gates_op, &tree_lstm_gates_op}) ops.add(*op);
}
}  // namespace reel
