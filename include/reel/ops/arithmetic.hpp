// SPDX-License-Identifier: BSD-3-Clause
// Sums, products and powers, element by element, with NumPy's broadcasting. C++ numbers take the
// tensor's dtype. Integer tensors become float32 where the result needs a fraction.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// Element by element; integers wrap around.
REEL_API Tensor operator+(Operand x, Operand y);
REEL_API Tensor operator-(Operand x, Operand y);
REEL_API Tensor operator*(Operand x, Operand y);
/// True division: integers become float32.
///
///     tensor({1, 3}) / 2           // [0.5, 1.5]
REEL_API Tensor operator/(Operand x, Operand y);
/// The remainder, with the sign of the divisor as in Python. An integer % 0 is 0.
///
///     tensor({-3, 5}) % 4          // [1, 1]
REEL_API Tensor operator%(Operand x, Operand y);
/// The negative of each element.
REEL_API Tensor operator-(Operand x);

/// `x += y` is `x = x + y`: x becomes another tensor, and other handles of the old one keep it.
REEL_API Tensor& operator+=(Tensor& x, Operand y);
REEL_API Tensor& operator-=(Tensor& x, Operand y);
REEL_API Tensor& operator*=(Tensor& x, Operand y);
REEL_API Tensor& operator/=(Tensor& x, Operand y);
// Of a Variable's slice they would change a copy: use assign_add() and its like.
class VariableSlice;
void operator+=(VariableSlice& x, Operand y) = delete;
void operator-=(VariableSlice& x, Operand y) = delete;
void operator*=(VariableSlice& x, Operand y) = delete;
void operator/=(VariableSlice& x, Operand y) = delete;

/// The same, by name.
REEL_API Tensor add(Operand x, Operand y);
REEL_API Tensor subtract(Operand x, Operand y);
REEL_API Tensor multiply(Operand x, Operand y);
REEL_API Tensor divide(Operand x, Operand y);
REEL_API Tensor remainder(Operand x, Operand y);
REEL_API Tensor negative(Operand x);

/// The larger of two elements; NaN if one is NaN. Equal elements share the gradient.
REEL_API Tensor maximum(Operand x, Operand y);
/// The smaller of two elements; NaN if one is NaN. Equal elements share the gradient.
REEL_API Tensor minimum(Operand x, Operand y);
/// x to the power y. Integers become float32.
///
///     power(tensor({2.f, 3.f}), 2)         // [4, 9]
REEL_API Tensor power(Operand x, Operand y);
}  // namespace reel
