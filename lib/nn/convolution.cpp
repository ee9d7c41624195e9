// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/nn/convolution.hpp>
#include <reel/nn/initialize.hpp>

#include "lib/nn/check.hpp"

namespace reel::nn {
namespace {
template <int axes>
constexpr const char* pick(const char* one, const char* two, const char* three) {
  return axes == 1 ? one : axes == 2 ? two : three;
}
template <int axes>
constexpr const char* convolution_name = pick<axes>("Conv1d", "Conv2d", "Conv3d");
template <int axes>
constexpr const char* transposed_name = pick<axes>("ConvTranspose1d", "ConvTranspose2d",
                                                   "ConvTranspose3d");

/// [window, first / groups, second]
Shape weight_shape(const char* layer, int axes, const Steps& window, Extent first, Extent second,
                   std::int64_t groups, Caller caller) {
  if (window.count() > 1 && window.count() != axes)
    fail<ShapeError>(caller, layer, "window",
                     error_text("one number, or one for each of {} axes", axes),
                     to_text(window.count()));
  const std::int64_t all = checked(layer, "groups", groups, caller);
  if (first.value % all != 0 || second.value % all != 0)
    fail<ShapeError>(caller, layer, "groups",
                     error_text("a divisor of {} and {} channels", first.value, second.value),
                     to_text(all));
  Shape shape;
  shape.resize(static_cast<std::size_t>(axes) + 2);
  for (int a = 0; a < axes; ++a) shape.data()[a] = checked(layer, "window", window[a], caller);
  shape.data()[axes] = first.value / all;
  shape.data()[axes + 1] = second.value;
  return shape;
}
}  // namespace

template <int axes>
Convolution<axes>::Convolution(Extent in, Extent out, Steps window,
                               const ConvolutionOptions& options, Bias has_bias,
                               TensorOptions tensor, Caller caller)
    : weight(parameter(convolution_name<axes>, "weight", caller,
                       [&] {
                         checked(convolution_name<axes>, "in", in, caller);
                         checked(convolution_name<axes>, "out", out, caller);
                         return glorot_uniform(weight_shape(convolution_name<axes>, axes, window,
                                                            in, out, options.groups, caller),
                                               tensor, caller);
                       })),
      bias(parameter(convolution_name<axes>, "bias", caller,
                     [&] { return zeros({has_bias == Bias::yes ? out : 0}, tensor, caller); })),
      options(options) {}

template <int axes>
Tensor Convolution<axes>::operator()(Operand x) const {
  const CallerScope here(x.caller(), convolution_name<axes>);
  const auto call = [&](const auto&... last) {
    if constexpr (axes == 1)
      return conv1d(x, weight, last..., options);
    else if constexpr (axes == 2)
      return conv2d(x, weight, last..., options);
    else
      return conv3d(x, weight, last..., options);
  };
  return bias.size() > 0 ? call(bias) : call();
}

template <int axes>
TransposedConvolution<axes>::TransposedConvolution(Extent in, Extent out, Steps window,
                                                   const TransposedConvolutionOptions& options,
                                                   Bias has_bias, TensorOptions tensor,
                                                   Caller caller)
    : weight(parameter(transposed_name<axes>, "weight", caller,
                       [&] {
                         checked(transposed_name<axes>, "in", in, caller);
                         checked(transposed_name<axes>, "out", out, caller);
                         return glorot_uniform(weight_shape(transposed_name<axes>, axes, window,
                                                            out, in, options.groups, caller),
                                               tensor, caller);
                       })),
      bias(parameter(transposed_name<axes>, "bias", caller,
                     [&] { return zeros({has_bias == Bias::yes ? out : 0}, tensor, caller); })),
      options(options) {}

template <int axes>
Tensor TransposedConvolution<axes>::operator()(Operand x) const {
  const CallerScope here(x.caller(), transposed_name<axes>);
  const auto call = [&](const auto&... last) {
    if constexpr (axes == 1)
      return conv_transpose1d(x, weight, last..., options);
    else if constexpr (axes == 2)
      return conv_transpose2d(x, weight, last..., options);
    else
      return conv_transpose3d(x, weight, last..., options);
  };
  return bias.size() > 0 ? call(bias) : call();
}

template <int axes>
Tensor MaxPool<axes>::operator()(Operand x) const {
  const CallerScope here(x.caller(), pick<axes>("MaxPool1d", "MaxPool2d", "MaxPool3d"));
  if constexpr (axes == 1)
    return max_pool1d(x, window, options);
  else if constexpr (axes == 2)
    return max_pool2d(x, window, options);
  else
    return max_pool3d(x, window, options);
}
template <int axes>
Tensor MeanPool<axes>::operator()(Operand x) const {
  const CallerScope here(x.caller(), pick<axes>("MeanPool1d", "MeanPool2d", "MeanPool3d"));
  if constexpr (axes == 1)
    return mean_pool1d(x, window, options);
  else if constexpr (axes == 2)
    return mean_pool2d(x, window, options);
  else
    return mean_pool3d(x, window, options);
}

#define REEL_INSTANTIATE(axes)                 \
  template struct Convolution<axes>;           \
  template struct TransposedConvolution<axes>; \
  template struct MaxPool<axes>;               \
  template struct MeanPool<axes>;
REEL_INSTANTIATE(1)
REEL_INSTANTIATE(2)
REEL_INSTANTIATE(3)
#undef REEL_INSTANTIATE
}  // namespace reel::nn
