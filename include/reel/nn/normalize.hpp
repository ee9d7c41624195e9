// SPDX-License-Identifier: BSD-3-Clause
// Layers that normalise. Their inputs have the channels in axis 1: [batch, channels, ...]. Sizes
// below 1 throw ShapeError.
#pragma once  // defined in lib/nn
#include <reel/fields.hpp>
#include <reel/ops/create.hpp>

namespace reel::nn {
/// Options of RMSNorm and GroupNorm.
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
  /// x [..., width] gives [..., width].
  Tensor operator()(Operand x) const;
  void fields(auto&& field) { field("scale", scale); }
};

/// Divides the channels of [batch, channels, ...] into groups. Normalises each group of each
/// example to mean 0 and variance 1, then multiplies by scale [channels] and adds shift [channels]
/// (Wu and He 2018). Throws ShapeError unless `groups` divides the channels.
struct REEL_API GroupNorm {
  Variable scale, shift;
  std::int64_t groups;
  double epsilon;
  GroupNorm(Extent groups, Extent channels, NormOptions options = {},
            Caller caller = Caller::here());
  /// x [batch, channels, ...] gives a tensor of its shape.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("scale", scale);
    field("shift", shift);
  }
};

/// Options of BatchNorm.
struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  // running statistics += momentum (those of the batch - running ones)
  DType dtype = DType::float32;
};
/// Normalises each channel of [batch, channels, ...] to mean 0 and variance 1, then multiplies by
/// scale [channels] and adds shift [channels] (Ioffe and Szegedy 2015). While training(), mean and
/// variance are those of the batch, and the running ones follow them, with n / (n - 1) times the
/// batch's variance. Else the running ones are used. A batch to train with that has fewer than two
/// elements for each channel throws ShapeError.
struct REEL_API BatchNorm {
  Variable scale, shift;
  Buffer mean, variance;  // running: 0 and 1 at first
  double epsilon, momentum;
  explicit BatchNorm(Extent channels, BatchNormOptions options = {},
                     Caller caller = Caller::here());
  /// x [batch, channels, ...] gives a tensor of its shape. While training() it changes the running
  /// mean and variance.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("scale", scale);
    field("shift", shift);
    field("mean", mean);
    field("variance", variance);
  }
};
}  // namespace reel::nn
