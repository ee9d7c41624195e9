// SPDX-License-Identifier: BSD-3-Clause
// Elements picked by tensors of positions (uint8, int32 or int64, negative from the end). Positions
// outside their axis throw IndexError, positions of another dtype DTypeError.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// Slices of x along an axis: the axis is replaced by the axes of `indices`.
///
///     take(tensor({10, 20, 30}), tensor({2, 0}))    // [30, 10]
REEL_API Tensor take(Operand x, Operand indices, int axis = 0);
/// One element for each position: indices has x's rank, and other axes of x's lengths or less.
/// result[i][j] = x[i][indices[i][j]] for axis 1.
REEL_API Tensor gather(Operand x, Operand indices, int axis);
/// x with each slice updates[i] added at indices[i] along an axis; equal positions add up. Throws
/// DTypeError for floating updates of integers.
REEL_API Tensor scatter_add(Operand x, Operand indices, Operand updates, int axis = 0);
/// 1 at each position of a new last axis of length `depth`, 0 elsewhere; float32 unless said. The
/// positions are classes: negative ones throw IndexError.
///
///     one_hot(tensor({1}), 3)              // [[0, 1, 0]]
REEL_API Tensor one_hot(Operand indices, Extent depth, DType dtype = DType::float32);
}  // namespace reel
