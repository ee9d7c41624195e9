// SPDX-License-Identifier: BSD-3-Clause
// Activation functions, element by element. Integers become float32.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// max(x, 0); the gradient at 0 is 0. NaN stays NaN, and has the gradient 0. The result has the
/// shape of x and its dtype, float32 for integers.
REEL_API Tensor relu(Operand x);
/// The logistic function 1 / (1 + exp(-x)). The result has the shape of x and its dtype, float32
/// for integers.
///
///     sigmoid(tensor({0.f}))               // [0.5]
REEL_API Tensor sigmoid(Operand x);
/// The hyperbolic tangent. The result has the shape of x and its dtype, float32 for integers.
REEL_API Tensor tanh(Operand x);
/// x where x > 0, else slope * x. The slope is a number, or a tensor that has a gradient too, as in
/// a parametric ReLU. x and the slope broadcast; the default slope is 0.01. Integers become
/// float32.
///
///     leaky_relu(tensor({-2.f, 3.f}), 0.5) // [-1., 3.]
REEL_API Tensor leaky_relu(Operand x, Operand slope = 0.01);
/// x where x > 0, else alpha * (exp(x) - 1) (Clevert et al., 2015). x and alpha broadcast; the
/// default alpha is 1. Integers become float32.
REEL_API Tensor elu(Operand x, Operand alpha = 1);
/// x * Phi(x), where Phi is the distribution function of the normal distribution (Hendrycks and
/// Gimpel, 2016). gelu_tanh() is an approximation of it. The result has the shape of x and its
/// dtype, float32 for integers.
REEL_API Tensor gelu(Operand x);
/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), the approximation of gelu() that GPT-2
/// and BERT are trained with. The result has the shape of x and its dtype, float32 for integers.
///
///     gelu_tanh(tensor({1.0}))             // [0.8412]
REEL_API Tensor gelu_tanh(Operand x);
/// x * sigmoid(x), also called swish. The result has the shape of x and its dtype, float32 for
/// integers.
REEL_API Tensor silu(Operand x);
/// log(1 + exp(x)), without overflow. The result has the shape of x and its dtype, float32 for
/// integers.
REEL_API Tensor softplus(Operand x);
/// The values of x, as a constant for every tape: no gradient flows through it. The result has the
/// shape and dtype of x.
REEL_API Tensor stop_gradient(Operand x);
}  // namespace reel
