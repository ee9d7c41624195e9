// SPDX-License-Identifier: BSD-3-Clause
// The entries that modules below lib/ops and beside it name. Files of lib/ops and lib/tensor
// include lib/ops/entries.hpp instead.
#pragma once  // defined in lib/assemble.cpp
#include <reel/activation.hpp>

#include "lib/table/op.hpp"

namespace reel {
struct CoreOps {
  Op &add, &attention_dropout, &cast, &cofactors, &convolution, &convolution_data,
      &convolution_weights, &fill, &function_curve, &function_slope, &linear_scan, &lookup, &matmul,
      &max_pool_places, &multiply, &order, &polygamma, &random, &relu, &reshape, &scatter,
      &scatter_elements, &sigmoid, &slice, &sum_to, &tanh, &to_device, &unslice;

  /// The op of an activation; null for none.
  Op* of(Activation activation) const {
    switch (activation) {
      case Activation::none:
        return nullptr;
      case Activation::relu:
        return &relu;
      case Activation::sigmoid:
        return &sigmoid;
      case Activation::tanh:
        return &tanh;
    }
    return nullptr;
  }
};
extern const CoreOps core_ops;
}  // namespace reel
