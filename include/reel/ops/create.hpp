// SPDX-License-Identifier: BSD-3-Clause
// Tensors from nothing. float32 unless an option or a C++ integer says otherwise.
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
/// Numbers with a fraction are float32, double or not, and so are those too large for int64; other
/// integers and bools have the dtype of their C++ type, see dtype_of(). The other form is of the
/// dtype that its options say; it throws DTypeError where the value does not fit.
REEL_API Tensor full(Shape shape, Scalar value, Caller caller = Caller::here());
REEL_API Tensor full(Shape shape, Scalar value, TensorOptions options,
                     Caller caller = Caller::here());
/// start, start + step, ... before stop: int64 for integers, else float32. The other form is
/// float32 or float64.
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
