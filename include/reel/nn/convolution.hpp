// SPDX-License-Identifier: BSD-3-Clause
// Layers over images: convolutions and pooling. Images are [batch, spatial axes, channels], unless
// the options say Channels::first.
#pragma once  // defined in lib/nn
#include <reel/nn/layers.hpp>
#include <reel/ops/convolution.hpp>
#include <reel/ops/pool.hpp>

namespace reel::nn {
/// conv1d(), conv2d() or conv3d() with weight and bias. The weight [window, in / groups, out]
/// starts with glorot_uniform(), the bias [out] with zeros. Throws ShapeError for sizes below 1 and
/// for groups that do not divide in and out.
///
///     nn::Conv2d first(3, 64, 7, {.stride = 2, .padding = 3, .activation = Activation::relu});
template <int axes>
struct REEL_API Convolution {
  Variable weight, bias;  // without a bias it is empty and not among the fields
  ConvolutionOptions options;
  Convolution(Extent in, Extent out, Steps window, const ConvolutionOptions& options = {},
              Bias has_bias = Bias::yes, TensorOptions tensor = {}, Caller caller = Caller::here());
  /// x [batch, spatial axes, in]; the result is [batch, spatial axes, out]. x and the weights come
  /// to one floating dtype, which the result has.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("weight", weight);
    if (bias.size() > 0) field("bias", bias);
  }
};
/// Over [batch, width, channels].
using Conv1d = Convolution<1>;
/// Over [batch, height, width, channels].
using Conv2d = Convolution<2>;
/// Over [batch, depth, height, width, channels].
using Conv3d = Convolution<3>;

/// conv_transpose1d(), conv_transpose2d() or conv_transpose3d() with weight and bias. The weight
/// [window, out / groups, in] starts with glorot_uniform(), the bias [out] with zeros. Throws
/// ShapeError for sizes below 1 and for groups that do not divide in and out.
template <int axes>
struct REEL_API TransposedConvolution {
  Variable weight, bias;  // without a bias it is empty and not among the fields
  TransposedConvolutionOptions options;
  TransposedConvolution(Extent in, Extent out, Steps window,
                        const TransposedConvolutionOptions& options = {}, Bias has_bias = Bias::yes,
                        TensorOptions tensor = {}, Caller caller = Caller::here());
  /// x [batch, spatial axes, in]; the result is [batch, spatial axes, out]. x and the weights come
  /// to one floating dtype, which the result has.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("weight", weight);
    if (bias.size() > 0) field("bias", bias);
  }
};
/// A transposed convolution over one axis.
using ConvTranspose1d = TransposedConvolution<1>;
/// A transposed convolution over two axes.
using ConvTranspose2d = TransposedConvolution<2>;
/// A transposed convolution over three axes.
using ConvTranspose3d = TransposedConvolution<3>;

/// max_pool1d(), max_pool2d() or max_pool3d(), for Sequential.
template <int axes>
struct REEL_API MaxPool {
  Steps window;
  PoolOptions options = {};
  /// x [batch, spatial axes, channels]; the result has other lengths. x is floating, and the result
  /// has its dtype.
  Tensor operator()(Operand x) const;
  void fields(auto&&) {}
};
/// Max pooling over one axis.
using MaxPool1d = MaxPool<1>;
/// Max pooling over two axes.
using MaxPool2d = MaxPool<2>;
/// Max pooling over three axes.
using MaxPool3d = MaxPool<3>;

/// mean_pool1d(), mean_pool2d() or mean_pool3d(), for Sequential.
template <int axes>
struct REEL_API MeanPool {
  Steps window;
  MeanPoolOptions options = {};
  /// x [batch, spatial axes, channels]; the result has other lengths. x is floating, and the result
  /// has its dtype.
  Tensor operator()(Operand x) const;
  void fields(auto&&) {}
};
/// Mean pooling over one axis.
using MeanPool1d = MeanPool<1>;
/// Mean pooling over two axes.
using MeanPool2d = MeanPool<2>;
/// Mean pooling over three axes.
using MeanPool3d = MeanPool<3>;
}  // namespace reel::nn
