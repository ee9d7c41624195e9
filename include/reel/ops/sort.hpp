// SPDX-License-Identifier: BSD-3-Clause
// Sorting and searching. NaN counts as larger than any number. Sorting is stable: equal elements
// keep their order. Positions are int64.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// Options of sort() and argsort().
struct SortOptions {
  bool descending = false;  // the largest first
};
/// The elements of each line along an axis, the smallest first. NaN is last, and first if
/// descending. The axis is the last one by default. The result has the shape and dtype of x. Equal
/// elements keep their order. A single number is a line of one element.
///
///     sort(tensor({3, 1, 2}))              // [1, 2, 3]
///     sort(tensor({3, 1, 2}), 0, {.descending = true})  // [3, 2, 1]
REEL_API Tensor sort(Operand x, AxisNumber axis = -1, SortOptions options = {});
/// The positions in x of the elements of sort(x), in their order. int64, in the shape of x; the
/// axis is the last one by default. Equal elements keep their order.
///
///     argsort(tensor({3, 1, 2}))           // [1, 2, 0]
REEL_API Tensor argsort(Operand x, AxisNumber axis = -1, SortOptions options = {});

/// The result of topk().
struct TopK {
  Tensor values, positions;
};
/// The k largest elements of each line along an axis, the largest first, and their positions.
/// Throws ShapeError if k is below 0 or above the length of the axis. The axis is the last one by
/// default, and has the length k in both results; the positions are int64. Of a single number k is
/// 1, and the results are single numbers.
///
///     topk(tensor({3, 7, 5}), 2).values    // [7, 5]
///     topk(tensor({3, 7, 5}), 2).positions  // [1, 2]
REEL_API TopK topk(Operand x, CountNumber k, AxisNumber axis = -1);

/// Options of searchsorted().
struct SearchOptions {
  bool right = false;  // after equal elements, not before them
};
/// The position where each value belongs in `sorted`: the number of elements that are smaller than
/// it. With `right` it is the number of elements that are smaller or equal. `sorted` has one axis,
/// and its elements ascend. The result has the shape of `values`. Both are converted to one dtype,
/// as the operands of `+`.
///
///     searchsorted(tensor({1, 3, 5}), tensor({3, 4}))  // [1, 2]
REEL_API Tensor searchsorted(Operand sorted, Operand values, SearchOptions options = {});
/// How often each of the numbers 0 to length - 1 occurs in x (int64). x has any shape. Throws
/// DTypeError unless x is uint8, int32 or int64, and IndexError for a number outside the range.
///
///     bincount(tensor({1, 0, 1}), 3)       // [1, 2, 0]
REEL_API Tensor bincount(Operand x, Extent length);
/// How many elements (int64) are in each of `bins` equal parts of [low, high]. `bins` must be a
/// number; edges are not accepted. As in NumPy, a part contains its lower edge but not its upper
/// edge; the last part contains both. The edges are low + k (high - low) / bins, in float64.
/// Elements outside, and NaN, are not counted. Throws Error unless low < high, both are finite, and
/// bins > 0.
///
///     histogram(tensor({0.0, 1.0, 1.5, 2.0}), 2, 0, 2)     // [1, 3]
REEL_API Tensor histogram(Operand x, Extent bins, double low, double high);
}  // namespace reel
