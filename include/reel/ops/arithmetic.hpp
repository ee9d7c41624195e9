// SPDX-License-Identifier: BSD-3-Clause
// Sums, products and powers, element by element, with NumPy's broadcasting. C++ numbers take the
// tensor's dtype. Integer tensors become float32 where the result needs a fraction.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// The sum, element by element. x and y broadcast, and come to one dtype. Integers wrap around.
REEL_API Tensor operator+(Operand x, Operand y);
/// The difference, element by element. x and y broadcast, and come to one dtype. Integers wrap
/// around. bools throw DTypeError.
REEL_API Tensor operator-(Operand x, Operand y);
/// The product, element by element. x and y broadcast, and come to one dtype. Integers wrap around.
REEL_API Tensor operator*(Operand x, Operand y);
/// True division: integers become float32. x and y broadcast.
///
///     tensor({1, 3}) / 2           // [0.5, 1.5]
REEL_API Tensor operator/(Operand x, Operand y);
/// The remainder of a division, with the sign of the divisor, as in Python. The remainder of an
/// integer divided by 0 is 0. x and y broadcast, and come to one dtype.
///
///     tensor({-3, 5}) % 4          // [1, 1]
REEL_API Tensor operator%(Operand x, Operand y);
/// The negative of each element. The result has the shape and dtype of x. bools throw DTypeError.
REEL_API Tensor operator-(Operand x);

/// `x += y` is `x = x + y`: the handle x refers to a new tensor afterwards. Other handles still
/// refer to the old one. The new one has the shape and dtype of the sum.
REEL_API Tensor& operator+=(Tensor& x, Operand y);
/// `x -= y` is `x = x - y`, as `x += y`: x gets the shape and dtype of the difference.
REEL_API Tensor& operator-=(Tensor& x, Operand y);
/// `x *= y` is `x = x * y`, as `x += y`: x gets the shape and dtype of the product.
REEL_API Tensor& operator*=(Tensor& x, Operand y);
/// `x /= y` is `x = x / y`, as `x += y`: x gets the shape and dtype of the quotient.
REEL_API Tensor& operator/=(Tensor& x, Operand y);
// Of a Variable's slice they would change a copy: use assign_add(), assign_sub(), ...
class VariableSlice;
void operator+=(VariableSlice& x, Operand y) = delete;
void operator-=(VariableSlice& x, Operand y) = delete;
void operator*=(VariableSlice& x, Operand y) = delete;
void operator/=(VariableSlice& x, Operand y) = delete;
void operator+=(const Variable& w, Operand y) = delete;  // w.assign_add(y)
void operator-=(const Variable& w, Operand y) = delete;  // w.assign_sub(y)
void operator*=(const Variable& w, Operand y) = delete;  // w.assign(w * y)
void operator/=(const Variable& w, Operand y) = delete;  // w.assign(w / y)

/// x + y, element by element. x and y broadcast, and come to one dtype. Integers wrap around.
REEL_API Tensor add(Operand x, Operand y);
/// x - y, element by element. x and y broadcast, and come to one dtype. Integers wrap around. bools
/// throw DTypeError.
REEL_API Tensor subtract(Operand x, Operand y);
/// x * y, element by element. x and y broadcast, and come to one dtype. Integers wrap around.
REEL_API Tensor multiply(Operand x, Operand y);
/// x / y, element by element: integers become float32. x and y broadcast. The gradient of 0 / y for
/// y is NaN where 1 / y overflows: for |y| below 3e-39 in float32, or 6e-309 in float64.
REEL_API Tensor divide(Operand x, Operand y);
/// x % y, element by element: the remainder with the sign of the divisor. x and y broadcast, and
/// come to one dtype.
REEL_API Tensor remainder(Operand x, Operand y);
/// -x. The result has the shape and dtype of x. bools throw DTypeError.
REEL_API Tensor negative(Operand x);

/// The larger of two elements; NaN if one is NaN. Equal elements share the gradient. If one is NaN,
/// both gradients are 0. x and y broadcast, and come to one dtype.
REEL_API Tensor maximum(Operand x, Operand y);
/// The smaller of two elements; NaN if one is NaN. Equal elements share the gradient. If one is
/// NaN, both gradients are 0. x and y broadcast, and come to one dtype.
REEL_API Tensor minimum(Operand x, Operand y);
/// x with the elements below `low` replaced by `low`, and those above `high` by `high`. NaN stays
/// NaN. Replaced elements have no gradient. The limits themselves are not replaced: there the
/// gradient is that of x. The three broadcast, and come to one dtype.
///
///     clip(tensor({-3, 4, 9}), 0, 5)       // [0, 4, 5]
REEL_API Tensor clip(Operand x, Operand low, Operand high);
/// x + weight * (y - x), linear interpolation. It is x for weight 0 and y for weight 1, exactly.
/// For weights from 0 to 1 no large numbers overflow. Integers become float32. The arguments
/// broadcast.
///
///     lerp(tensor({1.f}), tensor({3.f}), 0.25)     // [1.5]
REEL_API Tensor lerp(Operand x, Operand y, Operand weight);
/// x to the power y. Integers become float32. The arguments broadcast.
///
///     power(tensor({2.f, 3.f}), 2)         // [4., 9.]
REEL_API Tensor power(Operand x, Operand y);
}  // namespace reel
