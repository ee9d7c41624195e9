// SPDX-License-Identifier: BSD-3-Clause
// Recurrent layers of any cell, and batches of sequences of different lengths. nn::LSTM and nn::GRU
// have kernels for whole sequences.
#pragma once  // defined in lib/nn
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/indexing.hpp>
#include <reel/nn/recurrent.hpp>
#include <reel/ops/compare.hpp>
#include <reel/ops/reshape.hpp>

namespace reel::nn {
/// Options of Recurrent.
struct RecurrentOptions {
  std::int64_t layers = 1;
  bool bidirectional = false;  // a second cell runs from the last step to the first
  double dropout = 0;          // between layers, of which there must be two; while training()
};
/// What Recurrent returns: outputs [time, batch, hidden] of the last layer ([time, batch, 2 hidden]
/// if bidirectional), and the last state of each cell, to continue from.
template <class State>
struct RecurrentOutput {
  Tensor outputs;
  std::vector<State> states;
  void fields(auto&& field) {
    field("outputs", outputs);
    field("states", states);
  }
};

}  // namespace reel::nn

namespace reel::detail {
REEL_API void check_recurrent(std::int64_t in, std::int64_t hidden,
                              const nn::RecurrentOptions& options, Caller caller);
/// Throws ShapeError unless x is [time, batch, in], there is a state for each cell, or none, and
/// lengths is [batch] or undefined.
REEL_API void check_recurrent(const Operand& x, std::size_t cells, std::size_t states,
                              const Tensor& lengths);
/// x, of which elements are dropped while training().
REEL_API Tensor dropped(const Tensor& x, double probability);

inline const Tensor& h_of(const Tensor& state) { return state; }
inline const Tensor& h_of(const auto& state) { return state.h; }

/// `next` in the rows that run, else `state`.
inline Tensor chosen(const Tensor& runs, const Tensor& next, const Tensor& state) {
  return where(runs, next, state);
}
template <class State>
State chosen(const Tensor& runs, State next, State state) {
  std::vector<Tensor> before;
  reel::detail::visit_fields(
      state, [&](std::string_view, const Tensor& member) { before.push_back(member); });
  std::size_t i = 0;
  reel::detail::visit_fields(
      next, [&](std::string_view, Tensor& member) { member = where(runs, member, before[i++]); });
  return next;
}

/// Runs a cell over a sequence, and gives its outputs. `state` is the first one, then the last one.
template <class Cell, class State>
Tensor run_cell(const Cell& cell, const Tensor& x, State& state, const Tensor& lengths,
                bool reverse) {
  const std::int64_t time = x.shape()[0];
  if (time == 0) return expand_dims(h_of(state), 0)(range(0, 0));
  std::vector<Tensor> outputs(static_cast<std::size_t>(time));
  for (std::int64_t step = 0; step < time; ++step) {
    const std::int64_t t = reverse ? time - 1 - step : step;
    Tensor& output = outputs[static_cast<std::size_t>(t)];
    if (lengths.defined()) {
      // NaN in padding, times a gradient of 0, would reach the weights.
      const Tensor runs = expand_dims(lengths, 1) > t;
      State next = cell(where(runs, x(t), 0), state);
      output = where(runs, h_of(next), 0);
      state = chosen(runs, std::move(next), std::move(state));
    } else {
      state = cell(x(t), state);
      output = h_of(state);
    }
  }
  return stack(outputs);
}
}  // namespace reel::detail

