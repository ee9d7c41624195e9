// SPDX-License-Identifier: BSD-3-Clause
// Layers. Sizes below 1 throw ShapeError. Inputs promote with the weights as in any op: float64
// input with float32 weights gives float64.
#pragma once  // defined in lib/nn
#include <type_traits>

#include <reel/activation.hpp>
#include <reel/fields.hpp>
#include <reel/ops/create.hpp>
#include <reel/ops/softmax.hpp>

namespace reel::nn {
/// activation(x weight + bias) for x [..., in]. weight [in, out] starts with glorot_uniform(), bias
/// [out] with zeros. See dense().
///
///     nn::Linear hidden(784, 512, Activation::relu), head(512, 10);
struct REEL_API Linear {
  Variable weight, bias;
  Activation activation = Activation::none;
  Linear(Extent in, Extent out, TensorOptions options = {}, Caller caller = Caller::here());
  template <class A>
  requires std::is_same_v<A, Activation>  // and not {}
  Linear(Extent in, Extent out, A function, TensorOptions options = {},
         Caller caller = Caller::here())
      : Linear(in, out, options, function, caller) {}
  Linear(Extent in, Extent out, TensorOptions options, Activation activation, Caller caller);
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("weight", weight);
    field("bias", bias);
  }
};

/// A table [count, width] whose rows stand for words. Gives the row of each word, which is an
/// integer from 0 to count - 1; negative ones count from the end, as in take(). The table starts
/// with normal random numbers.
struct REEL_API Embedding {
  Variable table;
  Embedding(Extent count, Extent width, TensorOptions options = {}, Caller caller = Caller::here());
  Tensor operator()(Operand words) const;
  void fields(auto&& field) { field("table", table); }
};

/// Options of LayerNorm.
struct LayerNormOptions {
  double epsilon = 1e-5;
  DType dtype = DType::float32;
};
/// Normalises the last axis to mean 0 and variance 1, then multiplies by scale and adds shift.
struct REEL_API LayerNorm {
  Variable scale, shift;
  double epsilon;
  LayerNorm(Extent width, LayerNormOptions options = {}, Caller caller = Caller::here());
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("scale", scale);
    field("shift", shift);
  }
};

/// While training(), sets each element to 0 with this probability and divides the others by
/// 1 - probability. Else it returns x. Throws Error unless 0 <= probability < 1.
struct REEL_API Dropout {
  double probability;
  explicit Dropout(double probability = 0.5, Caller caller = Caller::here());
  Tensor operator()(Operand x) const;
  void fields(auto&& field) { field("probability", probability); }
};

using reel::cross_entropy;
}  // namespace reel::nn
