// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/nn/initialize.hpp>
#include <reel/nn/recurrent.hpp>
#include <reel/ops/activation.hpp>
#include <reel/ops/matmul.hpp>
#include <reel/ops/recurrent.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/random.hpp>

#include <cmath>
#include <utility>
#include <vector>

#include "lib/body/room.hpp"
#include "lib/nn/check.hpp"
#include "lib/nn/gates.hpp"

namespace reel::nn {
Tensor gate_weight(std::int64_t in, std::int64_t hidden, int gates, DType dtype, Caller caller) {
  const double limit = std::sqrt(6 / static_cast<double>(in + hidden));
  return random::uniform({in, hidden * gates}, {.low = -limit, .high = limit, .dtype = dtype},
                         caller);
}

Tensor gate_bias(Extent hidden, int gates, int first_forget, int end_forget, LSTMOptions options,
                 Caller caller) {
  if (!std::isfinite(options.forget_bias))
    fail<Error>(caller, "gates", "forget_bias", "a finite number",
                error_text("{}", options.forget_bias));
  auto parts = room_for<Tensor>(static_cast<std::size_t>(gates), caller, "gates");
  for (int gate = 0; gate < gates; ++gate) {
    const bool forget = gate >= first_forget && gate < end_forget;
    parts.push_back(constant({hidden}, forget ? options.forget_bias : 0, {options.dtype}, caller));
  }
  return concat(Operands(parts, caller));
}

RNNCell::RNNCell(Extent in, Extent hidden, TensorOptions options, Caller caller)
    : RNNCell(in, hidden, options, Activation::tanh, caller) {}

RNNCell::RNNCell(Extent in, Extent hidden, TensorOptions options, Activation activation,
                 Caller caller)
    : weight(parameter("RNNCell", "weight", caller,
                       [&] {
                         return glorot_uniform({checked("RNNCell", "in", in, caller) +
                                                    checked("RNNCell", "hidden", hidden, caller),
                                                hidden},
                                               options, caller);
                       })),
      bias(parameter("RNNCell", "bias", caller, [&] { return zeros({hidden}, options, caller); })),
      activation(activation) {}

Tensor RNNCell::initial_state(Extent batch, Caller caller) const {
  const CallerScope here(caller, "RNNCell");
  return zeros({batch, bias.shape()[0]}, {bias.dtype()}, caller).to(bias.device(), caller);
}

Tensor RNNCell::operator()(Operand x, Operand h) const {
  const CallerScope here(x.caller(), "RNNCell");
  const std::int64_t hidden = bias.shape()[0];
  check_cell("RNNCell", x, weight.shape()[0] - hidden, h, hidden);
  return dense(concat({x, h}, 1), weight, bias, activation);
}

GRUCell::GRUCell(Extent in, Extent hidden, TensorOptions options, Caller caller)
    : weight("weight",
             gate_weight(checked("GRUCell", "in", in, caller) +
                             checked("GRUCell", "hidden", hidden, caller),
                         hidden.value, 3, checked("GRUCell", options.dtype, caller), caller),
             caller),
      bias("bias", zeros({hidden.value * 4}, options, caller), caller) {}

Tensor GRUCell::initial_state(Extent batch, Caller caller) const {
  return zeros({batch, bias.shape()[0] / 4}, {bias.dtype()}, caller).to(bias.device(), caller);
}

Tensor GRUCell::operator()(Operand x, Operand h) const {
  const CallerScope here(x.caller(), "GRUCell");
  const std::int64_t hidden = bias.shape()[0] / 4;
  check_cell("GRUCell", x, weight.shape()[0] - hidden, h, hidden);
  return gru(expand_dims(x, 0), h, weight, bias).h;
}

LSTMCell::LSTMCell(Extent in, Extent hidden, LSTMOptions options, Caller caller)
    : weight(parameter("LSTMCell", "weight", caller,
                       [&] {
                         return gate_weight(checked("LSTMCell", "in", in, caller) +
                                                checked("LSTMCell", "hidden", hidden, caller),
                                            hidden.value, 4, options.dtype, caller);
                       })),
      bias(parameter("LSTMCell", "bias", caller,
                     [&] { return gate_bias(hidden, 4, 1, 2, options, caller); })) {}

LSTMState LSTMCell::initial_state(Extent batch, Caller caller) const {
  const CallerScope here(caller, "LSTMCell");
  const Tensor zero =
      zeros({batch, bias.shape()[0] / 4}, {bias.dtype()}, caller).to(bias.device(), caller);
  return {zero, zero};
}

LSTMState LSTMCell::operator()(Operand x, const LSTMState& state) const {
  const CallerScope here(x.caller(), "LSTMCell");
  const std::int64_t hidden = bias.shape()[0] / 4;
  check_cell("LSTMCell", x, weight.shape()[0] - hidden, state.h, hidden);
  auto next = lstm_gates(matmul_add(concat({x, state.h}, 1), weight, bias), state.c);
  return {std::move(next.h), std::move(next.c)};
}
}  // namespace reel::nn
