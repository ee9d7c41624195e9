// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/create.hpp>
#include <reel/ops/recurrent.hpp>
#include <reel/ops/reduce.hpp>

#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/sequence.hpp"

namespace reel {
namespace {
void require_shape(const Inference& call, int i, const Shape& expected, const char* meaning) {
  if (call.input(i).shape == expected) return;
  fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i),
                   to_text(expected) + ", " + meaning, to_text(call.input(i).shape));
}

/// The error for a state or lengths whose batch is not that of x.
[[noreturn]] void fail_batch(Caller caller, const Op& op, const Text& argument,
                             const Shape& expected, std::string_view meaning, const Shape& got,
                             const Shape& x) {
  const bool swapped = got.rank() > 0 && got.data()[0] == x.data()[0];
  fail<ShapeError>(
      caller, op.name, argument, to_text(expected) + ", " + Text(meaning),
      to_text(got) + ", and x is " + to_text(x),
      swapped ? "x is [time, batch, in]: of [batch, time, in], pass transpose(x, {1, 0, 2})." : "");
}

struct Sizes {
  std::int64_t time, batch, hidden;
};
/// x [time, batch, in], so many states [batch, hidden], weight [in + hidden, gates hidden], bias
/// [biases hidden], lengths [batch] or [0].
Sizes sequence_sizes(Inference& call, int states, std::int64_t gates, std::int64_t biases) {
  const int weight = states + 1, lengths = states + 3;
  for (int i = 0; i < lengths; ++i) require_floating(call, i);
  require_integer(call, lengths);
  const Shape &x = call.input(0).shape, &w = call.input(weight).shape;
  if (x.rank() != 3)
    fail<ShapeError>(call.caller, call.op.name, "x", "[time, batch, in]", to_text(x));
  const std::int64_t hidden = w.rank() == 2 ? w.data()[0] - x.data()[2] : 0;
  if (hidden < 1 || w.data()[1] != gates * hidden)
    fail<ShapeError>(call.caller, call.op.name, "weight",
                     "[" + to_text(x.data()[2]) + " + hidden, " + to_text(gates) +
                         " hidden], x's last axis being " + to_text(x.data()[2]),
                     to_text(w));
  const Shape state({x.data()[1], hidden});
  for (int i = 1; i <= states; ++i)
    if (const Shape& got = call.input(i).shape; !(got == state))
      fail_batch(call.caller, call.op, argument_name(call.op, i), state, "[batch, hidden]", got, x);
  require_shape(call, weight + 1, Shape({biases * hidden}), "a number for each gate");
  const Shape& rows = call.input(lengths).shape;
  if (rows.elements() || rows.rank() != 1)
    require_shape(call, lengths, Shape({x.data()[1]}), "one for each sequence");
  return {x.data()[0], x.data()[1], hidden};
}

/// What kernels keep for the gradient: on the CPU, numbers of this shape. A backend that keeps
/// something of its own makes it int32, so that nobody takes it for numbers. It has room for both.
void keep(Inference& call, const Shape& shape) {
  const DType dtype = call.input(0).dtype;
  Backend* const backend = backend_of(call.device.kind);
  const std::size_t own = backend ? backend->kept_bytes(call) : 0;
  if (own == 0) {
    call.output(dtype, shape);
    return;
  }
  const auto bytes =
      std::max<std::int64_t>(static_cast<std::int64_t>(own), shape.elements() * size_of(dtype));
  call.output(DType::int32, {(bytes + 3) / 4});
}

void lstm_shape(Inference& call) {
  const auto [time, batch, hidden] = sequence_sizes(call, 2, 4, 4);
  const DType dtype = call.input(0).dtype;
  const Shape state({batch, hidden});
  call.output(dtype, {time, batch, hidden});
  call.output(dtype, state);
  call.output(dtype, state);
  keep(call, {time * batch, 5 * hidden});  // the activated gates of all steps, then the cells
}

void gru_shape(Inference& call) {
  const auto [time, batch, hidden] = sequence_sizes(call, 1, 3, 4);
  const DType dtype = call.input(0).dtype;
  call.output(dtype, {time, batch, hidden});
  call.output(dtype, {batch, hidden});
  // The activated gates of all steps, then the state's shares of n.
  keep(call, {time * batch, 4 * hidden});
}

/// Lengths as the ops take them: none if every sequence has all steps.
Tensor lengths_of(const Op& op, const Operand& x, const SequenceOptions& options) {
  if (!options.lengths.defined()) {
    const PlaceScope place(Context::here(), x);
    return zeros({0}, {DType::int32}, x.caller());
  }
  const Shape &shape = options.lengths.shape(), of_x = shape_of(op, x);
  if (of_x.rank() == 3 && !(shape == Shape({of_x.data()[1]})))
    fail_batch(x.caller(), op, "lengths", Shape({of_x.data()[1]}), "one for each sequence", shape,
               of_x);
  return options.lengths;
}

struct SampleShape {
  std::int64_t time, batch, in, hidden;
  Layout layout = Layout::plain;
};
using SequenceCall = Tensor (*)(const std::vector<Tensor>&, const SequenceOptions&, int);

