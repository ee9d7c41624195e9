// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/nn/tree.hpp>
#include <reel/ops/activation.hpp>
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/matmul.hpp>
#include <reel/ops/recurrent.hpp>
#include <reel/ops/reduce.hpp>
#include <reel/ops/reshape.hpp>

#include <utility>

#include "lib/nn/check.hpp"
#include "lib/nn/gates.hpp"

namespace reel::nn {
TreeLSTMCell::TreeLSTMCell(Extent in, Extent hidden, LSTMOptions options, Caller caller)
    : weight(parameter("TreeLSTMCell", "weight", caller,
                       [&] {
                         return gate_weight(2 * checked("TreeLSTMCell", "hidden", hidden, caller),
                                            hidden.value, 5, options.dtype, caller);
                       })),
      bias(parameter("TreeLSTMCell", "bias", caller,
                     [&] { return gate_bias(hidden, 5, 1, 3, options, caller); })),
      leaf_weight(parameter("TreeLSTMCell", "leaf_weight", caller,
                            [&] {
                              return gate_weight(checked("TreeLSTMCell", "in", in, caller),
                                                 hidden.value, 3, options.dtype, caller);
                            })),
      leaf_bias(parameter("TreeLSTMCell", "leaf_bias", caller,
                          [&] { return zeros({3 * hidden.value}, {options.dtype}, caller); })) {}

LSTMState TreeLSTMCell::leaf(Operand x) const {
  const CallerScope here(x.caller(), "TreeLSTMCell");
  check_width("TreeLSTMCell", "x", x, leaf_weight.shape()[0]);
  auto state = tree_lstm_leaf_gates(matmul_add(x, leaf_weight, leaf_bias));
  return {std::move(state.h), std::move(state.c)};
}

LSTMState TreeLSTMCell::operator()(const LSTMState& left, const LSTMState& right,
                                   Caller caller) const {
  const CallerScope here(caller, "TreeLSTMCell");
  auto next =
      tree_lstm_gates(matmul_add(concat({left.h, right.h}, 1), weight, bias), left.c, right.c);
  return {std::move(next.h), std::move(next.c)};
}

ChildSumTreeLSTMCell::ChildSumTreeLSTMCell(Extent in, Extent hidden, LSTMOptions options,
                                           Caller caller)
    : weight(parameter("ChildSumTreeLSTMCell", "weight", caller,
                       [&] {
                         return gate_weight(
                             checked("ChildSumTreeLSTMCell", "in", in, caller),
                             checked("ChildSumTreeLSTMCell", "hidden", hidden, caller), 4,
                             options.dtype, caller);
                       })),
      bias(parameter("ChildSumTreeLSTMCell", "bias", caller,
                     [&] { return gate_bias(hidden, 4, 3, 4, options, caller); })),
      children(parameter(
          "ChildSumTreeLSTMCell", "children", caller,
          [&] { return gate_weight(hidden.value, hidden.value, 3, options.dtype, caller); })),
      forget(parameter("ChildSumTreeLSTMCell", "forget", caller, [&] {
        return gate_weight(hidden.value, hidden.value, 1, options.dtype, caller);
      })) {}

LSTMState ChildSumTreeLSTMCell::operator()(Operand x, const std::vector<LSTMState>& states) const {
  const CallerScope here(x.caller(), "ChildSumTreeLSTMCell");
  check_width("ChildSumTreeLSTMCell", "x", x, weight.shape()[0]);
  const std::int64_t hidden = forget.shape()[0];
  const Tensor word = matmul_add(x, weight, bias), gates = word(all, range(0, 3 * hidden));
  if (states.empty()) {
    auto leaf = tree_lstm_leaf_gates(gates);
    return {std::move(leaf.h), std::move(leaf.c)};
  }
  const Tensor of_word = word(all, range(3 * hidden, {}));
  Tensor sum = states[0].h, kept;
  for (std::size_t k = 1; k < states.size(); ++k) sum = sum + states[k].h;
  for (const LSTMState& child : states) {
    Tensor part = sigmoid(matmul_add(child.h, forget, of_word)) * child.c;
    kept = kept.defined() ? std::move(kept) + std::move(part) : std::move(part);
  }
  auto next = child_sum_gates(matmul_add(std::move(sum), children, gates), std::move(kept));
  return {std::move(next.h), std::move(next.c)};
}

SPINNCell::SPINNCell(Extent hidden, Extent tracking, LSTMOptions options, Caller caller)
    : weight(parameter("SPINNCell", "weight", caller,
                       [&] {
                         return gate_weight(2 * checked("SPINNCell", "hidden", hidden, caller) +
                                                checked("SPINNCell", "tracking", tracking, caller),
                                            hidden.value, 5, options.dtype, caller);
                       })),
      bias(parameter("SPINNCell", "bias", caller,
                     [&] { return gate_bias(hidden, 5, 1, 3, options, caller); })) {}

LSTMState SPINNCell::operator()(const LSTMState& left, const LSTMState& right,
                                Operand tracking) const {
  const CallerScope here(tracking.caller(), "SPINNCell");
  check_width("SPINNCell", "tracking", tracking, weight.shape()[0] - 2 * (bias.shape()[0] / 5));
  auto next = tree_lstm_gates(matmul_add(concat({left.h, right.h, tracking}, 1), weight, bias),
                              left.c, right.c);
  return {std::move(next.h), std::move(next.c)};
}
}  // namespace reel::nn
