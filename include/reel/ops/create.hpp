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
/// A tensor of zeros. Throws ShapeError for a negative length. float32 by default.
REEL_API Tensor zeros(Shape shape, TensorOptions options = {}, Caller caller = Caller::here());
/// A tensor of ones. Throws ShapeError for a negative length. float32 by default.
REEL_API Tensor ones(Shape shape, TensorOptions options = {}, Caller caller = Caller::here());
template <class N, class... J>
requires std::is_integral_v<N>
void zeros(N, J...) = delete;  // zeros({2, 3})
template <class N, class... J>
requires std::is_integral_v<N>
void ones(N, J...) = delete;  // ones({2, 3})
/// A tensor whose elements are all `value`. Without options the dtype follows the C++ type: float32
/// for floating types (also for double) and for integers too large for int64, else dtype_of(). With
/// options it is their dtype; a value that does not fit this dtype throws DTypeError.
REEL_API Tensor full(Shape shape, Scalar value, Caller caller = Caller::here());
/// full() in the dtype of the options. A value that does not fit it throws DTypeError.
REEL_API Tensor full(Shape shape, Scalar value, TensorOptions options,
                     Caller caller = Caller::here());
/// start, start + step, ... before stop: int64 if all three are integers, else float32, or the
/// dtype of the options. Throws DTypeError for an integer dtype if a number is not an integer or an
/// element does not fit; Error for NaN and for a step of 0; ShapeError for more than 2^58 elements.
///
///     arange(0, 6, 2)                      // [0, 2, 4]
///     arange(0, 3, float32)                // [0., 1., 2.]
REEL_API Tensor arange(Scalar start, Scalar stop, Scalar step = 1, Caller caller = Caller::here());
/// arange() in the dtype of the options.
REEL_API Tensor arange(Scalar start, Scalar stop, Scalar step, TensorOptions options,
                       Caller caller = Caller::here());
/// `count` numbers at equal distances, from start to stop. The last one is stop. Throws ShapeError
/// for a negative count, and DTypeError unless the dtype is floating. float32 by default.
///
///     linspace(0, 1, 5)                    // [0.00, 0.25, 0.50, 0.75, 1.00]
REEL_API Tensor linspace(Scalar start, Scalar stop, Extent count, TensorOptions options = {},
                         Caller caller = Caller::here());
/// The coordinates of the points of a grid (NumPy's meshgrid with indexing="ij"). Each part has one
/// axis. Result i has the values of part i along axis i, repeated along the other axes. The shape
/// of every result is the lengths of all parts. The results are views. Each result has the dtype of
/// its part.
///
///     meshgrid({tensor({1, 2}), tensor({3, 4, 5})})[0]  // [[1, 1, 1], [2, 2, 2]]
///     meshgrid({tensor({1, 2}), tensor({3, 4, 5})})[1]  // [[3, 4, 5], [3, 4, 5]]
REEL_API std::vector<Tensor> meshgrid(Operands parts);
/// Which steps of sequences are before their ends (bool): result[..., t] is t < lengths[...]. The
/// new last axis has `steps` elements. Throws DTypeError unless the lengths are uint8, int32 or
/// int64.
///
///     sequence_mask(tensor({2, 0}), 3)     // [[true, true, false], [false, false, false]]
REEL_API Tensor sequence_mask(Operand lengths, Extent steps);
/// The identity matrix of n rows. [n, n], float32 by default.
REEL_API Tensor eye(Extent n, TensorOptions options = {}, Caller caller = Caller::here());

/// The functions above with a dtype in place of the options: `zeros({3}, int64)`.
template <class D>
requires std::is_same_v<D, DType> Tensor zeros(Shape shape, D dtype,
                                               Caller caller = Caller::here()) {
  return zeros(shape, TensorOptions{dtype}, caller);
}
template <class D>
requires std::is_same_v<D, DType> Tensor ones(Shape shape, D dtype,
                                              Caller caller = Caller::here()) {
  return ones(shape, TensorOptions{dtype}, caller);
}
template <class D>
requires std::is_same_v<D, DType> Tensor full(Shape shape, Scalar value, D dtype,
                                              Caller caller = Caller::here()) {
  return full(shape, value, TensorOptions{dtype}, caller);
}
template <class D>
requires std::is_same_v<D, DType> Tensor arange(Scalar start, Scalar stop, Scalar step, D dtype,
                                                Caller caller = Caller::here()) {
  return arange(start, stop, step, TensorOptions{dtype}, caller);
}
template <class D>
requires std::is_same_v<D, DType> Tensor arange(Scalar start, Scalar stop, D dtype,
                                                Caller caller = Caller::here()) {
  return arange(start, stop, 1, TensorOptions{dtype}, caller);
}
template <class D>
requires std::is_same_v<D, DType> Tensor linspace(Scalar start, Scalar stop, Extent count, D dtype,
                                                  Caller caller = Caller::here()) {
  return linspace(start, stop, count, TensorOptions{dtype}, caller);
}
template <class D>
requires std::is_same_v<D, DType> Tensor eye(Extent n, D dtype, Caller caller = Caller::here()) {
  return eye(n, TensorOptions{dtype}, caller);
}

/// A tensor of zeros with the shape, dtype and device of x.
REEL_API Tensor zeros_like(Operand x);
/// A tensor of ones with the shape, dtype and device of x.
REEL_API Tensor ones_like(Operand x);
/// A tensor of one value with the shape, dtype and device of x. Throws DTypeError if the value does
/// not fit the dtype.
REEL_API Tensor full_like(Operand x, Scalar value);
}  // namespace reel
