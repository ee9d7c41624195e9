// SPDX-License-Identifier: BSD-3-Clause
// Tensors from shapes and numbers. The dtype is float32, unless an option or a C++ integer gives
// another one.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// Options of functions that make tensors, and of layers.
struct TensorOptions {
  DType dtype = DType::float32;
};
/// Zeros.
REEL_API Tensor zeros(Shape shape, TensorOptions options = {}, Caller caller = Caller::here());
/// Ones.
REEL_API Tensor ones(Shape shape, TensorOptions options = {}, Caller caller = Caller::here());
/// Every element is `value`. A floating value gives float32 (also a double), an integer or bool the
/// dtype of its C++ type (dtype_of()), and an integer too large for int64 float32. With options the
/// dtype is theirs; a value that does not fit it throws DTypeError.
REEL_API Tensor full(Shape shape, Scalar value, Caller caller = Caller::here());
REEL_API Tensor full(Shape shape, Scalar value, TensorOptions options,
                     Caller caller = Caller::here());
/// start, start + step, ... up to but without stop: int64 for integers, else float32. The form with
/// options takes a floating dtype.
///
///     arange(0, 6, 2)                      // [0, 2, 4]
REEL_API Tensor arange(Scalar start, Scalar stop, Scalar step = 1, Caller caller = Caller::here());
REEL_API Tensor arange(Scalar start, Scalar stop, Scalar step, TensorOptions options,
                       Caller caller = Caller::here());
/// The identity matrix.
REEL_API Tensor eye(Extent n, TensorOptions options = {}, Caller caller = Caller::here());
/// Zeros, ones or this value, with the shape, dtype and device of x.
REEL_API Tensor zeros_like(Operand x);
REEL_API Tensor ones_like(Operand x);
REEL_API Tensor full_like(Operand x, Scalar value);
}  // namespace reel
