// SPDX-License-Identifier: BSD-3-Clause
// Options of the ops over windows of images.
#pragma once
#include <cstdint>

#include <reel/activation.hpp>
#include <reel/shape.hpp>

namespace reel {
/// Along spatial axis a, the element o of the output of a convolution is a sum over taps t of the
/// element o * stride[a] + t * dilation[a] - before[a] of the input; outside of the input are
/// zeros.
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

/// The lengths of a convolution from x to y along depth, height and width; absent axes have length
/// 1. Channels and outputs are those of one group.
struct ConvolutionSizes {
  std::int64_t batch, in[3], out[3], taps[3], stride[3], dilation[3], before[3];
  std::int64_t channels, outputs, groups;
};
/// x and y are [batch, spatial axes, channels], the weight is [taps, channels of a group, outputs].
/// Inlined, as each instruction set has its own.
[[gnu::always_inline]] inline ConvolutionSizes sizes_of(const ConvolutionGeometry& options,
                                                        const Shape& x, const Shape& weight,
                                                        const Shape& y) {
  const int axes = static_cast<int>(options.stride.rank());
  ConvolutionSizes sizes{};
  sizes.batch = x.data()[0];
  sizes.groups = options.groups;
  sizes.channels = x.data()[axes + 1] / options.groups;
  sizes.outputs = y.data()[axes + 1] / options.groups;
  for (int a = 0; a < 3; ++a) {
    const int own = a - (3 - axes);
    sizes.in[a] = own < 0 ? 1 : x.data()[own + 1];
    sizes.out[a] = own < 0 ? 1 : y.data()[own + 1];
    sizes.taps[a] = own < 0 ? 1 : weight.data()[own];
    sizes.stride[a] = own < 0 ? 1 : options.stride.data()[own];
    sizes.dilation[a] = own < 0 ? 1 : options.dilation.data()[own];
    sizes.before[a] = own < 0 ? 0 : options.before.data()[own];
  }
  return sizes;
}

/// The windows of a pooling op: element o of the output is the largest of the elements
/// o * stride[a] + t * dilation[a] - before[a], 0 <= t < window[a], that exist. Each window has an
/// element that exists.
struct PoolGeometry {
  Shape window, stride, dilation, before;  // one number for each spatial axis
  Shape sizes;                             // the lengths of the result's spatial axes

  void fields(auto&& field) {
    field("window", window);
    field("stride", stride);
    field("dilation", dilation);
    field("before", before);
    field("sizes", sizes);
  }
  /// The windows of images of this shape: each channel by itself, without weights.
  [[gnu::always_inline]] ConvolutionSizes sizes_for(const Shape& x) const {
    ConvolutionGeometry geometry;
    geometry.stride = stride;
    geometry.dilation = dilation;
    geometry.before = before;
    Shape y = x;
    for (std::size_t a = 0; a < sizes.rank(); ++a) y.data()[a + 1] = sizes.data()[a];
    return sizes_of(geometry, x, window, y);
  }
};
}  // namespace reel
