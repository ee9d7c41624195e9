// SPDX-License-Identifier: BSD-3-Clause
// Picking elements by tensors of positions. Positions are uint8, int32 or int64; negative ones
// count from the end. A position outside its axis throws IndexError, another dtype DTypeError.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// The slices of x at these positions of an axis. In the result, the axes of `indices` replace this
/// axis. The axis is 0 by default. Positions are uint8, int32 or int64, and negative ones count
/// from the end. A position outside its axis throws IndexError.
///
///     take(tensor({10, 20, 30}), tensor({2, 0}))    // [30, 10]
REEL_API Tensor take(Operand x, Operand indices, AxisNumber axis = 0);
/// One element for each position. For axis 1: result[i][j] = x[i][indices[i][j]]. `indices` has as
/// many axes as x; along the other axes it may be shorter than x, not longer. The result has the
/// shape of `indices`. Positions are uint8, int32 or int64, and negative ones count from the end.
/// A position outside its axis throws IndexError.
///
///     gather(tensor({{1, 5, 2}, {7, 0, 3}}), tensor({{2, 0}, {1, 1}}), 1)  // [[2, 1], [0, 0]]
REEL_API Tensor gather(Operand x, Operand indices, AxisNumber axis);
/// One element of each line along an axis. For axis 1: result[k] = x[k][indices[k]]. `indices` and
/// the result have the shape of x without this axis. The axis is the last one by default. Positions
/// are uint8, int32 or int64, and negative ones count from the end. A position outside its axis
/// throws IndexError.
///
///     pick(tensor({{1, 5, 2}, {7, 0, 3}}), tensor({2, 0}))  // [2, 7]
REEL_API Tensor pick(Operand x, Operand indices, AxisNumber axis = -1);
/// 1 at each position of a new last axis of length `depth`, 0 elsewhere. The positions are classes:
/// negative ones throw IndexError. The result is [..., depth], float32 by default.
///
///     one_hot(tensor({1}), 3)              // [[0., 1., 0.]]
REEL_API Tensor one_hot(Operand indices, Extent depth, DType dtype = DType::float32);
}  // namespace reel
