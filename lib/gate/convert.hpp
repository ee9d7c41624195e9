// SPDX-License-Identifier: BSD-3-Clause
// Numbers as tensors, and conversions.
#pragma once
#include <reel/operand.hpp>

namespace reel {
/// A new tensor in which each element is the number.
Tensor constant(const Shape& shape, DType dtype, Scalar value, Caller caller);
/// x with another dtype. A C++ number is converted directly, because a tensor of it would lose
/// digits.
Tensor as_dtype(const Operand& x, DType dtype);
}  // namespace reel
