// SPDX-License-Identifier: BSD-3-Clause
// Sums, means and extremes over axes. `f(x)` reduces all axes, `f(x, 1)` one, `f(x, {0, -1})`
// several. With `keepdims` the result keeps the reduced axes, with length 1. Throws ShapeError for
// an axis that does not exist or occurs twice.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// The sum; 0 if there are no elements. bool, uint8 and int32 are summed in int64. Of all axes by
/// default, else of one axis or several; with `keepdims` they stay, with length 1.
///
///     sum(tensor({{1, 2}, {3, 4}}), 0)     // [4, 6]
REEL_API Tensor sum(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As sum(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor sum(Operand x, Keepdims keep);
/// Undoes broadcasting: sums x over the axes along which `shape` is broadcast to the shape of x.
/// This is the gradient of a broadcast input. Floating dtypes. Throws ShapeError if `shape` does
/// not broadcast to x's shape.
///
///     sum_to(tensor({{1.0, 2.0}, {3.0, 4.0}}), {2, 1})     // [[3.], [7.]]
REEL_API Tensor sum_to(Operand x, Shape shape);
/// The mean; NaN if there are no elements. Integers become float32. Of all axes by default, else of
/// one axis or several; with `keepdims` they stay, with length 1.
///
///     mean(tensor({{1.0, 2.0}, {3.0, 4.0}}), 1, keepdims)  // [[1.5], [3.5]]
REEL_API Tensor mean(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As mean(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor mean(Operand x, Keepdims keep);
/// The largest element; NaN if one is NaN. The gradient is divided among equal largest elements.
/// Throws ShapeError for no elements. Of all axes by default, else of one axis or several; with
/// `keepdims` they stay, with length 1. The result has the dtype of x.
REEL_API Tensor max(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As max(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor max(Operand x, Keepdims keep);
/// The smallest element; NaN if one is NaN. The gradient is divided among equal smallest elements.
/// Throws ShapeError for no elements. Of all axes by default, else of one axis or several; with
/// `keepdims` they stay, with length 1. The result has the dtype of x.
REEL_API Tensor min(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As min(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor min(Operand x, Keepdims keep);
/// The position (int64) of the largest element along one axis, or in the flattened tensor if no
/// axis is given. Of several largest elements it is the first. NaN counts as the largest. Throws
/// ShapeError for no elements or several axes.
///
///     argmax(tensor({{1, 5}, {7, 2}}), 1)  // [1, 0]
REEL_API Tensor argmax(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As argmax(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor argmax(Operand x, Keepdims keep);
/// Whether any element is true, that is not 0; false for no elements. `all(x)` is in indexing.hpp.
/// Of all axes by default, else of one axis or several; with `keepdims` they stay, with length 1.
/// The result is bool.
REEL_API Tensor any(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As any(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor any(Operand x, Keepdims keep);
void max(const Tensor&, const Tensor&) = delete;  // maximum(x, y)
void min(const Tensor&, const Tensor&) = delete;  // minimum(x, y)
}  // namespace reel
