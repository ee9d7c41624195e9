// SPDX-License-Identifier: BSD-3-Clause
// Trigonometric and hyperbolic functions, element by element. Angles are in radians. Integers
// become float32. On the CPU, functions of one number have an error of at most 4 ulp (units in the
// last place).
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// The sine of each element; NaN for infinity. In radians. The result has the shape of x and its
/// dtype, float32 for integers.
///
///     sin(tensor({0.0, 1.0}))              // [0.0000, 0.8415]
REEL_API Tensor sin(Operand x);
/// The cosine of each element; NaN for infinity. In radians. The result has the shape of x and its
/// dtype, float32 for integers.
REEL_API Tensor cos(Operand x);
/// The tangent of each element; NaN for infinity. In radians. The result has the shape of x and its
/// dtype, float32 for integers.
REEL_API Tensor tan(Operand x);
/// The angle from -pi/2 to pi/2 whose sine is x; NaN outside -1 to 1. In radians. The result has
/// the shape of x and its dtype, float32 for integers.
REEL_API Tensor asin(Operand x);
/// The angle from 0 to pi whose cosine is x; NaN outside -1 to 1. In radians. The result has the
/// shape of x and its dtype, float32 for integers.
REEL_API Tensor acos(Operand x);
/// The angle from -pi/2 to pi/2 whose tangent is x. In radians. The result has the shape of x and
/// its dtype, float32 for integers.
REEL_API Tensor atan(Operand x);
/// The angle of the point (x, y), from -pi to pi. The gradient at x = y = 0 is 0. In radians. x and
/// y broadcast. Integers become float32.
///
///     atan2(tensor({1.f}), -1)             // [2.3562]
REEL_API Tensor atan2(Operand y, Operand x);
/// The hyperbolic sine (e^x - e^-x) / 2. The result has the shape of x and its dtype, float32 for
/// integers.
REEL_API Tensor sinh(Operand x);
/// The hyperbolic cosine (e^x + e^-x) / 2. The result has the shape of x and its dtype, float32 for
/// integers.
REEL_API Tensor cosh(Operand x);
/// The inverse of sinh. The result has the shape of x and its dtype, float32 for integers.
REEL_API Tensor asinh(Operand x);
/// The inverse of cosh; NaN below 1. The result has the shape of x and its dtype, float32 for
/// integers.
REEL_API Tensor acosh(Operand x);
/// The inverse of tanh; NaN outside -1 to 1, infinite at its ends. The result has the shape of x
/// and its dtype, float32 for integers.
REEL_API Tensor atanh(Operand x);
}  // namespace reel
