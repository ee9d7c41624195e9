// SPDX-License-Identifier: BSD-3-Clause
// Values for weights to start from. A weight is [..., in, out], as x times weight wants it; axes
// before the last two belong to both sides. Throw ShapeError for a shape with fewer than two axes.
#pragma once  // defined in lib/nn
#include <reel/ops/create.hpp>

namespace reel::nn {
/// Uniform within sqrt(6 / (in + out)) of zero (Glorot and Bengio 2010).
REEL_API Tensor glorot_uniform(Shape shape, TensorOptions options = {},
                               Caller caller = Caller::here());
/// Normal with variance 2 / (in + out).
REEL_API Tensor glorot_normal(Shape shape, TensorOptions options = {},
                              Caller caller = Caller::here());
/// Uniform within sqrt(6 / in) of zero, for layers before a relu (He et al. 2015).
REEL_API Tensor he_uniform(Shape shape, TensorOptions options = {}, Caller caller = Caller::here());
/// Normal with variance 2 / in.
REEL_API Tensor he_normal(Shape shape, TensorOptions options = {}, Caller caller = Caller::here());
/// Rows (or columns, if those are fewer) orthogonal to each other and of length `gain`, random
/// otherwise (Saxe, McClelland and Ganguli 2014). Throws ShapeError unless the shape is a matrix.
REEL_API Tensor orthogonal(Shape shape, double gain = 1, TensorOptions options = {},
                           Caller caller = Caller::here());
/// Every element the same.
REEL_API Tensor constant(Shape shape, double value, TensorOptions options = {},
                         Caller caller = Caller::here());
}  // namespace reel::nn
