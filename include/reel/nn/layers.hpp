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
/// Whether a layer has a bias.
enum class Bias : bool { no, yes };
/// `nn::Linear(3, 4, nn::no_bias)`.
inline constexpr Bias no_bias = Bias::no;

/// activation(x weight + bias) for x [..., in]. weight [in, out] starts with glorot_uniform(), bias
/// [out] with zeros. See dense().
///
///     nn::Linear hidden(784, 512, Activation::relu), head(512, 10), scores(10, 10, nn::no_bias);
struct REEL_API Linear {
  Variable weight, bias;  // with no_bias, bias is empty and not among the fields
  Activation activation = Activation::none;
  Linear(Extent in, Extent out, TensorOptions options = {}, Caller caller = Caller::here());
  template <class A>
  requires std::is_same_v<A, Activation>  // and not {}
  Linear(Extent in, Extent out, A function, TensorOptions options = {},
         Caller caller = Caller::here())
      : Linear(in, out, options, function, caller) {}
  template <class B>
  requires std::is_same_v<B, Bias> Linear(Extent in, Extent out, B has_bias,
                                          Activation function = Activation::none,
                                          TensorOptions options = {},
                                          Caller caller = Caller::here())
      : Linear(in, out, options, function, caller, has_bias) {}
  Linear(Extent in, Extent out, TensorOptions options, Activation activation, Caller caller,
         Bias has_bias = Bias::yes);
  /// x [..., in] gives [..., out]. Throws ShapeError for another last axis. x and the weights come
  /// to one floating dtype, which the result has.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("weight", weight);
    if (bias.size() > 0) field("bias", bias);
  }
};

/// t h + (1 - t) x, with h = activation(x W + b) and the gate t = sigmoid(x V + c), for x
/// [..., width] (Srivastava, Greff and Schmidhuber 2015). c starts with -1, so a new layer returns
/// mostly x.
struct REEL_API Highway {
  Linear transform, gate;
  explicit Highway(Extent width, Activation activation = Activation::relu,
                   TensorOptions options = {}, Caller caller = Caller::here());
  /// x [..., width] gives [..., width]. x and the weights come to one floating dtype, which the
  /// result has.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("transform", transform);
    field("gate", gate);
  }
};

/// Joins the axes from `first_axis` to the last one into one axis: [batch, 2, 3] becomes [batch,
/// 6]. Throws IndexError if the axis does not exist.
struct REEL_API Flatten {
  int first_axis = 1;
  /// x with the axes from first_axis on in one. x has any dtype, and the result has its dtype.
  Tensor operator()(Operand x) const;
  void fields(auto&&) {}
};

/// Options of Embedding.
struct EmbeddingOptions {
  DType dtype = DType::float32;
  bool sparse = false;  // GradientTape::row_gradients() gives the gradient of the table as rows
  std::int64_t padding = -1;  // this word's row starts with zeros and gets no gradient; -1: none
};
/// A table [count, width] with a row for each word. Words are integers [...] from 0 to count - 1;
/// the result [..., width] holds their rows. Negative words count from the end, as in take(). The
/// table starts with normal random numbers. Throws IndexError for a word or a padding outside the
/// table.
struct REEL_API Embedding {
  Variable table;
  bool sparse;
  std::int64_t padding;
  Embedding(Extent count, Extent width, EmbeddingOptions options = {},
            Caller caller = Caller::here());
  /// words [...] (uint8, int32 or int64) give [..., width]. The result has the dtype of the table.
  Tensor operator()(Operand words) const;
  void fields(auto&& field) { field("table", table); }
};

/// What an EmbeddingBag does with the rows of a bag.
enum class Bag : std::uint8_t { mean, sum, max };
/// The mean, the sum or the largest elements of the rows of several words. A word that is the
/// Embedding's `padding` counts in no bag. A bag without words gives zeros.
struct REEL_API EmbeddingBag {
  Embedding rows;
  Bag bag;
  EmbeddingBag(Extent count, Extent width, Bag bag = Bag::mean, EmbeddingOptions options = {},
               Caller caller = Caller::here());
  /// words [batch, n] (uint8, int32 or int64), a bag in each row, give [batch, width]. The result
  /// has the dtype of the table.
  Tensor operator()(Operand words) const;
  /// words [n] give [bags, width]: bag i has the words from offsets[i] to offsets[i + 1]. offsets
  /// [bags] begin with 0 and ascend; they are int32 or int64. The result has the dtype of the
  /// table.
  Tensor operator()(Operand words, Operand offsets) const;
  void fields(auto&& field) { rows.fields(field); }
};

/// Options of LayerNorm.
struct LayerNormOptions {
  double epsilon = 1e-5;
  DType dtype = DType::float32;
};
/// Normalises the last axis to mean 0 and variance 1, then multiplies by scale [width] and adds
/// shift [width]; see layer_norm(). Throws ShapeError unless the last axis of x has this width.
struct REEL_API LayerNorm {
  Variable scale, shift;
  double epsilon;
  LayerNorm(Extent width, LayerNormOptions options = {}, Caller caller = Caller::here());
  /// x [..., width] gives [..., width]. x and the weights come to one floating dtype, which the
  /// result has.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("scale", scale);
    field("shift", shift);
  }
};

/// While training(), sets each element to 0 with this probability and divides the others by
/// 1 - probability (Srivastava et al. 2014). While evaluating, it returns x. Throws Error unless
/// 0 <= probability < 1.
struct REEL_API Dropout {
  double probability;
  explicit Dropout(double probability = 0.5, Caller caller = Caller::here());
  /// The result has the shape of x. Floating dtypes while training().
  Tensor operator()(Operand x) const;
  void fields(auto&& field) { field("probability", probability); }
};

using reel::cross_entropy;
}  // namespace reel::nn
