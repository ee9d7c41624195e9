// SPDX-License-Identifier: BSD-3-Clause
// Layers that normalise. Their inputs have the channels in the last axis: [batch, ..., channels];
// with Channels::first in axis 1, as in PyTorch. Sizes below 1 throw ShapeError.
#pragma once  // defined in lib/nn
#include <reel/fields.hpp>
#include <reel/ops/convolution.hpp>
#include <reel/ops/create.hpp>

namespace reel::dist {
class World;
}
namespace reel::nn {
/// Options of RMSNorm.
struct NormOptions {
  double epsilon = 1e-5;
  DType dtype = DType::float32;
};
/// x scale / sqrt(mean of x^2 + epsilon) over the last axis (Zhang and Sennrich 2019). The default
/// epsilon is 1e-5.
struct REEL_API RMSNorm {
  Variable scale;
  double epsilon;
  explicit RMSNorm(Extent width, NormOptions options = {}, Caller caller = Caller::here());
  /// x [..., width] gives [..., width]. x and the weights come to one floating dtype, which the
  /// result has.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) { field("scale", scale); }
};

/// Options of GroupNorm and InstanceNorm.
struct GroupNormOptions {
  double epsilon = 1e-5;
  DType dtype = DType::float32;
  Channels channels = Channels::last;  ///< where x has its channels
};
/// Divides the channels of x [batch, ..., channels] into groups. Normalises each group of each
/// example to mean 0 and variance 1, then multiplies by scale [channels] and adds shift [channels]
/// (Wu and He 2018). Throws ShapeError unless `groups` divides the channels.
struct REEL_API GroupNorm {
  Variable scale, shift;
  std::int64_t groups;
  double epsilon;
  Channels channels;
  GroupNorm(Extent groups, Extent channels, GroupNormOptions options = {},
            Caller caller = Caller::here());
  /// x and the result are [batch, ..., channels]. x and the weights come to one floating dtype,
  /// which the result has.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("scale", scale);
    field("shift", shift);
  }
};
/// Normalises each channel of each example (Ulyanov, Vedaldi and Lempitsky 2016): a GroupNorm with
/// one channel in each group.
struct REEL_API InstanceNorm : GroupNorm {
  explicit InstanceNorm(Extent width, GroupNormOptions options = {}, Caller caller = Caller::here())
      : GroupNorm(width, width, options, caller) {}
};

/// Options of BatchNorm.
struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  // running statistics += momentum (those of the batch - running ones)
  DType dtype = DType::float32;
  Channels channels = Channels::last;  ///< where x has its channels
  /// Mean and variance are those of the batches of all ranks together. All ranks call the layer as
  /// often, and compute gradients through it; a rank may have an empty batch. The World must live
  /// as long as the layer.
  const dist::World* sync = nullptr;
};
/// Normalises each channel of x [batch, ..., channels] to mean 0 and variance 1, then multiplies by
/// scale [channels] and adds shift [channels] (Ioffe and Szegedy 2015). While training(), mean and
/// variance are those of the batch, and the running ones follow them, with n / (n - 1) times the
/// batch's variance. Else the running ones are used. A batch to train with that has fewer than two
/// elements for each channel throws ShapeError.
struct REEL_API BatchNorm {
  Variable scale, shift;
  Buffer mean, variance;  // running: 0 and 1 at first
  double epsilon, momentum;
  Channels channels;
  const dist::World* sync;
  explicit BatchNorm(Extent channels, BatchNormOptions options = {},
                     Caller caller = Caller::here());
  /// x [batch, ..., channels] gives a tensor of its shape. While training() it changes the running
  /// mean and variance. x and the weights come to one floating dtype, which the result has.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("scale", scale);
    field("shift", shift);
    field("mean", mean);
    field("variance", variance);
  }
};
}  // namespace reel::nn
