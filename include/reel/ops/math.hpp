// SPDX-License-Identifier: BSD-3-Clause
// Functions of one number, element by element. Integers become float32 except in abs and square.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// |x|; the gradient at 0 is 0.
REEL_API Tensor abs(Operand x);
/// e to the power x.
REEL_API Tensor exp(Operand x);
/// Natural logarithm; NaN below 0, -inf at 0.
REEL_API Tensor log(Operand x);
/// x times x.
///
///     square(tensor({3, -2}))      // [9, 4]
REEL_API Tensor square(Operand x);
/// The square root; NaN below 0.
REEL_API Tensor sqrt(Operand x);
}  // namespace reel
