// SPDX-License-Identifier: BSD-3-Clause
// Sums, means and extremes over axes. `f(x)` reduces all axes, `f(x, 1)` one, `f(x, {0, -1})`
// several. With `keepdims` the reduced axes stay, with length 1.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// The sum; 0 of no elements. bool, uint8 and int32 are summed in int64.
///
///     sum(tensor({{1, 2}, {3, 4}}), 0)     // [4, 6]
REEL_API Tensor sum(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
REEL_API Tensor sum(Operand x, Keepdims keep);
/// The mean; NaN of no elements. Integers become float32.
REEL_API Tensor mean(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
REEL_API Tensor mean(Operand x, Keepdims keep);
/// The largest element; NaN if one is NaN. Equal largest elements share the gradient. Throws
/// ShapeError for no elements.
REEL_API Tensor max(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
REEL_API Tensor max(Operand x, Keepdims keep);
/// The smallest element; NaN if one is NaN. Equal smallest elements share the gradient. Throws
/// ShapeError for no elements.
REEL_API Tensor min(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
REEL_API Tensor min(Operand x, Keepdims keep);
/// The position (int64) of the largest element along one axis, or in the flattened tensor. Of equal
/// ones it is the first; the first NaN counts as the largest. Throws ShapeError for no elements or
/// several axes.
///
///     argmax(tensor({{1, 5}, {7, 2}}), 1)  // [1, 0]
REEL_API Tensor argmax(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
REEL_API Tensor argmax(Operand x, Keepdims keep);
/// Whether any element is true; false for no elements. `all(x)` is in indexing.hpp.
REEL_API Tensor any(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
REEL_API Tensor any(Operand x, Keepdims keep);
void max(const Tensor&, const Tensor&) = delete;  // maximum(x, y)
void min(const Tensor&, const Tensor&) = delete;  // minimum(x, y)
}  // namespace reel
