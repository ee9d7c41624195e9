// SPDX-License-Identifier: BSD-3-Clause
// Normalisation. Floating dtypes.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// (x - mean) / sqrt(variance + epsilon) over the last axis, times scale, plus shift (Ba, Kiros
/// and Hinton 2016). scale and shift are vectors of the length of the last axis.
REEL_API Tensor layer_norm(Operand x, Operand scale, Operand shift, double epsilon = 1e-5);
}  // namespace reel
