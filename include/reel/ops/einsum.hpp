// SPDX-License-Identifier: BSD-3-Clause
// Sums of products over named indices.
#pragma once  // defined in lib/ops
#include <string_view>

#include <reel/tensor.hpp>

namespace reel {
/// Sums of products, as a formula says (Einstein's notation). The formula has a term for each
/// operand and, behind "->", one for the result; the letters of a term are the indices of its axes.
/// An index that the result does not have is summed over. An index that one operand has twice
/// takes its diagonal. "..." stands for further axes, which broadcast; other axes of one index have
/// one length. Without "->" the result has the axes of "..." and then the indices that occur once,
/// sorted. Operands come to one dtype, integers and truth values to int64.
///
/// Two operands at a time are multiplied, by matmul() where an index is summed over. Of up to five
/// operands the order has the least work. The result may be a view.
///
/// Throws Error for a formula that is not of this form or has an index only in the result, and
/// ShapeError if the operands do not fit the formula.
///
///     einsum("ik,kj->ij", {tensor({{1.f, 2.f}}), tensor({{3.f}, {4.f}})})  // [[11.]]
///     einsum("ii", {tensor({{1, 2}, {3, 4}})})     // 5
REEL_API Tensor einsum(std::string_view formula, Operands operands);
/// The sum of products over the last `axes` axes of x and the first `axes` axes of y. The result
/// has the other axes of x, then those of y. Dtypes are those of einsum(). Throws ShapeError if the
/// lengths of the axes differ.
///
///     tensordot(tensor({1, 2}), tensor({3, 4}), 1)   // 11
REEL_API Tensor tensordot(Operand x, Operand y, CountNumber axes = 2);
/// The sum of products over pairs of axes: axis of_x[i] of x and axis of_y[i] of y. Dtypes are
/// those of einsum().
///
///     tensordot(ones({2, 3}), ones({3, 2}), {0, 1}, {1, 0})  // 6.0
REEL_API Tensor tensordot(Operand x, Operand y, Axes of_x, Axes of_y);
/// The product of each element of x with each element of y: [elements of x, elements of y]. x and y
/// come to one dtype.
///
///     outer(tensor({1, 2}), tensor({3, 4}))          // [[3, 4], [6, 8]]
REEL_API Tensor outer(Operand x, Operand y);
/// The Kronecker product: each element of x times all of y. Along each axis its length is the
/// product of the lengths. A tensor of fewer axes gets first axes of length 1. Throws ShapeError
/// for more than four axes. x and y come to one dtype.
///
///     kron(tensor({1, 10}), tensor({1, 2}))          // [1, 2, 10, 20]
REEL_API Tensor kron(Operand x, Operand y);
}  // namespace reel
