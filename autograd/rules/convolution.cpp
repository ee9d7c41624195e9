// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/convolution.hpp"

namespace reel {
namespace {
/// The lengths between the first axis and the last `behind` axes.
Shape middle(const Shape& shape, std::size_t first, std::size_t behind) {
  Shape lengths;
  lengths.resize(shape.rank() - first - behind);
  for (std::size_t i = 0; i < lengths.rank(); ++i) lengths.data()[i] = shape.data()[first + i];
  return lengths;
}
Shape spatial(const Shape& x) { return middle(x, 1, 1); }
Shape window(const Shape& weight) { return middle(weight, 0, 2); }
/// The options of a convolution with the same geometry, and a result of other lengths.
ConvolutionGeometry geometry(const GradientCall& call, const Shape& sizes) {
  ConvolutionGeometry geometry = call.option<ConvolutionGeometry>();
  geometry.sizes = sizes;
  geometry.activation = Activation::none;
  return geometry;
}

// y = x * w        dx = dy *T w        dw = x *w dy
void convolution_rule(GradientCall& call) {
  const Tensor& dy = call.dy();
  if (call.wants(0))
    call.give(0, core_ops.convolution_data, {dy, call.input(1)},
              geometry(call, spatial(call.input_shape(0))));
  if (call.wants(1))
    call.give(1, core_ops.convolution_weights, {call.input(0), dy},
              geometry(call, window(call.input_shape(1))));
}
// r = f(x * w + b), and f' is a function of r        db = dr, summed over all positions
void convolution_dense_rule(GradientCall& call) {
  const Activation activation = call.option<ConvolutionGeometry>().activation;
  const Op* const activating = core_ops.of(activation);
  if (activating && !call.step_before(*activating))
    call.set_dy(gradient_of(activation)(call.dy(), call.output()));
  convolution_rule(call);
  call.give_sum(2, call.dy());
}
// x = y *T w        dy = dx * w        dw = dx *w y
void convolution_data_rule(GradientCall& call) {
  const Tensor& dx = call.dy();
  if (call.wants(0))
    call.give(0, core_ops.convolution, {dx, call.input(1)},
              geometry(call, spatial(call.input_shape(0))));
  if (call.wants(1))
    call.give(1, core_ops.convolution_weights, {dx, call.input(0)},
              geometry(call, window(call.input_shape(1))));
}
// w = x *w y        dx = y *T dw        dy = x * dw
void convolution_weights_rule(GradientCall& call) {
  const Tensor& dw = call.dy();
  if (call.wants(0))
    call.give(0, core_ops.convolution_data, {call.input(1), dw},
              geometry(call, spatial(call.input_shape(0))));
  if (call.wants(1))
    call.give(1, core_ops.convolution, {call.input(0), dw},
              geometry(call, spatial(call.input_shape(1))));
}
}  // namespace

const NamedRule convolution_rules[] = {{"convolution", convolution_rule},
                                       {"convolution_add", convolution_dense_rule},
                                       {"convolution_dense", convolution_dense_rule},
                                       {"convolution_data", convolution_data_rule},
                                       {"convolution_weights", convolution_weights_rule},
                                       {nullptr, nullptr}};
}  // namespace reel