namespace reel::nn {

/// Layers of cells of any type over sequences x [time, batch, in]. `cell(x, state)` takes x
/// [batch, in] and returns the next state. A state is a Tensor h [batch, hidden], or a struct with
/// a member h that lists its members. Sequences may have lengths [batch], as in lstm(): outputs
/// after the end of a sequence are 0, and its last state is the one at its end. Padding may hold
/// any values, even NaN: there a cell gets zeros.
///
///     nn::Recurrent<nn::RNNCell> rnn(3, 4, {.layers = 2, .bidirectional = true});
template <class Cell>
struct Recurrent {
  using State = decltype(std::declval<const Cell&>().initial_state(1));
  std::vector<Cell> cells;  // layer by layer; forward, then backward if bidirectional
  bool bidirectional;
  double dropout;
  /// Makes cells: Cell(in, hidden).
  Recurrent(Extent in, Extent hidden, RecurrentOptions options = {}, Caller caller = Caller::here())
      : Recurrent(
            in, hidden, options, [](Extent i, Extent h) { return Cell(i, h); }, caller) {}
  /// Makes cells: make(in, hidden).
  template <class Make>
  requires std::is_invocable_r_v<Cell, const Make&, Extent, Extent> Recurrent(
      Extent in, Extent hidden, RecurrentOptions options, const Make& make,
      Caller caller = Caller::here())
  try : bidirectional(options.bidirectional), dropout(options.dropout) {
    const CallerScope here(caller, "Recurrent");
    detail::check_recurrent(in.value, hidden.value, options, caller);
    const std::int64_t directions = bidirectional ? 2 : 1;
    for (std::int64_t i = 0; i < options.layers * directions; ++i)
      cells.push_back(make(i < directions ? in.value : directions * hidden.value, hidden));
  } catch (const std::bad_alloc&) {
    fail_memory(caller, "Recurrent");
  }
  /// The first state of each cell.
  std::vector<State> initial_states(Extent batch, Caller caller = Caller::here()) const try {
    const CallerScope here(caller, "Recurrent");
    std::vector<State> states;
    for (const Cell& cell : cells) states.push_back(cell.initial_state(batch));
    return states;
  } catch (const std::bad_alloc&) {
    fail_memory(caller, "Recurrent");
  }
  /// Starts from `states`, one for each cell, or from initial_states() if there are none. x is
  /// [time, batch, in], the outputs are [time, batch, ...], twice as wide if bidirectional. lengths
  /// are [batch], integers; behind the end of a sequence its outputs are 0.
  RecurrentOutput<State> operator()(Operand x, const std::vector<State>& states = {},
                                    const Tensor& lengths = {}) const try {
    const CallerScope here(x.caller(), "Recurrent");
    detail::check_recurrent(x, cells.size(), states.size(), lengths);
    RecurrentOutput<State> out{x.value(), states};
    if (states.empty()) out.states = initial_states(out.outputs.shape()[1], x.caller());
    const std::size_t directions = bidirectional ? 2 : 1;
    for (std::size_t i = 0; i < cells.size(); i += directions) {
      const Tensor input = i > 0 ? detail::dropped(out.outputs, dropout) : out.outputs;
      out.outputs = detail::run_cell(cells[i], input, out.states[i], lengths, false);
      if (bidirectional)
        out.outputs = concat(
            {out.outputs, detail::run_cell(cells[i + 1], input, out.states[i + 1], lengths, true)},
            2);
    }
    return out;
  } catch (const std::bad_alloc&) {
    fail_memory(x.caller(), "Recurrent");
  }
  void fields(auto&& field) { field("cells", cells); }
};

/// Sequences as one tensor: values [time, batch, ...] and lengths [batch], int64.
struct PaddedSequences {
  Tensor values, lengths;
  void fields(auto&& field) {
    field("values", values);
    field("lengths", lengths);
  }
};
/// Puts sequences [length, ...] into one tensor; `padding` fills the end of the shorter ones.
/// Throws ShapeError for no sequences, for a single number, and if the sequences differ in another
/// axis than the first.
///
///     nn::pad_sequences({tensor({1, 2, 3}), tensor({4})}).values     // [[1, 4], [2, 0], [3, 0]]
REEL_API PaddedSequences pad_sequences(const std::vector<Tensor>& sequences, Scalar padding = 0,
                                       Caller caller = Caller::here());
/// The sequences [length, ...] in values [time, batch, ...], without their padding. They are views.
/// Throws IndexError for a length outside 0 to time. x has any dtype, and the result has its dtype.
///
///     nn::unpad_sequences(tensor({{1, 4}, {2, 0}}), tensor({2, 1}))[1]     // [4]
REEL_API std::vector<Tensor> unpad_sequences(Operand values, const Tensor& lengths);
}  // namespace reel::nn
