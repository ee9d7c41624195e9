// SPDX-License-Identifier: BSD-3-Clause
// Normalisation. Floating dtypes.
#pragma once  // defined in lib/ops
#include <vector>

#include <reel/tensor.hpp>

namespace reel {
/// (x - mean) / sqrt(variance + epsilon) over the last axis, times scale, plus shift (Ba, Kiros and
/// Hinton 2016). scale and shift are vectors of the length of the last axis; other shapes throw
/// ShapeError. The three come to one dtype; unless it is floating, DTypeError is thrown. Throws
/// Error for a negative epsilon. The result has the shape of x. The default epsilon is 1e-5. Where
/// squares of x - mean overflow, from 1e19 in float32, the result is `shift`.
REEL_API Tensor layer_norm(Operand x, Operand scale, Operand shift, double epsilon = 1e-5);
/// All tensors scaled by one factor, so that their Euclidean length, taken as one vector, is at
/// most `norm` (Pascanu, Mikolov and Bengio 2013); each keeps its dtype. NaN in one makes all NaN.
/// Squares are added in float64: elements above 1e154 make all 0, and those below 1e-162 count as
/// 0. `optim::clip_by_global_norm` is this for gradients. Throws Error unless norm > 0.
///
///     limit_norm({tensor({3.0, 0.0}), tensor(4.0)}, 1)[0]   // [0.6, 0.0]
REEL_API std::vector<Tensor> limit_norm(Operands x, double norm);
}  // namespace reel
