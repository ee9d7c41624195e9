// SPDX-License-Identifier: BSD-3-Clause
// The element-wise part of recurrent cells, in one step. Floating dtypes.
#pragma once
#include <reel/tensor.hpp>

namespace reel {
struct HiddenAndCell {
  Tensor h, c;
};
/// The gates of an LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al.
/// 2000): gates [..., 4 n] hold i, f, g, o before their bends, c [..., n] is the last cell.
/// c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').
REEL_API HiddenAndCell lstm_gates(Operand gates, Operand c);
/// The gates of a binary tree LSTM (Tai, Socher and Manning 2015): gates [..., 5 n] hold i, f of
/// the left child, f of the right child, g, o. c' = sigmoid(i) tanh(g) + sigmoid(fl) cl +
/// sigmoid(fr) cr, h' = sigmoid(o) tanh(c').
REEL_API HiddenAndCell tree_lstm_gates(Operand gates, Operand c_left, Operand c_right);
}  // namespace reel
