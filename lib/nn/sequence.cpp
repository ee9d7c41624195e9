// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/nn/sequence.hpp>
#include <reel/nn/sequential.hpp>
#include <reel/ops/recurrent.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/random.hpp>
#include <reel/train.hpp>

#include <utility>

#include "lib/body/room.hpp"
#include "lib/nn/check.hpp"

namespace reel::nn {
namespace {
/// A cell for each layer and direction; cell(in) makes one.
template <class Options, class Make>
auto cells_of(std::string_view name, std::int64_t in, std::int64_t hidden, const Options& options,
              Caller caller, const Make& cell) {
  const std::int64_t layers = checked(name, "layers", options.layers, caller);
  check_number(options.dropout >= 0 && options.dropout < 1, name, "dropout",
               "0 or more and below 1", options.dropout, caller);
  if (layers == 1 && options.dropout > 0)
    fail<Error>(caller, name, "dropout", "0, as one layer has nothing between layers",
                error_text("{}", options.dropout), "nn::Dropout drops elements of the outputs.");
  const std::int64_t directions = options.bidirectional ? 2 : 1;
  auto cells =
      room_for<decltype(cell(in))>(static_cast<std::size_t>(layers * directions), caller, name);
  for (std::int64_t i = 0; i < layers * directions; ++i)
    cells.push_back(cell(i < directions ? in : directions * hidden));
  return cells;
}

template <class Layers>
auto zero_states(const Layers& layers, Extent batch, Caller caller) {
  auto states = room_for<decltype(layers.cells[0].initial_state(batch))>(layers.cells.size(),
                                                                         caller, "initial_states");
  for (const auto& cell : layers.cells) states.push_back(cell.initial_state(batch, caller));
  return states;
}

/// The outputs of the last layer. step(i, x, options) runs cell i and gives its outputs; it finds
/// its state in `states`, which are made here if there are none.
template <class Layers, class State, class Step>
Tensor run_layers(std::string_view name, const Layers& layers, const Operand& input,
                  std::vector<State>& states, const Tensor& lengths, const Step& step) {
  Tensor x = input.value();
  const std::size_t count = layers.cells.size(), directions = layers.bidirectional ? 2 : 1;
  // The op refuses an x that is not a sequence.
  if (states.empty())
    states = layers.initial_states(x.defined() && x.rank() == 3 ? x.shape()[1] : 0);
  if (states.size() != count)
    fail<ShapeError>(input.caller(), name, "states", error_text("{}, one for each cell", count),
                     to_text(states.size()));
  for (std::size_t i = 0; i < count; i += directions) {
    if (i > 0 && layers.dropout > 0 && training()) x = reel::dropout(x, layers.dropout);
    Tensor outputs = step(i, x, SequenceOptions{lengths, false});
    if (directions == 2)
      outputs = concat({outputs, step(i + 1, x, SequenceOptions{lengths, true})}, 2);
    x = std::move(outputs);
  }
  return x;
}
}  // namespace

LSTM::LSTM(Extent in, Extent hidden, LSTMLayersOptions options, Caller caller)
    : cells(cells_of("LSTM", in.value, hidden.value, options, caller,
                     [&](std::int64_t width) {
                       return LSTMCell(width, hidden, {options.forget_bias, options.dtype}, caller);
                     })),
      bidirectional(options.bidirectional),
      dropout(options.dropout) {}

std::vector<LSTMState> LSTM::initial_states(Extent batch, Caller caller) const {
  return zero_states(*this, batch, caller);
}

LSTMOutput LSTM::operator()(Operand x, const std::vector<LSTMState>& states,
                            const Tensor& lengths) const try {
  const CallerScope here(x.caller(), "LSTM");
  check_sequence("LSTM", x, cells[0].weight.shape()[0] - cells[0].bias.shape()[0] / 4);
  LSTMOutput out{{}, states};
  out.outputs = run_layers("LSTM", *this, x, out.states, lengths,
                           [&](std::size_t i, const Tensor& input, const SequenceOptions& options) {
                             LSTMState& state = out.states[i];
                             auto all = lstm(input, state.h, state.c, cells[i].weight,
                                             cells[i].bias, options);
                             state = {std::move(all.h), std::move(all.c)};
                             return std::move(all.outputs);
                           });
  return out;
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "LSTM");
}

GRU::GRU(Extent in, Extent hidden, GRULayersOptions options, Caller caller)
    : cells(cells_of(
          "GRU", in.value, hidden.value, options, caller,
          [&](std::int64_t width) { return GRUCell(width, hidden, {options.dtype}, caller); })),
      bidirectional(options.bidirectional),
      dropout(options.dropout) {}

std::vector<Tensor> GRU::initial_states(Extent batch, Caller caller) const {
  return zero_states(*this, batch, caller);
}

GRUOutput GRU::operator()(Operand x, const std::vector<Tensor>& states, const Tensor& lengths) const
    try {
  const CallerScope here(x.caller(), "GRU");
  check_sequence("GRU", x, cells[0].weight.shape()[0] - cells[0].bias.shape()[0] / 4);
  GRUOutput out{{}, states};
  out.outputs = run_layers("GRU", *this, x, out.states, lengths,
                           [&](std::size_t i, const Tensor& input, const SequenceOptions& options) {
                             auto all =
                                 gru(input, out.states[i], cells[i].weight, cells[i].bias, options);
                             out.states[i] = std::move(all.h);
                             return std::move(all.outputs);
                           });
  return out;
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "GRU");
}
}  // namespace reel::nn
