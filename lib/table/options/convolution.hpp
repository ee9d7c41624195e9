// SPDX-License-Identifier: BSD-3-Clause
// Options of the convolution ops.
#pragma once
#include <cstdint>

#include <reel/activation.hpp>
#include <reel/shape.hpp>

namespace reel {
/// Along spatial axis a, the element o of the output of a convolution is a sum over taps t of the
/// element o * stride[a] + t * dilation[a] - before[a] of the input; outside of the input are zeros.
struct ConvolutionGeometry {
  Shape stride, dilation, before;  // one number for each spatial axis
  Shape sizes;                     // the lengths of the result's spatial axes
  std::int64_t groups = 1;
  Activation activation = Activation::none;

  void fields(auto&& field) {
    field("stride", stride);
    field("dilation", dilation);
    field("before", before);
    field("sizes", sizes);
    field("groups", groups);
    field("activation", activation);
  }
};
}  // namespace reel
