// SPDX-License-Identifier: BSD-3-Clause
#include "rows.hpp"

namespace rows {
namespace {

/// nn::LSTMCell: one product, one op for the gates.
struct Fused {
  explicit Fused(std::size_t hidden) : cell(hidden, hidden) {
    cell.weight.assign(
        numbers(4, {2 * hidden, 4 * hidden}, 1 / std::sqrt(static_cast<float>(hidden))));
    cell.bias.assign(numbers(5, {4 * hidden}, 0.1f));
  }
  nn::LSTMCell cell;
  Tensor operator()(const Tensor& x, const nn::LSTMState& state) const { return cell(x, state).h; }
  std::vector<Variable> variables() const { return {cell.weight, cell.bias}; }
};

/// An LSTM cell from ops for numbers.
struct Primitive {
  explicit Primitive(std::size_t hidden)
      : weight("weight",
               numbers(4, {2 * hidden, 4 * hidden}, 1 / std::sqrt(static_cast<float>(hidden)))),
        bias("bias", numbers(5, {4 * hidden}, 0.1f)) {}
  Variable weight, bias;
  Tensor operator()(const Tensor& x, const nn::LSTMState& state) const {
    const Tensor sums = matmul_add(concat({x, state.h}, 1), weight, bias);
    const auto part = split(sums, 4, 1);  // i, f, g, o
    const Tensor c = sigmoid(part[1]) * state.c + sigmoid(part[0]) * tanh(part[2]);
    return sigmoid(part[3]) * tanh(c);
  }
  std::vector<Variable> variables() const { return {weight, bias}; }
};

template <class Cell>
struct Step {
  explicit Step(harness::CellSize size)
      : cell(size.hidden),
        x(numbers(1, {size.batch, size.hidden})),
        state{numbers(2, {size.batch, size.hidden}), numbers(3, {size.batch, size.hidden})} {}
  Cell cell;
  Tensor x;
  nn::LSTMState state;
};

template <class Cell>
struct Forward : Step<Cell> {
  using Step<Cell>::Step;
  Traced<Tensor(Tensor, nn::LSTMState)> trace_of_cell =
      trace([this](Tensor in, nn::LSTMState before) { return this->cell(in, before); });
  Tensor output() {
    return traced ? trace_of_cell(this->x, this->state) : this->cell(this->x, this->state);
  }
  void operator()() { keep(output()); }
  double value() { return squares(output()); }
};

template <class Cell>
struct Backward : Step<Cell> {
  explicit Backward(harness::CellSize size) : Step<Cell>(size) {}
  std::vector<Variable> variables = this->cell.variables();
  std::vector<Tensor> slopes(const Tensor& in, const nn::LSTMState& before) {
    GradientTape tape;
    return tape.gradient(sum(this->cell(in, before)), variables);
  }
  Traced<std::vector<Tensor>(Tensor, nn::LSTMState)> trace_of_slopes =
      trace([this](Tensor in, nn::LSTMState before) { return slopes(in, before); });
  std::vector<Tensor> gradients() {
    return traced ? trace_of_slopes(this->x, this->state) : slopes(this->x, this->state);
  }
  void operator()() { keep(gradients()); }
  double value() { return squares_of(gradients()); }
};

/// A whole sequence: one op, or a loop of the same cell.
template <bool loop>
struct Whole {
  static constexpr std::size_t steps = 64;
  explicit Whole(harness::CellSize size)
      : lstm(size.hidden, size.hidden), x(numbers(1, {steps, size.batch, size.hidden})) {
    lstm.cells[0].weight.assign(numbers(4, {2 * size.hidden, 4 * size.hidden}, 1.0f / 16));
    lstm.cells[0].bias.assign(numbers(5, {4 * size.hidden}, 0.1f));
  }
  nn::LSTM lstm;
  Tensor x;
  std::vector<Variable> variables = parameters(lstm);
  Tensor outputs() const {
    if (!loop) return lstm(x).outputs;
    auto state = lstm.cells[0].initial_state(x.shape()[1]);
    std::vector<Tensor> outputs;
    for (std::int64_t t = 0; t < x.shape()[0]; ++t) {
      state = lstm.cells[0](x(t), state);
      outputs.push_back(state.h);
    }
    return stack(outputs);
  }
};
template <bool loop>
struct WholeForward : Whole<loop> {
  using Whole<loop>::Whole;
  void operator()() { keep(this->outputs()); }
  double value() { return squares(this->outputs()); }
};
template <bool loop>
struct WholeBackward : Whole<loop> {
  using Whole<loop>::Whole;
  std::vector<Tensor> gradients() {
    GradientTape tape;
    return tape.gradient(sum(this->outputs()), this->variables);
  }
  void operator()() { keep(gradients()); }
  double value() { return squares_of(gradients()); }
};

}  // namespace

void add_lstm(harness::Rows& rows) {
  using harness::row, harness::traced_row, harness::small_cell, harness::large_cell;
  rows.push_back(traced_row<Forward<Fused>>("LSTM cell 10x10 fused, forward", 1, small_cell));
  rows.push_back(
      traced_row<Backward<Fused>>("LSTM cell 10x10 fused, with backward", 1, small_cell));
  rows.push_back(
      traced_row<Forward<Primitive>>("LSTM cell 10x10 primitive, forward", 1, small_cell));
  rows.push_back(
      traced_row<Backward<Primitive>>("LSTM cell 10x10 primitive, with backward", 1, small_cell));
  rows.push_back(traced_row<Forward<Fused>>("LSTM cell 32x256, forward", 1, large_cell));
  rows.push_back(traced_row<Backward<Fused>>("LSTM cell 32x256, with backward", 1, large_cell));
  rows.push_back(row<WholeForward<false>>("LSTM 64x32x256, forward", 1, large_cell));
  rows.push_back(row<WholeForward<true>>("LSTM 64x32x256 by loop, forward", 1, large_cell));
  rows.push_back(row<WholeBackward<false>>("LSTM 64x32x256, with backward", 1, large_cell));
  rows.push_back(row<WholeBackward<true>>("LSTM 64x32x256 by loop, with backward", 1, large_cell));
}

}  // namespace rows
