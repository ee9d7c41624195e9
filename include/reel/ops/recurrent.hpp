// SPDX-License-Identifier: BSD-3-Clause
// Recurrent networks: the elementwise part of one step, and whole sequences. Floating dtypes.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// The new state of an LSTM cell or tree node.
struct HiddenAndCell {
  Tensor h, c;
};
/// The new state of an LSTM from its gates (Hochreiter and Schmidhuber 1997, with the forget gate
/// of Gers et al. 2000). gates [..., 4 n] hold i, f, g, o before their activations; c [..., n] is
/// the previous cell. c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'). The
/// arguments come to one floating dtype.
REEL_API HiddenAndCell lstm_gates(Operand gates, Operand c);
/// The state of an inner node of a binary tree LSTM from its gates (Tai, Socher and Manning 2015).
/// gates [..., 5 n] hold i, f of the left child (fl), f of the right child (fr), g, o before their
/// activations. c' = sigmoid(i) tanh(g) + sigmoid(fl) cl + sigmoid(fr) cr, h' = sigmoid(o)
/// tanh(c'), where cl and cr are the cells of the children. The arguments come to one floating
/// dtype.
REEL_API HiddenAndCell tree_lstm_gates(Operand gates, Operand c_left, Operand c_right);
/// The state of a leaf of a binary tree LSTM. A leaf has no f; gates [..., 3 n] hold i, g, o. c =
/// sigmoid(i) tanh(g), h = sigmoid(o) tanh(c). The results have the floating dtype of the gates.
REEL_API HiddenAndCell tree_lstm_leaf_gates(Operand gates);
/// The state of a node of a child-sum tree LSTM from its gates (Tai, Socher and Manning 2015).
/// gates
/// [..., 3 n] hold i, g, o before their activations. kept [..., n] is the sum of sigmoid(f_k) c_k
/// over the children k, each with a forget gate of its own. c = sigmoid(i) tanh(g) + kept, h =
/// sigmoid(o) tanh(c). The arguments come to one floating dtype.
REEL_API HiddenAndCell child_sum_gates(Operand gates, Operand kept);

/// Options of gru() and lstm().
struct SequenceOptions {
  Tensor lengths = {};   // [batch], integers from 0 to time; all steps unless given
  bool reverse = false;  // from the last step to the first
};
/// What gru() returns.
struct GRUSequence {
  Tensor outputs, h;
};
/// Gated recurrent units (Cho et al. 2014) over x [time, batch, in] from the state h [batch,
/// hidden]. Time is the first axis, as in PyTorch and cuDNN. With a = x wx + b and s = h wh, both
/// in the order r, z, n: r = sigmoid(ar + sr), z = sigmoid(az + sz), n = tanh(an + r (sn + bs)), h'
/// = (1 - z) n + z h. As in PyTorch and cuDNN, r is applied after the product with h, so one
/// product is enough. The arguments come to one floating dtype.
///
/// weight [in + hidden, 3 hidden] is wx above wh; bias [4 hidden] is b, then bs. In the result,
/// outputs [time, batch, hidden] holds h of every step, and h is the last state. lengths as for
/// lstm().
REEL_API GRUSequence gru(Operand x, Operand h, Operand weight, Operand bias,
                         const SequenceOptions& options = {});

/// What lstm() returns.
struct LSTMSequence {
  Tensor outputs, h, c;
};
/// An LSTM over x [time, batch, in] from the states h and c [batch, hidden]. Time is the first
/// axis, as in PyTorch and cuDNN. weight [in + hidden, 4 hidden] and bias [4 hidden] are those of
/// nn::LSTMCell: [x, h] weight + bias are the gates of lstm_gates(). In the result, outputs [time,
/// batch, hidden] holds h of every step, and h and c are the last states. The arguments come to one
/// floating dtype.
///
///     lstm(zeros({5, 1, 2}), zeros({1, 3}), zeros({1, 3}), zeros({5, 12}), zeros({12})).outputs
///
/// Steps at and after the length of a sequence do not change its state, and their outputs are 0. So
/// a reversed sequence begins at its own last step. Throws IndexError for a length outside 0 to
/// time, and ShapeError for other shapes.
REEL_API LSTMSequence lstm(Operand x, Operand h, Operand c, Operand weight, Operand bias,
                           const SequenceOptions& options = {});
}  // namespace reel
