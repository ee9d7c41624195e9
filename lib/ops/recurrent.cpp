// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/recurrent.hpp>

#include <reel/ops/arithmetic.hpp>
#include <reel/ops/reshape.hpp>

#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
/// gates [..., count n] and cells [..., n] give h and c [..., n].
void state_shape(Inference& call, std::int64_t count) {
  for (int i = 0; i < call.input_count; ++i) require_floating(call, i);
  require_rank(call, 0, 1);
  const Shape& gates = call.input(0).shape;
  Shape cell = gates;
  cell.data()[cell.rank() - 1] /= count;
  const bool whole = gates.end()[-1] % count == 0;
  if (!whole || (call.input_count > 1 && !(call.input(1).shape == cell)))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 0),
                     call.input_count == 1
                         ? "a last axis that " + to_text(count) + " divides"
                         : "last axis " + to_text(count) + " times that of " +
                               argument_name(call.op, 1) + " " + to_text(call.input(1).shape),
                     to_text(gates));
  for (int i = 2; i < call.input_count; ++i)
    if (!(call.input(i).shape == cell))
      fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i),
                       to_text(cell) + ", the shape of " + argument_name(call.op, 1),
                       to_text(call.input(i).shape));
  for (int i = 0; i < 2; ++i) call.output(call.input(0).dtype, cell);
}

/// i, a forget gate for each cell, g and o.
void gates_shape(Inference& call) { state_shape(call, call.input_count + 2); }
void child_sum_shape(Inference& call) { state_shape(call, 3); }

using Cell = HiddenAndCell (*)(const std::vector<Tensor>&);

/// Samples that use both results, and only one of them, so that the other has no gradient.
[[gnu::cold]] void cell_samples(SampleList out, Cell f, unsigned cell_count, unsigned gate_count) {
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
                                  {{1, 2}},
                                  {{2, 2, 3}}};
  for (const auto& [shape, layout] : cells) {
    Shape wide = shape;
    wide.data()[shape.rank() - 1] *= gate_count;
    std::vector<Tensor> inputs = {drawn(wide, layout)};
    for (unsigned i = 0; i < cell_count; ++i) inputs.push_back(drawn(shape, layout, {}, 5 + 4 * i));
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
    .shape = gates_shape,
    .promote = Promote::numeric,
    .needs = {{need_input(0) | need_input(1) | need_output(1),
               need_input(0) | need_input(1) | need_output(1)}},
    .contiguous_inputs = true,
    .samples =
        [](SampleList out) {
          cell_samples(
              out, [](const std::vector<Tensor>& in) { return lstm_gates(in[0], in[1]); }, 1, 4);
        },
    .argument_names = "gates, c"};
constexpr std::uint16_t tree_needs = need_input(0) | need_input(1) | need_input(2) | need_output(1);
constinit Op tree_lstm_gates_op{
    .name = "tree_lstm_gates",
    .arity = 3,
    .shape = gates_shape,
    .promote = Promote::numeric,
    .needs = {{tree_needs, tree_needs, tree_needs}},
    .contiguous_inputs = true,
    .samples =
        [](SampleList out) {
          cell_samples(
              out,
              [](const std::vector<Tensor>& in) { return tree_lstm_gates(in[0], in[1], in[2]); }, 2,
              5);
        },
    .argument_names = "gates, c_left, c_right"};
constinit Op tree_lstm_leaf_gates_op{
    .name = "tree_lstm_leaf_gates",
    .shape = gates_shape,
    .promote = Promote::numeric,
    .needs = {{need_input(0) | need_output(1)}},
    .contiguous_inputs = true,
    .samples =
        [](SampleList out) {
          cell_samples(
              out, [](const std::vector<Tensor>& in) { return tree_lstm_leaf_gates(in[0]); }, 0, 3);
        },
    .argument_names = "gates"};
constexpr std::uint16_t child_sum_needs = need_input(0) | need_input(1) | need_output(1);
constinit Op child_sum_gates_op{
    .name = "child_sum_gates",
    .arity = 2,
    .shape = child_sum_shape,
    .promote = Promote::numeric,
    .needs = {{child_sum_needs, child_sum_needs}},
    .contiguous_inputs = true,
    .samples =
        [](SampleList out) {
          cell_samples(
              out, [](const std::vector<Tensor>& in) { return child_sum_gates(in[0], in[1]); }, 1,
              3);
        },
    .argument_names = "gates, kept"};

namespace {
HiddenAndCell run_cell(Op& op, std::initializer_list<Operand> inputs) {
  SmallVector<Tensor, 2> outputs;
  run(op, std::span(inputs.begin(), inputs.size()), {}, inputs.begin()->caller(), outputs);
  return {std::move(outputs[0]), std::move(outputs[1])};
}
}  // namespace

HiddenAndCell lstm_gates(Operand gates, Operand c) { return run_cell(lstm_gates_op, {gates, c}); }
HiddenAndCell tree_lstm_gates(Operand gates, Operand c_left, Operand c_right) {
  return run_cell(tree_lstm_gates_op, {gates, c_left, c_right});
}
HiddenAndCell tree_lstm_leaf_gates(Operand gates) {
  return run_cell(tree_lstm_leaf_gates_op, {gates});
}
HiddenAndCell child_sum_gates(Operand gates, Operand kept) {
  return run_cell(child_sum_gates_op, {gates, kept});
}

const Entry recurrent_ops[] = {&lstm_gates_op, &tree_lstm_gates_op, &tree_lstm_leaf_gates_op,
                               &child_sum_gates_op, nullptr};
}  // namespace reel
