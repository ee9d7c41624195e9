// SPDX-License-Identifier: BSD-3-Clause
// Cells: one step of a recurrent network. You write the loop over time. x is [batch, in].
#pragma once  // defined in lib/nn
#include <type_traits>

#include <reel/activation.hpp>
#include <reel/fields.hpp>
#include <reel/ops/create.hpp>

namespace reel::nn {
/// h' = activation([x, h] weight + bias) (Elman 1990).
struct REEL_API RNNCell {
  Variable weight, bias;  // [in + hidden, hidden], [hidden]
  Activation activation = Activation::tanh;
  RNNCell(Extent in, Extent hidden, TensorOptions options = {}, Caller caller = Caller::here());
  template <class A>
  requires std::is_same_v<A, Activation>  // and not {}
  RNNCell(Extent in, Extent hidden, A function, TensorOptions options = {},
          Caller caller = Caller::here())
      : RNNCell(in, hidden, options, function, caller) {}
  RNNCell(Extent in, Extent hidden, TensorOptions options, Activation activation, Caller caller);
  /// Zeros [batch, hidden]. The dtype is that of the weights.
  Tensor initial_state(Extent batch, Caller caller = Caller::here()) const;
  /// The next h [batch, hidden], for x [batch, in] and h [batch, hidden]. x and the weights come to
  /// one floating dtype, which the result has.
  Tensor operator()(Operand x, Operand h) const;
  void fields(auto&& field) {
    field("weight", weight);
    field("bias", bias);
  }
};

/// A gated recurrent unit. gru() has the formula and the order of the weights.
struct REEL_API GRUCell {
  Variable weight, bias;  // [in + hidden, 3 hidden], [4 hidden]
  GRUCell(Extent in, Extent hidden, TensorOptions options = {}, Caller caller = Caller::here());
  /// Zeros [batch, hidden]. The dtype is that of the weights.
  Tensor initial_state(Extent batch, Caller caller = Caller::here()) const;
  /// The next h [batch, hidden], for x [batch, in] and h [batch, hidden]. x and the weights come to
  /// one floating dtype, which the result has.
  Tensor operator()(Operand x, Operand h) const;
  void fields(auto&& field) {
    field("weight", weight);
    field("bias", bias);
  }
};

/// The state of an LSTM: h [batch, hidden] and the cell c [batch, hidden].
struct LSTMState {
  Tensor h, c;
  void fields(auto&& field) {
    field("h", h);
    field("c", c);
  }
};

/// Options of LSTM cells and tree cells.
struct LSTMOptions {
  double forget_bias =
      1;  // first value of the bias of f: a new cell remembers (Jozefowicz et al. 2015)
  DType dtype = DType::float32;
};
/// Long short-term memory. The gates i, f, g, o are [x, h] weight + bias; see lstm_gates().
struct REEL_API LSTMCell {
  Variable weight, bias;  // [in + hidden, 4 hidden], [4 hidden]
  LSTMCell(Extent in, Extent hidden, LSTMOptions options = {}, Caller caller = Caller::here());
  /// Zeros [batch, hidden] for h and c. The dtype is that of the weights.
  LSTMState initial_state(Extent batch, Caller caller = Caller::here()) const;
  /// The next state, for x [batch, in]. x and the weights come to one floating dtype, which the
  /// result has.
  LSTMState operator()(Operand x, const LSTMState& state) const;
  void fields(auto&& field) {
    field("weight", weight);
    field("bias", bias);
  }
};
}  // namespace reel::nn
