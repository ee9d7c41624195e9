// SPDX-License-Identifier: BSD-3-Clause
// Comparisons, logic and bits, element by element with broadcasting.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// Whether elements are equal. A bool for each element; x and y broadcast. Comparisons never round
/// an integer: an int64 and a float32 are compared by their exact values, and so are an integer and
/// a C++ number that its dtype cannot hold.
///
///     tensor({16777217}) == tensor({16777216.0f})     // [false]
REEL_API Tensor operator==(Operand x, Operand y);
/// Whether elements differ. A bool for each element; x and y broadcast.
REEL_API Tensor operator!=(Operand x, Operand y);
/// Whether elements of x are less. A bool for each element; x and y broadcast.
REEL_API Tensor operator<(Operand x, Operand y);
/// Whether elements of x are less or equal. A bool for each element; x and y broadcast.
REEL_API Tensor operator<=(Operand x, Operand y);
/// Whether elements of x are greater. A bool for each element; x and y broadcast.
REEL_API Tensor operator>(Operand x, Operand y);
/// Whether elements of x are greater or equal. A bool for each element; x and y broadcast.
REEL_API Tensor operator>=(Operand x, Operand y);

/// x < y, element by element. A bool for each element; x and y broadcast.
REEL_API Tensor less(Operand x, Operand y);
/// x <= y, element by element. A bool for each element; x and y broadcast.
REEL_API Tensor less_equal(Operand x, Operand y);
/// x > y, element by element. A bool for each element; x and y broadcast.
REEL_API Tensor greater(Operand x, Operand y);
/// x >= y, element by element. A bool for each element; x and y broadcast.
REEL_API Tensor greater_equal(Operand x, Operand y);
/// x == y, element by element. A bool for each element; x and y broadcast. equal(x, y) compares
/// whole tensors and gives one bool.
REEL_API Tensor equal_to(Operand x, Operand y);
/// x != y, element by element. A bool for each element; x and y broadcast.
REEL_API Tensor not_equal(Operand x, Operand y);

/// Whether each element is neither infinite nor NaN. A bool tensor in the shape of x.
///
///     isfinite(tensor({1.f, INFINITY}))    // [true, false]
REEL_API Tensor isfinite(Operand x);
/// Whether each element is infinite. A bool tensor in the shape of x.
REEL_API Tensor isinf(Operand x);
/// Whether each element is NaN. A bool tensor in the shape of x.
REEL_API Tensor isnan(Operand x);

/// Whether both elements are true. A bool for each element; x and y broadcast. A number is true
/// unless it is 0. The operators `&&`, `||` and `!` are C++'s own: their operands must have one
/// element, and their result is a C++ bool.
REEL_API Tensor logical_and(Operand x, Operand y);
/// Whether one of the elements is true, or both. A bool for each element; x and y broadcast. A
/// number is true unless it is 0.
REEL_API Tensor logical_or(Operand x, Operand y);
/// Whether exactly one of the elements is true. A bool for each element; x and y broadcast. A
/// number is true unless it is 0.
REEL_API Tensor logical_xor(Operand x, Operand y);
/// Whether the element is false, that is 0. A bool tensor in the shape of x.
REEL_API Tensor logical_not(Operand x);
/// And: logical on bools, bitwise on integers. x and y broadcast, and come to one dtype. Floating
/// tensors throw DTypeError. C++ applies `==` before `&`: `m & x == 0` is `m & (x == 0)`.
///
///     tensor({6}) & 3                      // [2]
REEL_API Tensor operator&(Operand x, Operand y);
/// Or: logical on bools, bitwise on integers. x and y broadcast, and come to one dtype. Floating
/// tensors throw DTypeError.
REEL_API Tensor operator|(Operand x, Operand y);
/// Exclusive or, not a power: logical on bools, bitwise on integers. x and y broadcast, and come to
/// one dtype. Floating tensors throw DTypeError.
REEL_API Tensor operator^(Operand x, Operand y);
/// Not: logical on bools, bitwise on integers. The result has the shape and dtype of x. Floating
/// tensors throw DTypeError.
REEL_API Tensor operator~(Operand x);
/// The bits of x moved up by n places: x * 2^n, which wraps around. The result is 0 if n is
/// negative or at least the number of bits of the dtype. x and n come to one dtype; unless it is an
/// integer dtype, DTypeError is thrown. (`<<` is not a shift: it prints.)
///
///     left_shift(tensor({1, 3}), 2)        // [4, 12]
REEL_API Tensor left_shift(Operand x, Operand n);
/// The bits of x moved down by n places: x / 2^n, rounded down. If n is negative or at least the
/// number of bits of the dtype, the result is 0, or -1 for a negative x. Dtypes are those of
/// left_shift().
///
///     right_shift(tensor({8, -8}), 2)      // [2, -2]
REEL_API Tensor right_shift(Operand x, Operand n);

/// x where the condition is true, else y. The three broadcast. x and y come to one dtype. Throws
/// DTypeError unless the condition is bool.
///
///     where(tensor({true, false}), tensor({1, 2}), 0)      // [1, 0]
REEL_API Tensor where(Operand condition, Operand x, Operand y);

/// Tolerances of allclose(), relative and absolute; and whether NaN is close to NaN.
struct Tolerance {
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;
};
/// Whether |x - y| <= atol + rtol |y| for every element; x and y broadcast. NaN is close to
/// nothing, unless `equal_nan` says that it is close to NaN. Integers are never rounded. Throws
/// Error for a tolerance that is negative or NaN.
REEL_API bool allclose(Operand x, Operand y, Tolerance tolerance = {});
/// Whether x and y have one shape and equal elements. Their dtypes may differ. NaN equals nothing,
/// not even NaN.
REEL_API bool equal(Operand x, Operand y);
}  // namespace reel
