// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <span>

#include "lib/dispatch/op.hpp"

namespace reel {
/// What two dtypes become, as in NumPy: int32 or int64 with float32 is float64.
DType promoted(DType a, DType b);
/// The dtype that the promoted inputs of an op come to; bodies are null for C++ numbers, which
/// take the tensors' dtype, or float32 where that has no fractions.
DType common_dtype(const Op& op, std::span<const Operand> operands, Body* const* bodies);
bool fits(Scalar number, DType dtype);
void store_number(void* to, Scalar number, DType dtype);
}  // namespace reel
