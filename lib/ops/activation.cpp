// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/activation.hpp>

#include <algorithm>

#include "lib/formulas/activation.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/pointwise.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
constexpr Draw off_zero{.grid = 0.25, .offset = 0.125};

void whole_view(Inference& call) { call.view(); }
}  // namespace

constinit Op relu_op =
    pointwise<formulas::Relu>([](SampleList out) { unary_samples(out, relu, off_zero); });
constinit Op sigmoid_op = pointwise<formulas::Sigmoid>([](SampleList out) {
  unary_samples(out, sigmoid, {-4, 4});
});
constinit Op tanh_op = pointwise<formulas::Tanh>([](SampleList out) {
  unary_samples(out, tanh, {-3, 3});
});
constinit Op stop_gradient_op{.name = "stop_gradient",
                              .shape = whole_view,
                              .fusion = Fusion::layout,
                              .differentiable = false,
                              .moves = true,
                              .samples = [](SampleList out) { unary_samples(out, stop_gradient); }};

Tensor relu(Operand x) { return run_unary(relu_op, x); }
Tensor sigmoid(Operand x) { return run_unary(sigmoid_op, x); }
Tensor tanh(Operand x) { return run_unary(tanh_op, x); }
Tensor stop_gradient(Operand x) { return run(stop_gradient_op, x); }

const Entry activation_ops[] = {&relu_op, &sigmoid_op, &tanh_op, &stop_gradient_op, nullptr};
}  // namespace reel
