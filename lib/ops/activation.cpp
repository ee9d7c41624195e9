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
constinit Op leaky_relu_op = pointwise<formulas::LeakyRelu>([](SampleList out) {
  binary_samples(out, leaky_relu, off_zero, {-0.5, 0.5});
});
constinit Op elu_op = pointwise<formulas::Elu>([](SampleList out) {
  binary_samples(out, elu, off_zero, {0.5, 2});
});
constinit Op gelu_op = pointwise<formulas::Gelu>([](SampleList out) {
  unary_samples(out, gelu, {-4, 4});
});
constinit Op gelu_tanh_op = pointwise<formulas::GeluTanh>([](SampleList out) {
  unary_samples(out, gelu_tanh, {-4, 4});
});
constinit Op silu_op = pointwise<formulas::Silu>([](SampleList out) {
  unary_samples(out, silu, {-4, 4});
});
constinit Op softplus_op = pointwise<formulas::Softplus>([](SampleList out) {
  unary_samples(out, softplus, {-4, 4});
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
Tensor leaky_relu(Operand x, Operand slope) { return run_binary(leaky_relu_op, x, slope); }
Tensor elu(Operand x, Operand alpha) { return run_binary(elu_op, x, alpha); }
Tensor gelu(Operand x) { return run_unary(gelu_op, x); }
Tensor gelu_tanh(Operand x) { return run_unary(gelu_tanh_op, x); }
Tensor silu(Operand x) { return run_unary(silu_op, x); }
Tensor softplus(Operand x) { return run_unary(softplus_op, x); }
Tensor stop_gradient(Operand x) { return run(stop_gradient_op, x); }

const Entry activation_ops[] = {&relu_op,     &sigmoid_op,       &tanh_op,      &leaky_relu_op,
                                &elu_op,      &gelu_op,          &gelu_tanh_op, &silu_op,
                                &softplus_op, &stop_gradient_op, nullptr};
}  // namespace reel
