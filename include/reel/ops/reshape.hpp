// SPDX-License-Identifier: BSD-3-Clause
// The same elements in other shapes. Results are views where the layout allows it.
#pragma once  // defined in lib/ops
#include <vector>

#include <reel/tensor.hpp>

namespace reel {
/// The same elements, in row-major order, in another shape. One length may be -1: it follows from
/// the others.
REEL_API Tensor reshape(Operand x, Shape shape);
/// The axes in reverse order, or in the given order. A view.
REEL_API Tensor transpose(Operand x);
REEL_API Tensor transpose(Operand x, Axes axes);
/// New axes of length 1 at these positions of the result. A view.
REEL_API Tensor expand_dims(Operand x, Axes axes);
/// x without its axes of length 1: all of them, or the given ones. A view.
REEL_API Tensor squeeze(Operand x, Axes axes = Axes::every());
/// x repeated along its axes of length 1 and along new leading axes. A view.
REEL_API Tensor broadcast_to(Operand x, Shape shape);
/// Parts joined along one of their axes. Throws ShapeError where other axes differ.
REEL_API Tensor concat(Operands parts, int axis = 0);
/// Parts of one shape joined along a new axis.
REEL_API Tensor stack(Operands parts, int axis = 0);
/// x cut along an axis, into equal parts or into parts of these lengths. Views.
REEL_API std::vector<Tensor> split(Operand x, int parts, int axis = 0);
REEL_API std::vector<Tensor> split(Operand x, std::span<const std::int64_t> lengths, int axis = 0);
/// x in another dtype. Floating to integer cuts towards zero; values out of range give the nearest
/// end of the range, and NaN gives 0. A larger integer wraps around. To bool, all but 0 is true.
REEL_API Tensor cast(Operand x, DType dtype);
}  // namespace reel
