// SPDX-License-Identifier: BSD-3-Clause
// Functions that give a tensor another shape. Results are views where the layout allows it.
#pragma once  // defined in lib/ops
#include <vector>

#include <reel/tensor.hpp>

namespace reel {
/// The elements of x, in row-major order, in another shape. A length may be -1: it follows from the
/// other lengths. Throws ShapeError if the numbers of elements differ. x has any dtype, and the
/// result has its dtype.
///
///     reshape(arange(0, 6), {2, -1})       // [[0, 1, 2], [3, 4, 5]]
REEL_API Tensor reshape(Operand x, Shape shape);
/// x with its axes in reverse order. The result is a view. x has any dtype, and the result has its
/// dtype.
REEL_API Tensor transpose(Operand x);
/// x with its axes in the given order: axis i of the result is axis axes[i] of x. The result is a
/// view. x has any dtype, and the result has its dtype.
REEL_API Tensor transpose(Operand x, Axes axes);
/// x with new axes of length 1 at these positions of the result. The result is a view. x has any
/// dtype, and the result has its dtype.
REEL_API Tensor expand_dims(Operand x, Axes axes);
/// x without its axes of length 1: all of them, or the given ones. The result is a view. Throws
/// ShapeError if a given axis has another length. x has any dtype, and the result has its dtype.
REEL_API Tensor squeeze(Operand x, Axes axes = Axes::every());
/// x repeated along its axes of length 1 and along new first axes, to this shape. The result is a
/// view. Throws ShapeError if another length differs. x has any dtype, and the result has its
/// dtype.
REEL_API Tensor broadcast_to(Operand x, Shape shape);
/// Tensors joined along one of their axes. Throws ShapeError if they differ in another axis. The
/// axis is 0 by default. The parts come to one dtype.
///
///     concat({tensor({1, 2}), tensor({3})})        // [1, 2, 3]
REEL_API Tensor concat(Operands parts, AxisNumber axis = 0);
/// Tensors of one shape, joined along a new axis. Throws ShapeError if their shapes differ. It is
/// axis 0 of the result by default. The parts come to one dtype.
///
///     stack({tensor({1, 2}), tensor({3, 4})}, 1)   // [[1, 3], [2, 4]]
REEL_API Tensor stack(Operands parts, AxisNumber axis = 0);
/// Views of x, cut along an axis (0 by default) into so many equal parts. Throws ShapeError if the
/// number does not divide the length of the axis. x has any dtype, and the result has its dtype.
REEL_API std::vector<Tensor> split(Operand x, CountNumber parts, AxisNumber axis = 0);
/// Views of x, cut along an axis (0 by default) into parts of these lengths. Throws ShapeError if
/// they do not add up to the length of the axis. x has any dtype, and the result has its dtype.
REEL_API std::vector<Tensor> split(Operand x, std::span<const std::int64_t> lengths,
                                   AxisNumber axis = 0);
template <WholeNumber N>
std::vector<Tensor> split(Operand x, const std::vector<N>& lengths, AxisNumber axis = 0) {
  const std::vector<std::int64_t> wide = detail::positions_of(lengths, x.caller(), "split");
  return split(x, std::span<const std::int64_t>(wide.data(), wide.size()), axis);
}
/// x in another dtype. From floating to integer, the fraction is cut off, values out of range
/// become the nearest end of the range, and NaN becomes 0. Between integers, values wrap around. To
/// bool, everything but 0 becomes true. The shape is that of x.
REEL_API Tensor cast(Operand x, DType dtype);
}  // namespace reel