/// Samples of each result alone and of all results, forward and reversed, with and without lengths.
void sequence_samples(SampleList out, SequenceCall f, int states, std::int64_t gates,
                      std::int64_t biases) {
  using enum Layout;
  const SampleShape shapes[] = {
      {1, 1, 1, 1},           {2, 2, 2, 1},          {3, 2, 1, 2, transposed},
      {3, 2, 1, 1, reversed}, {2, 2, 3, 1, stepped}, {0, 2, 1, 2},
      {2, 0, 1, 2},           {2, 1, 0, 2},          {3, 2, 1, 1, repeated}};
  unsigned seed = 0;
  for (const auto& [time, batch, in, hidden, layout] : shapes)
    for (const bool reverse : {false, true}) {
      const bool ragged = ++seed / 2 % 2 == 0;
      std::vector<Tensor> inputs = {drawn({time, batch, in}, layout, {}, seed)};
      for (int i = 0; i < states; ++i)
        inputs.push_back(drawn({batch, hidden}, layout, {}, seed + 3));
      inputs.push_back(drawn({in + hidden, gates * hidden}, layout, {-1, 1}, seed + 6));
      inputs.push_back(drawn({biases * hidden}, {-1, 1}, seed + 9));
      if (ragged) inputs.push_back((arange(0, batch) * 2 + seed) % (time + 1));
      // Each result alone once, so that the others have no gradient; all results in the other
      // samples.
      for (int result = time == 2 && in == 2 ? 0 : states + 1; result < states + 2; ++result)
        sample(
            out, inputs,
            [=](const std::vector<Tensor>& given) {
              return f(given, {ragged ? given.back() : Tensor(), reverse}, result);
            },
            reverse ? "reversed" : "");
    }
}

Tensor lstm_result(const std::vector<Tensor>& in, const SequenceOptions& options, int result) {
  const LSTMSequence all = lstm(in[0], in[1], in[2], in[3], in[4], options);
  if (result == 0) return all.outputs;
  if (result == 1) return all.h;
  if (result == 2) return all.c;
  return sum(all.outputs, 0) + 2 * all.h - all.c;
}

Tensor gru_result(const std::vector<Tensor>& in, const SequenceOptions& options, int result) {
  const GRUSequence all = gru(in[0], in[1], in[2], in[3], options);
  if (result == 0) return all.outputs;
  return result == 1 ? all.h : sum(all.outputs, 0) + 2 * all.h;
}

constexpr std::uint16_t gru_needs = 0x1f | need_output(0) | need_output(2);
constexpr std::uint16_t lstm_needs = 0x3f | need_output(0) | need_output(3);
}  // namespace

constinit Op gru_op{.name = "gru",
                    .arity = 5,
                    .shape = gru_shape,
                    .promote = Promote::numeric,
                    .promoted = 0xf,
                    .options = &options_type<DirectionOptions>,
                    .check = any_options,
                    .needs = {{gru_needs, gru_needs, gru_needs, gru_needs}},
                    .contiguous_inputs = true,
                    .autocast = Autocast::low,
                    .kept = 2,
                    .samples = [](SampleList out) { sequence_samples(out, gru_result, 1, 3, 4); },
                    .argument_names = "x, h, weight, bias, lengths"};
constinit Op lstm_op{.name = "lstm",
                     .arity = 6,
                     .shape = lstm_shape,
                     .promote = Promote::numeric,
                     .promoted = 0x1f,
                     .options = &options_type<DirectionOptions>,
                     .check = any_options,
                     .needs = {{lstm_needs, lstm_needs, lstm_needs, lstm_needs}},
                     .contiguous_inputs = true,
                     .autocast = Autocast::low,
                     .kept = 3,
                     .samples = [](SampleList out) { sequence_samples(out, lstm_result, 2, 4, 4); },
                     .argument_names = "x, h, c, weight, bias, lengths"};

GRUSequence gru(Operand x, Operand h, Operand weight, Operand bias,
                const SequenceOptions& options) {
  const Tensor lengths = lengths_of(gru_op, x, options);
  const Operand inputs[] = {x, h, weight, bias, lengths};
  const DirectionOptions direction{options.reverse};
  SmallVector<Tensor, 2> made;
  run(gru_op, inputs, direction, x.caller(), made);
  return {std::move(made[0]), std::move(made[1])};
}

LSTMSequence lstm(Operand x, Operand h, Operand c, Operand weight, Operand bias,
                  const SequenceOptions& options) {
  const Tensor lengths = lengths_of(lstm_op, x, options);
  const Operand inputs[] = {x, h, c, weight, bias, lengths};
  const DirectionOptions direction{options.reverse};
  SmallVector<Tensor, 2> made;
  run(lstm_op, inputs, direction, x.caller(), made);
  return {std::move(made[0]), std::move(made[1]), std::move(made[2])};
}

const Entry sequence_ops[] = {&gru_op, &lstm_op, nullptr};
}  // namespace reel
