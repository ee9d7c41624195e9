// SPDX-License-Identifier: BSD-3-Clause
// Convolution along one to three spatial axes, channels last, and its gradients.
#include "lib/table/options/convolution.hpp"
#include "lib/cpu/convolution_weights.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
PassFunction activation_pass(Activation activation, DType dtype);  // pointwise_activation.cpp

namespace {
Geometry geometry_of(const KernelCall& call, const Shape& x, const Shape& weight, const Shape& y) {
  return {sizes_of(call.option<ConvolutionGeometry>(), x, weight, y)};
}

KernelResult convolution(const KernelCall& call) {
  const Body &x = call.input(0), &weight = call.input(1), &y = call.output();
  const Geometry g = geometry_of(call, x.shape, weight.shape, y.shape);
  return with_floating(y.dtype, [&]<class T>(Type<T>) {
    const Source<T> bias = call.input_count > 2 ? Source<T>(call.input(2)) : Source<T>();
    convolution_value(g, Source<T>(x), Source<T>(weight), bias, y.as<T>());
    const PassFunction pass =
        activation_pass(call.option<ConvolutionGeometry>().activation, y.dtype);
    if (pass)
      parallel_ranges(y.elements, Int{1} << 16, [&](Int first, Int end) {
        activate_rows(pass, y.as<T>() + first, end - first, 1, end - first);
      });
  });
}
KernelResult convolution_data(const KernelCall& call) {
  const Body &dy = call.input(0), &weight = call.input(1), &dx = call.output();
  const Geometry g = geometry_of(call, dx.shape, weight.shape, dy.shape);
  return with_floating(dx.dtype, [&]<class T>(Type<T>) {
    convolution_data(g, Source<T>(dy), Source<T>(weight), dx.as<T>());
  });
}
KernelResult convolution_weights(const KernelCall& call) {
  const Body &x = call.input(0), &dy = call.input(1), &dweight = call.output();
  const Geometry g = geometry_of(call, x.shape, dweight.shape, dy.shape);
  return with_floating(dweight.dtype, [&]<class T>(Type<T>) {
    if (is_depthwise(g))
      depthwise_weights(g, Source<T>(x), Source<T>(dy), dweight.as<T>());
    else
      convolution_weights(g, Source<T>(x), Source<T>(dy), dweight.as<T>());
  });
}

const NamedKernel kernels[] = {{"convolution", convolution},
                               {"convolution_add", convolution},
                               {"convolution_dense", convolution},
                               {"convolution_data", convolution_data},
                               {"convolution_weights", convolution_weights},
                               {nullptr, nullptr}};
}  // namespace
extern const Family convolution_family;
const Family convolution_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
