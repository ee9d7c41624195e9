// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"

namespace reel {
namespace {
/// Gate number k of [..., gates n], where c' is [..., n].
Tensor gate(GradientCall& call, int k) {
  const std::int64_t n = call.output(1).shape(-1);
  return call.input(0)(ellipsis, range(k * n, (k + 1) * n));
}

// h = o t, t = tanh c'        do = dh t, and dh o (1 - t^2) joins dc'
struct CellGradient {
  Tensor dgate_o, dc;
};
CellGradient cell_gradient(GradientCall& call, const Tensor& o) {
  const Tensor t = tanh(call.output(1));
  const Tensor& dh = call.dy(0);
  return {dh * t * o * (1 - o), call.dy(1) + dh * o * (1 - t * t)};
}

// c' = f c + i g        of a gate s = sigmoid a: da = ds s (1 - s), of g = tanh a: da = dg (1 -
// g^2)
void lstm_rule(GradientCall& call) {
  const Tensor i = sigmoid(gate(call, 0)), f = sigmoid(gate(call, 1));
  const Tensor g = tanh(gate(call, 2)), o = sigmoid(gate(call, 3));
  const auto [dgate_o, dc] = cell_gradient(call, o);
  if (call.wants(0))
    call.give(0, concat({dc * g * i * (1 - i), dc * call.input(1) * f * (1 - f),
                         dc * i * (1 - g * g), dgate_o},
                        -1));
  if (call.wants(1)) call.give(1, dc * f);
}

// c' = fl cl + fr cr + i g
void tree_lstm_rule(GradientCall& call) {
  const Tensor i = sigmoid(gate(call, 0)), g = tanh(gate(call, 3)), o = sigmoid(gate(call, 4));
  const Tensor left = sigmoid(gate(call, 1)), right = sigmoid(gate(call, 2));
  const auto [dgate_o, dc] = cell_gradient(call, o);
  if (call.wants(0))
    call.give(0, concat({dc * g * i * (1 - i), dc * call.input(1) * left * (1 - left),
                         dc * call.input(2) * right * (1 - right), dc * i * (1 - g * g), dgate_o},
                        -1));
  if (call.wants(1)) call.give(1, dc * left);
  if (call.wants(2)) call.give(2, dc * right);
}

// c' = i g, or i g + kept
void without_forget_gates(GradientCall& call) {
  const Tensor i = sigmoid(gate(call, 0)), g = tanh(gate(call, 1)), o = sigmoid(gate(call, 2));
  const auto [dgate_o, dc] = cell_gradient(call, o);
  if (call.wants(0))
    call.give(0, concat({dc * g * i * (1 - i), dc * i * (1 - g * g), dgate_o}, -1));
  if (call.input_count() > 1 && call.wants(1)) call.give(1, dc);
}
}  // namespace

const NamedRule recurrent_rules[] = {{"lstm_gates", lstm_rule},
                                     {"tree_lstm_gates", tree_lstm_rule},
                                     {"tree_lstm_leaf_gates", without_forget_gates},
                                     {"child_sum_gates", without_forget_gates},
                                     {nullptr, nullptr}};
}  // namespace reel
