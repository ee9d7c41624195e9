// SPDX-License-Identifier: BSD-3-Clause
// Writing slices to tensors of positions along an axis. Positions are uint8, int32 or int64;
// negative ones count from the end. A position outside its axis throws IndexError, another dtype
// DTypeError. The axis of x is replaced in `updates` by the axes of `indices`, as in the result of
// take(). x and updates come to one dtype; floating updates of an integer x throw DTypeError.
// Results are the same on every device and for every number of threads.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// A copy of x where updates[i] replaces the slice at position indices[i] of an axis. If a position
/// has several updates, the last one counts and the others get no gradient. x and updates come to
/// one dtype; indices are uint8, int32 or int64.
///
///     scatter(tensor({1, 2, 3}), tensor({0, 2}), tensor({7, 8}))      // [7, 2, 8]
REEL_API Tensor scatter(Operand x, Operand indices, Operand updates, AxisNumber axis = 0);
/// A copy of x where updates[i] is added to the slice at position indices[i] of an axis. A position
/// may have several updates. x and updates come to one dtype; indices are uint8, int32 or int64.
///
///     scatter_add(tensor({1, 2, 3}), tensor({0, 0}), tensor({7, 8}))  // [16, 2, 3]
REEL_API Tensor scatter_add(Operand x, Operand indices, Operand updates, AxisNumber axis = 0);
/// A copy of x where each element with updates becomes the largest of itself and its updates; NaN
/// if one of them is NaN. Equal largest ones share the gradient. x and updates come to one dtype;
/// indices are uint8, int32 or int64.
///
///     scatter_max(tensor({1, 2, 3}), tensor({0, 2}), tensor({7, 0}))  // [7, 2, 3]
REEL_API Tensor scatter_max(Operand x, Operand indices, Operand updates, AxisNumber axis = 0);
/// A copy of x where each element with updates becomes the smallest of itself and its updates; NaN
/// if one of them is NaN. Equal smallest ones share the gradient. x and updates come to one dtype;
/// indices are uint8, int32 or int64.
///
///     scatter_min(tensor({1, 2, 3}), tensor({0, 2}), tensor({7, 0}))  // [1, 2, 0]
REEL_API Tensor scatter_min(Operand x, Operand indices, Operand updates, AxisNumber axis = 0);
/// A copy of x where each element with updates becomes the mean of itself and its updates. Integers
/// become float32.
///
///     scatter_mean(tensor({1.0, 2.0}), tensor({0, 0}), tensor({3.0, 8.0}))    // [4., 2.]
REEL_API Tensor scatter_mean(Operand x, Operand indices, Operand updates, AxisNumber axis = 0);

// Segments: slice i of x along axis 0 belongs to the segment ids[i], a number from 0 to count - 1;
// others throw IndexError. ids has one axis, as long as that of x; others throw ShapeError.

/// The sum of the slices of each segment; 0 for an empty segment. bool, uint8 and int32 are summed
/// in int64.
///
///     segment_sum(tensor({1, 2, 3}), tensor({0, 2, 0}), 3)    // [4, 0, 2]
REEL_API Tensor segment_sum(Operand x, Operand ids, Extent count);
/// The mean of the slices of each segment; 0 for an empty segment. Integers become float32.
///
///     segment_mean(tensor({1.0, 2.0, 3.0}), tensor({0, 2, 0}), 3)     // [2., 0., 2.]
REEL_API Tensor segment_mean(Operand x, Operand ids, Extent count);
/// The largest of the slices of each segment, element by element. For an empty segment it is the
/// smallest number of the dtype, -inf for floating dtypes. Equal largest ones share the gradient.
///
///     segment_max(tensor({1.0, 2.0, 3.0}), tensor({0, 1, 0}), 2)      // [3., 2.]
REEL_API Tensor segment_max(Operand x, Operand ids, Extent count);
/// The smallest of the slices of each segment, element by element. For an empty segment it is the
/// largest number of the dtype, inf for floating dtypes. Equal smallest ones share the gradient.
REEL_API Tensor segment_min(Operand x, Operand ids, Extent count);
/// softmax() over the elements of each segment, in the shape of x. Integers become float32.
///
///     segment_softmax(tensor({5.0, 1.0, 5.0}), tensor({0, 1, 0}), 2)  // [0.5, 1.0, 0.5]
REEL_API Tensor segment_softmax(Operand x, Operand ids, Extent count);
}  // namespace reel
