// SPDX-License-Identifier: BSD-3-Clause
// The gamma function and its derivatives, element by element. Integers become float32.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// The logarithm of |gamma(x)|, where gamma(n) is the factorial of n - 1. It is inf at 0 and at the
/// negative whole numbers. For x > 0 the error is at most 4 ulp (units in the last place). For x <
/// 0 it is at most 4 ulp of the larger of 1 and the result. The result has the shape of x and its
/// dtype, float32 for integers.
///
///     lgamma(tensor({5.0}))                // [3.178]
REEL_API Tensor lgamma(Operand x);
/// The derivative of lgamma(). It is -inf at 0, and NaN at the negative whole numbers. For x > 0
/// the error is at most 4 ulp of the larger of 1 and the result. For x < 0 near a pole it is at
/// most 4 ulp of the larger of the pole's term and the result. The result has the shape of x and
/// its dtype, float32 for integers.
///
///     digamma(tensor({1.0}))               // [-0.5772]
REEL_API Tensor digamma(Operand x);
/// The derivative of order n of digamma(); polygamma(1, x) is also called trigamma. It is NaN or
/// infinite at 0 and at the negative whole numbers. For n > 1 it is NaN below -10'000. Throws Error
/// unless n is 0 to 100. The result has the shape of x and its dtype, float32 for integers.
///
///     polygamma(1, tensor({1.0}))          // [1.645]
REEL_API Tensor polygamma(CountNumber n, Operand x);
}  // namespace reel
