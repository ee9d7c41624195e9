// SPDX-License-Identifier: BSD-3-Clause
// Functions of numbers, element by element, with NumPy's broadcasting. Integers become float32,
// unless the comment says that they stay integers. On the CPU, functions of one number have an
// error of at most 5 ulp (units in the last place).
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// |x|; the gradient at 0 is 0. Integers stay integers. The result has the shape of x.
REEL_API Tensor abs(Operand x);
/// e to the power x. The result has the shape of x and its dtype, float32 for integers.
REEL_API Tensor exp(Operand x);
/// Natural logarithm; NaN below 0, -inf at 0. The result has the shape of x and its dtype, float32
/// for integers.
REEL_API Tensor log(Operand x);
/// x times x. Integers stay integers. The result has the shape of x.
///
///     square(tensor({3, -2}))      // [9, 4]
REEL_API Tensor square(Operand x);
/// The square root; NaN below 0. The result has the shape of x and its dtype, float32 for integers.
REEL_API Tensor sqrt(Operand x);
/// 1 / sqrt(x); NaN below 0, inf at 0. The result has the shape of x and its dtype, float32 for
/// integers.
REEL_API Tensor rsqrt(Operand x);
/// 1 / x. The result has the shape of x and its dtype, float32 for integers.
///
///     reciprocal(tensor({4}))              // [0.25]
REEL_API Tensor reciprocal(Operand x);
/// 2 to the power x. The result has the shape of x and its dtype, float32 for integers.
REEL_API Tensor exp2(Operand x);
/// exp(x) - 1, accurate near 0. The result has the shape of x and its dtype, float32 for integers.
REEL_API Tensor expm1(Operand x);
/// log(1 + x), accurate near 0; NaN below -1, -inf at -1. The result has the shape of x and its
/// dtype, float32 for integers.
REEL_API Tensor log1p(Operand x);
/// The logarithm to base 2; NaN below 0, -inf at 0. The result has the shape of x and its dtype,
/// float32 for integers.
REEL_API Tensor log2(Operand x);
/// log(exp(x) + exp(y)), without overflow. x and y broadcast. Integers become float32.
REEL_API Tensor logaddexp(Operand x, Operand y);
/// sqrt(x*x + y*y), without overflow; the gradient at x = y = 0 is 0, and NaN at infinities. x and
/// y broadcast. Integers become float32.
///
///     hypot(tensor({3.f}), 4)              // [5.]
REEL_API Tensor hypot(Operand x, Operand y);
/// The error function: 2 / sqrt(pi) times the integral of exp(-t*t) from 0 to x. The result has the
/// shape of x and its dtype, float32 for integers.
REEL_API Tensor erf(Operand x);
/// 1 - erf(x), accurate for large x. The result has the shape of x and its dtype, float32 for
/// integers.
REEL_API Tensor erfc(Operand x);

// The functions below change in steps, so their results are constants for a tape. Integers stay
// integers. bools throw DTypeError.

/// The largest whole number that is at most x. The result has the shape and dtype of x; bools throw
/// DTypeError. It has no gradient.
REEL_API Tensor floor(Operand x);
/// The smallest whole number that is at least x. The result has the shape and dtype of x; bools
/// throw DTypeError. It has no gradient.
REEL_API Tensor ceil(Operand x);
/// The nearest whole number. Halfway between two numbers, it is the even one. A thread that changes
/// its rounding mode by std::fesetround() must not call round(). The result has the shape and dtype
/// of x; bools throw DTypeError. It has no gradient.
///
///     round(tensor({0.5f, 1.5f}))          // [0., 2.]
REEL_API Tensor round(Operand x);
/// x without its fraction: the nearest whole number towards 0. The result has the shape and dtype
/// of x; bools throw DTypeError. It has no gradient.
REEL_API Tensor trunc(Operand x);
/// The sign of x: -1, 0 or 1. NaN stays NaN. The result has the shape and dtype of x; bools throw
/// DTypeError. It has no gradient.
///
///     sign(tensor({-3, 0, 5}))             // [-1, 0, 1]
REEL_API Tensor sign(Operand x);
/// The largest whole number that is at most x / y, as `//` in Python for finite numbers. For
/// infinite ones it is floor(x / y): -1 and infinity give -0. An integer divided by 0 is 0. x and y
/// broadcast. Integers stay integers; bools throw DTypeError. The result has no gradient.
///
///     floor_divide(tensor({-7, 7}), 2)     // [-4, 3]
REEL_API Tensor floor_divide(Operand x, Operand y);
}  // namespace reel
