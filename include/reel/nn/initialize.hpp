// SPDX-License-Identifier: BSD-3-Clause
// First values of weights. A weight is [..., in, out], so that a layer computes x times weight. The
// product of the axes before the last two multiplies in and out, as in a convolution. A shape with
// fewer than two axes throws ShapeError.
#pragma once  // defined in lib/nn
#include <reel/ops/create.hpp>

namespace reel::nn {
/// Uniform between -a and a, with a = sqrt(6 / (in + out)) (Glorot and Bengio 2010). The shape has
/// two axes or more: [..., in, out]. float32 by default. Throws ShapeError for fewer axes.
REEL_API Tensor glorot_uniform(Shape shape, TensorOptions options = {},
                               Caller caller = Caller::here());
/// Normal with mean 0 and variance 2 / (in + out). The shape has two axes or more: [..., in, out].
/// float32 by default. Throws ShapeError for fewer axes.
REEL_API Tensor glorot_normal(Shape shape, TensorOptions options = {},
                              Caller caller = Caller::here());
/// Uniform between -a and a, with a = sqrt(6 / in), for layers before a relu (He et al. 2015). The
/// shape has two axes or more: [..., in, out]. float32 by default. Throws ShapeError for fewer
/// axes.
REEL_API Tensor he_uniform(Shape shape, TensorOptions options = {}, Caller caller = Caller::here());
/// Normal with mean 0 and variance 2 / in. The shape has two axes or more: [..., in, out]. float32
/// by default. Throws ShapeError for fewer axes.
REEL_API Tensor he_normal(Shape shape, TensorOptions options = {}, Caller caller = Caller::here());
/// A random matrix whose rows (or columns, if there are fewer) are orthogonal to each other and
/// have the length `gain` (Saxe, McClelland and Ganguli 2014). Throws ShapeError unless the shape
/// has two axes. float32 and the gain 1 by default.
REEL_API Tensor orthogonal(Shape shape, double gain = 1, TensorOptions options = {},
                           Caller caller = Caller::here());
/// A tensor whose elements are all `value`, of any shape. float32 by default.
REEL_API Tensor constant(Shape shape, double value, TensorOptions options = {},
                         Caller caller = Caller::here());
}  // namespace reel::nn
