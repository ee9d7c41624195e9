// SPDX-License-Identifier: BSD-3-Clause
// Elements in another order, repeated, padded or cut off.
#pragma once  // defined in lib/ops
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <reel/tensor.hpp>

namespace reel {
/// x with two of its axes exchanged. The result is a view. x has any dtype, and the result has its
/// dtype.
REEL_API Tensor swap_axes(Operand x, AxisNumber first, AxisNumber second);
/// x with its last two axes exchanged. The result is a view. Throws ShapeError for fewer than two
/// axes. x has any dtype, and the result has its dtype.
///
///     matrix_transpose(tensor({{1, 2, 3}}))  // [[1], [2], [3]]
REEL_API Tensor matrix_transpose(Operand x);
/// The slices of x along an axis, as views: x(0), x(1), ... for axis 0. x has any dtype, and the
/// result has its dtype.
REEL_API std::vector<Tensor> unbind(Operand x, AxisNumber axis = 0);
/// The elements in reverse order along these axes, by default along all axes. The result is a view.
/// x has any dtype, and the result has its dtype.
///
///     flip(tensor({{1, 2}, {3, 4}}), 1)    // [[2, 1], [4, 3]]
REEL_API Tensor flip(Operand x, Axes axes = Axes::every());
/// The diagonals of the matrices in two axes: the elements x[i][i + offset], as a new last axis.
/// The result is a view if the strides of x allow it. x has any dtype, and the result has its
/// dtype.
///
///     diagonal(tensor({{1, 2, 3}, {4, 5, 6}}))     // [1, 5]
///     diagonal(tensor({{1, 2, 3}, {4, 5, 6}}), 1)  // [2, 6]
REEL_API Tensor diagonal(Operand x, CountNumber offset = 0, AxisNumber first = -2,
                         AxisNumber second = -1);
/// The lower triangle of each matrix in the last two axes: 0 where the column is above row +
/// offset. x has any dtype, and the result has its dtype.
///
///     tril(ones({2, 2}, int32))            // [[1, 0], [1, 1]]
REEL_API Tensor tril(Operand x, CountNumber offset = 0);
/// The upper triangle of each matrix in the last two axes: 0 where the column is below row +
/// offset. x has any dtype, and the result has its dtype.
///
///     triu(ones({2, 2}, int32))            // [[1, 1], [0, 1]]
REEL_API Tensor triu(Operand x, CountNumber offset = 0);
/// x with its elements moved along an axis by `shift` positions. Elements that leave one end come
/// back at the other end. x has any dtype, and the result has its dtype.
///
///     roll(tensor({1, 2, 3, 4}), 1, 0)     // [4, 1, 2, 3]
REEL_API Tensor roll(Operand x, CountNumber shift, AxisNumber axis);
/// x as a whole, repeated counts[i] times along axis i. If x has more axes than there are counts,
/// its first axes are not repeated. If it has fewer, it gets new first axes. x has any dtype, and
/// the result has its dtype.
///
///     tile(tensor({1, 2}), {3})            // [1, 2, 1, 2, 1, 2]
REEL_API Tensor tile(Operand x, Shape counts);
/// Each slice along an axis, repeated `count` times. Throws ShapeError for a negative count. x has
/// any dtype, and the result has its dtype.
///
///     repeat(tensor({1, 2}), 3, 0)         // [1, 1, 1, 2, 2, 2]
REEL_API Tensor repeat(Operand x, Extent count, AxisNumber axis);
/// Slice i along an axis, repeated counts[i] times. As in NumPy, a list of one count is for every
/// slice. Throws ShapeError for a negative count, and unless there is one count for each slice or
/// one for all. x has any dtype, and the result has its dtype.
REEL_API Tensor repeat(Operand x, const std::vector<std::int64_t>& counts, AxisNumber axis);
template <WholeNumber N>
Tensor repeat(Operand x, const std::vector<N>& counts, AxisNumber axis) {
  return repeat(x, detail::positions_of(counts, x.caller(), "repeat"), axis);
}
/// Slice i along an axis, repeated counts[i] times. As in NumPy, a list of one count is for every
/// slice. Throws ShapeError for a negative count, and unless there is one count for each slice or
/// one for all. x has any dtype, and the result has its dtype.
///
///     repeat(tensor({1, 2}), {1, 2}, 0)    // [1, 2, 2]
REEL_API Tensor repeat(Operand x, std::initializer_list<std::int64_t> counts, AxisNumber axis);

/// How many elements pad() adds before and after the elements of an axis.
struct Padding {
  Extent before = 0, after = 0;
};
/// What pad() adds.
enum class PadMode : std::uint8_t {
  constant,   ///< one value
  reflect,    ///< x mirrored at its first and last element, which are not repeated
  replicate,  ///< copies of the first and of the last element
  circular    ///< x again, from its other end
};
/// Options of pad().
struct PadOptions {
  PadMode mode = PadMode::constant;
  Scalar value = 0;  // of PadMode::constant
};
/// x with elements added at both ends of its axes. `widths` has one pair for each axis. A width may
/// be larger than x, as in NumPy. Throws ShapeError for a negative width, for another number of
/// pairs, and if an axis without elements is to be repeated. Throws DTypeError if the value does
/// not fit the dtype of x.
///
///     pad(tensor({1, 2, 3}), {{1, 2}})     // [0, 1, 2, 3, 0, 0]
///     pad(tensor({1, 2, 3}), {{2, 1}}, {PadMode::reflect})  // [3, 2, 1, 2, 3, 2]
REEL_API Tensor pad(Operand x, const std::vector<Padding>& widths, PadOptions options = {});
}  // namespace reel
