// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <optional>
#include <span>

#include "lib/table/op.hpp"

namespace reel {
/// What two dtypes become; a floating dtype wins over any integer.
DType promoted(DType a, DType b);
/// The dtype to which the promoted inputs of an op are converted. Bodies are null for C++ numbers.
/// These take the tensors' dtype, or float32 if a number has a fraction and that dtype has none.
DType common_dtype(const Op& op, std::span<const Operand> operands, Body* const* bodies);
/// The common dtype for comparisons, where no integer may be rounded. None where no dtype holds all
/// values: int64 beside floating numbers.
std::optional<DType> exact_dtype(const Op& op, std::span<const Operand> operands,
                                 Body* const* bodies);
bool fits(Scalar number, DType dtype);
/// Whether a number keeps its value in this dtype; one with a fraction is rounded, as tensors are.
bool holds(DType dtype, Scalar number);
void store_number(void* to, Scalar number, DType dtype);
}  // namespace reel
