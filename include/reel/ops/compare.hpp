// SPDX-License-Identifier: BSD-3-Clause
// Comparisons, logic and bits, element by element with broadcasting.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// Comparisons give bool tensors. They round no integer: int64 and float32 are compared by their
/// exact values, and so are integers and C++ numbers that their dtype cannot hold.
///
///     tensor({16777217}) == tensor({16777216.0f})     // [false]
REEL_API Tensor operator==(Operand x, Operand y);
REEL_API Tensor operator!=(Operand x, Operand y);
REEL_API Tensor operator<(Operand x, Operand y);
REEL_API Tensor operator<=(Operand x, Operand y);
REEL_API Tensor operator>(Operand x, Operand y);
REEL_API Tensor operator>=(Operand x, Operand y);

/// Logic on truth values, element by element; a number is true unless it is 0. In contrast, `&&`,
/// `||` and `!` are C++'s own: they want tensors of one element and give a bool.
REEL_API Tensor logical_and(Operand x, Operand y);
REEL_API Tensor logical_or(Operand x, Operand y);
REEL_API Tensor logical_xor(Operand x, Operand y);
REEL_API Tensor logical_not(Operand x);
/// And, or, exclusive or, not: logical on bool, bitwise on integers. Throw DTypeError for floating
/// tensors. `^` is exclusive or, not a power.
///
///     tensor({6}) & 3                      // [2]
REEL_API Tensor operator&(Operand x, Operand y);
REEL_API Tensor operator|(Operand x, Operand y);
REEL_API Tensor operator^(Operand x, Operand y);
REEL_API Tensor operator~(Operand x);

/// x where the condition (bool) holds, else y.
REEL_API Tensor where(Operand condition, Operand x, Operand y);

/// Tolerances of allclose(), relative and absolute.
struct Tolerance {
  double rtol = 1e-5, atol = 1e-8;
};
/// Whether |x - y| <= atol + rtol |y| for every element. NaN is close to nothing. An integer is
/// never rounded. Throws Error for a tolerance that is negative or NaN.
REEL_API bool allclose(Operand x, Operand y, Tolerance tolerance = {});
/// Whether shapes and all elements are equal. NaN equals nothing.
REEL_API bool equal(Operand x, Operand y);
}  // namespace reel
