// SPDX-License-Identifier: BSD-3-Clause
// Matrix products.
#pragma once  // defined in lib/ops
#include <reel/activation.hpp>
#include <reel/tensor.hpp>

namespace reel {
/// The matrix product over the last two axes, as in NumPy: [..., n, k] by [..., k, m] gives
/// [..., n, m]. Leading axes broadcast. A vector counts as a row on the left and as a column on the
/// right, and the result does not have that axis. Transposed views are not copied. x and y
/// come to one dtype; unless it is floating, DTypeError is thrown. Throws ShapeError if the lengths
/// k differ.
///
///     matmul(tensor({{1.f, 2.f}}), tensor({{3.f}, {4.f}}))       // [[11.]]
REEL_API Tensor matmul(Operand x, Operand y);
/// matmul(x, y) + z in one step. x and y are matrices; z broadcasts to [n, m]. Throws as matmul().
/// The three come to one floating dtype.
REEL_API Tensor matmul_add(Operand x, Operand y, Operand z);
/// activation(matmul(x, weight) + bias). x is [..., in], weight [in, out], and bias broadcasts to
/// [..., out]. If x is a matrix this is one op, which applies the activation to rows of the result
/// while they are in the cache. Throws as matmul(). For other functions use matmul_add(). The three
/// come to one floating dtype.
///
///     dense(x, weight, bias, Activation::relu)
REEL_API Tensor dense(Operand x, Operand weight, Operand bias, Activation activation);
}  // namespace reel
