// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/activation.hpp>

#include <algorithm>

#include "lib/dispatch/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
constexpr Draw off_zero{.grid = 0.25, .offset = 0.125};

void whole_view(Inference& call) { call.view(); }
}  // namespace

constinit Op relu_op{.name = "relu",
                     .shape = broadcast,
                     .promote = Promote::floating,
                     .needs = {{need_output()}},
                     .fusion = Fusion::pointwise,
                     .samples = [](SampleList out) { unary_samples(out, relu, off_zero); }};
constinit Op sigmoid_op{.name = "sigmoid",
                        .shape = broadcast,
                        .promote = Promote::floating,
                        .needs = {{need_output()}},
                        .fusion = Fusion::pointwise,
                        .samples = [](SampleList out) {
                          unary_samples(out, sigmoid, {-4, 4});
                        }};
constinit Op tanh_op{.name = "tanh",
                     .shape = broadcast,
                     .promote = Promote::floating,
                     .needs = {{need_output()}},
                     .fusion = Fusion::pointwise,
                     .samples = [](SampleList out) {
                       unary_samples(out, tanh, {-3, 3});
                     }};
constinit Op stop_gradient_op{.name = "stop_gradient",
                              .shape = whole_view,
                              .fusion = Fusion::layout,
                              .differentiable = false,
                              .moves = true,
                              .samples = [](SampleList out) { unary_samples(out, stop_gradient); }};

Op* activation_op(Activation activation) {
  switch (activation) {
    case Activation::none:
      return nullptr;
    case Activation::relu:
      return &relu_op;
    case Activation::sigmoid:
      return &sigmoid_op;
    case Activation::tanh:
      return &tanh_op;
  }
  return nullptr;
}

Tensor relu(Operand x) { return run_unary(relu_op, x); }
Tensor sigmoid(Operand x) { return run_unary(sigmoid_op, x); }
Tensor tanh(Operand x) { return run_unary(tanh_op, x); }
Tensor stop_gradient(Operand x) { return run(stop_gradient_op, x); }

void add_activation(OpTable& ops) {
  for (Op* op : {&relu_op, &sigmoid_op, &tanh_op, &stop_gradient_op}) ops.add(*op);
}
}  // namespace reel
