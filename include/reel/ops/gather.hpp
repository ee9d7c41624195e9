// SPDX-License-Identifier: BSD-3-Clause
// Picking elements by tensors of positions. Positions are uint8, int32 or int64; negative ones
// count from the end. A position outside its axis throws IndexError, another dtype DTypeError.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// Slices of x along an axis: the axis is replaced by the axes of `indices`.
///
///     take(tensor({10, 20, 30}), tensor({2, 0}))    // [30, 10]
REEL_API Tensor take(Operand x, Operand indices, int axis = 0);
/// One element for each position. For axis 1: result[i][j] = x[i][indices[i][j]]. `indices` has the
/// rank of x; its other axes may be shorter than those of x, not longer. The result has its shape.
REEL_API Tensor gather(Operand x, Operand indices, int axis);
/// A copy of x where updates[i] is added to the slice at indices[i] of an axis. Updates of one
/// position are added up. Throws DTypeError for floating updates of an integer x.
REEL_API Tensor scatter_add(Operand x, Operand indices, Operand updates, int axis = 0);
/// 1 at each position of a new last axis of length `depth`, 0 elsewhere. The positions are classes:
/// negative ones throw IndexError.
///
///     one_hot(tensor({1}), 3)              // [[0, 1, 0]]
REEL_API Tensor one_hot(Operand indices, Extent depth, DType dtype = DType::float32);
}  // namespace reel
