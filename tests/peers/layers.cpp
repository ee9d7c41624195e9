// SPDX-License-Identifier: BSD-3-Clause
// Normalisation and recurrent networks.
#include "peers/rows.hpp"

namespace reel::tests::peers {
namespace {
using enum Layout;
constexpr Draw positive{0.2, 2};

Theirs lstm_gates(const at::Tensor& gates, const at::Tensor& c) {
  const auto part = gates.chunk(4, -1);
  const at::Tensor cell = sigmoid(part[1]) * c + sigmoid(part[0]) * tanh(part[2]);
  return {sigmoid(part[3]) * tanh(cell), cell};
}
Theirs tree_lstm_gates(const at::Tensor& gates, const at::Tensor& left, const at::Tensor& right) {
  const auto part = gates.chunk(5, -1);
  const at::Tensor cell =
      sigmoid(part[0]) * tanh(part[3]) + sigmoid(part[1]) * left + sigmoid(part[2]) * right;
  return {sigmoid(part[4]) * tanh(cell), cell};
}
Theirs tree_lstm_leaf_gates(const at::Tensor& gates) {
  const auto part = gates.chunk(3, -1);
  const at::Tensor cell = sigmoid(part[0]) * tanh(part[1]);
  return {sigmoid(part[2]) * tanh(cell), cell};
}
Theirs child_sum_gates(const at::Tensor& gates, const at::Tensor& kept) {
  const auto part = gates.chunk(3, -1);
  const at::Tensor cell = sigmoid(part[0]) * tanh(part[1]) + kept;
  return {sigmoid(part[2]) * tanh(cell), cell};
}
Ours listed(const HiddenAndCell& state) { return {state.h, state.c}; }

/// x, h, c, weight and bias as LibTorch takes them: [hidden, in] and two biases.
Theirs lstm(const Theirs& x, bool reverse) {
  const std::int64_t in = x[0].size(2);
  const at::Tensor bias = x[4], zero = at::zeros_like(bias);
  const auto [outputs, h, c] =
      at::lstm(reverse ? x[0].flip(0) : x[0], {x[1].unsqueeze(0), x[2].unsqueeze(0)},
               {x[3].slice(0, 0, in).t(), x[3].slice(0, in).t(), bias, zero}, true, 1, 0, false,
               false, false);
  return {reverse ? outputs.flip(0) : outputs, h.squeeze(0), c.squeeze(0)};
}
Theirs gru(const Theirs& x, bool reverse) {
  const std::int64_t in = x[0].size(2), hidden = x[1].size(1);
  const at::Tensor bias = x[3].slice(0, 0, 3 * hidden);
  const at::Tensor second =
      at::cat({at::zeros({2 * hidden}, bias.options()), x[3].slice(0, 3 * hidden)});
  const auto [outputs, h] = at::gru(reverse ? x[0].flip(0) : x[0], x[1].unsqueeze(0),
                                    {x[2].slice(0, 0, in).t(), x[2].slice(0, in).t(), bias, second},
                                    true, 1, 0, false, false, false);
  return {reverse ? outputs.flip(0) : outputs, h.squeeze(0)};
}
Ours our_lstm(const Ours& x, bool reverse) {
  const LSTMSequence y = reel::lstm(x[0], x[1], x[2], x[3], x[4], {.reverse = reverse});
  return {y.outputs, y.h, y.c};
}
Ours our_gru(const Ours& x, bool reverse) {
  const GRUSequence y = reel::gru(x[0], x[1], x[2], x[3], {.reverse = reverse});
  return {y.outputs, y.h};
}
/// A scale and a shift for this number of channels.
Tensor scale_of(const Tensor& x, std::int64_t n) { return drawn({n}, positive, 3).to(x.dtype()); }
Tensor shift_of(const Tensor& x, std::int64_t n) { return drawn({n}, {}, 5).to(x.dtype()); }
at::Tensor theirs_of(const Tensor& x) {
  return at::tensor(x.to(float64).to_vector<double>(),
                    x.dtype() == float32 ? at::kFloat : at::kDouble);
}

Ours batch_norm(const Tensor& x) {
  const nn::BatchNorm layer(x.shape(1), {.dtype = x.dtype(), .channels = Channels::first});
  Variable(layer.scale).assign(scale_of(x, x.shape(1)));
  Variable(layer.shift).assign(shift_of(x, x.shape(1)));
  return {layer(x)};
}
Ours group_norm(const Tensor& x) {
  const nn::GroupNorm layer(2, x.shape(1), {.dtype = x.dtype(), .channels = Channels::first});
  Variable(layer.scale).assign(scale_of(x, x.shape(1)));
  Variable(layer.shift).assign(shift_of(x, x.shape(1)));
  return {layer(x)};
}
Ours rms_norm(const Tensor& x) {
  const nn::RMSNorm layer(x.shape(-1), {.dtype = x.dtype()});
  Variable(layer.scale).assign(scale_of(x, x.shape(-1)));
  return {layer(x)};
}
/// Scale and shift of x's channels in axis 1.
at::Tensor scale_of(const at::Tensor& x, std::int64_t n) {
  return theirs_of(scale_of(zeros({}, {float64}), n)).to(x.dtype());
}
at::Tensor shift_of(const at::Tensor& x, std::int64_t n) {
  return theirs_of(shift_of(zeros({}, {float64}), n)).to(x.dtype());
}
}  // namespace

void add_layers(Rows& rows) {
  const Tensor scale = drawn({5}, positive, 3), shift = drawn({5}, {}, 5);
  rows.push_back(called(
      "layer_norm",
      {{drawn({5}), scale, shift},
       {drawn({3, 5}), scale, shift},
       {drawn({2, 3, 5}, transposed), scale, shift},
       {drawn({3, 5}, stepped), scale, shift},
       {drawn({0, 5}), scale, shift}},
      REEL_PAIR(layer_norm(x[0], x[1], x[2]), layer_norm(x[0], {x[0].size(-1)}, x[1], x[2]))));
  const std::vector<Ours> heads = {
      {drawn({2, 3, 5, 4}), drawn({2, 3, 5, 4}, {}, 3), drawn({2, 3, 5, 2}, {}, 5)},
      {drawn({1, 2, 9, 3}, transposed), drawn({1, 2, 9, 3}, reversed, {}, 3),
       drawn({1, 2, 9, 3}, stepped, {}, 5)}};
  rows.push_back(once_differentiable(called(
      "attention", heads,
      REEL_PAIR(attention(x[0], x[1], x[2]), at::scaled_dot_product_attention(x[0], x[1], x[2])))));
  rows.push_back(once_differentiable(
      called("attention, causal", heads,
             REEL_PAIR(attention(x[0], x[1], x[2], {.causal = true}),
                       at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0, true)))));
  rows.push_back(called("lstm_gates",
                        {{drawn({3, 8}), drawn({3, 2}, {}, 3)},
                         {drawn({8}), drawn({2}, {}, 3)},
                         {drawn({3, 8}, transposed), drawn({3, 2}, stepped, {}, 3)}},
                        REEL_BOTH(lstm_gates(x[0], x[1]))));
  rows.push_back(called("tree_lstm_gates",
                        {{drawn({3, 10}), drawn({3, 2}, {}, 3), drawn({3, 2}, {}, 5)}},
                        REEL_BOTH(tree_lstm_gates(x[0], x[1], x[2]))));
  rows.push_back(called("tree_lstm_leaf_gates", {{drawn({3, 6})}, {drawn({3, 6}, stepped)}},
                        REEL_BOTH(tree_lstm_leaf_gates(x[0]))));
  rows.push_back(called("child_sum_gates", {{drawn({3, 6}), drawn({3, 2}, stepped, {}, 3)}},
                        REEL_BOTH(child_sum_gates(x[0], x[1]))));
  const std::vector<Ours> sequences = {
      {drawn({4, 2, 3}), drawn({2, 5}, {}, 1), drawn({2, 5}, {}, 2), drawn({8, 20}, {-1, 1}, 3),
       drawn({20}, {}, 4)},
      {drawn({2, 3, 3}, transposed), drawn({3, 4}, {}, 1), drawn({3, 4}, {}, 2),
       drawn({7, 16}, {-1, 1}, 3), drawn({16}, {}, 4)}};
  rows.push_back(called("lstm", sequences, REEL_PAIR(our_lstm(x, false), lstm(x, false))));
  rows.push_back(called("lstm reversed", sequences, REEL_PAIR(our_lstm(x, true), lstm(x, true))));
  const std::vector<Ours> of_gru = {
      {drawn({4, 2, 3}), drawn({2, 5}, {}, 1), drawn({8, 15}, {-1, 1}, 3), drawn({20}, {}, 4)}};
  rows.push_back(called("gru", of_gru, REEL_PAIR(our_gru(x, false), gru(x, false))));
  rows.push_back(called("gru reversed", of_gru, REEL_PAIR(our_gru(x, true), gru(x, true))));
  const std::vector<Ours> images = {
      {drawn({3, 4})}, {drawn({2, 4, 5})}, {drawn({2, 4, 3, 2}, transposed)}};
  rows.push_back(called(
      "BatchNorm", images,
      REEL_PAIR(batch_norm(x[0]),
                at::batch_norm(x[0], scale_of(x[0], x[0].size(1)), shift_of(x[0], x[0].size(1)),
                               at::zeros({x[0].size(1)}, x[0].options()),
                               at::ones({x[0].size(1)}, x[0].options()), true, 0.1, 1e-5, false))));
  rows.push_back(
      called("GroupNorm", images,
             REEL_PAIR(group_norm(x[0]), at::group_norm(x[0], 2, scale_of(x[0], x[0].size(1)),
                                                        shift_of(x[0], x[0].size(1)), 1e-5))));
  rows.push_back(
      called("RMSNorm", images,
             REEL_PAIR(rms_norm(x[0]),
                       at::rms_norm(x[0], {x[0].size(-1)}, scale_of(x[0], x[0].size(-1)), 1e-5))));
}
}  // namespace reel::tests::peers
