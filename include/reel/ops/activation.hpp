// SPDX-License-Identifier: BSD-3-Clause
// Activation functions, element by element. Integers become float32.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// max(x, 0); the gradient at 0 is 0. NaN stays NaN.
REEL_API Tensor relu(Operand x);
/// The logistic function 1 / (1 + exp(-x)).
///
///     sigmoid(tensor({0.f}))               // [0.5]
REEL_API Tensor sigmoid(Operand x);
/// The hyperbolic tangent.
REEL_API Tensor tanh(Operand x);
/// The values of x, as a constant for every tape: no gradient flows through it.
REEL_API Tensor stop_gradient(Operand x);
}  // namespace reel
