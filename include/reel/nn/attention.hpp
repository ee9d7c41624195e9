// SPDX-License-Identifier: BSD-3-Clause
// Layers of transformers. Inputs are [batch, time, width]; other axes may come before the time.
// Sizes below 1 throw ShapeError.
#pragma once  // defined in lib/nn
#include <reel/nn/layers.hpp>
#include <reel/ops/activation.hpp>
#include <reel/ops/attention.hpp>

namespace reel::nn {
/// The encoding [count, width] of the positions 0 to count - 1 by sines and cosines (Vaswani et al.
/// 2017): column 2 i has sin(position / 10000^(2 i / width)), and column 2 i + 1 the cosine.
/// float32 by default.
///
///     nn::sinusoidal_positions(2, 2)(0)        // [0., 1.]
REEL_API Tensor sinusoidal_positions(Extent count, Extent width, TensorOptions options = {},
                                     Caller caller = Caller::here());

/// Options of rotary().
struct RotaryOptions {
  double base = 10000;
  bool interleaved = false;  ///< pairs of adjacent columns, not of the two halves of a row
};
/// x [..., time, width] with each row turned by its position (Su et al. 2021). Pair i of a row is
/// turned by the angle position / base^(2 i / width). The pairs are columns i and i + width / 2, as
/// in GPT-NeoX and Llama in the format of Hugging Face; with `interleaved` they are columns 2 i and
/// 2 i + 1, as in the paper. positions are [time], or broadcast to x without its last axis. Throws
/// ShapeError for an odd width. The result has the shape and dtype of x; integers become float32.
REEL_API Tensor rotary(Operand x, Operand positions, const RotaryOptions& options = {});

/// Keys and values of the steps so far, for text that is written step by step. A
/// MultiHeadAttention writes to it and reads from it. Gradients do not pass through it.
struct REEL_API KeyValueCache {
  Buffer keys, values;  // [batch, heads, capacity, width]
  Buffer length;        // the number of steps that are stored: an int64 number
  /// `heads` and `width` are those of keys: kv_heads, and the layer's width / heads.
  KeyValueCache(Extent batch, Extent heads, Extent capacity, Extent width,
                TensorOptions options = {}, Caller caller = Caller::here());
  /// The number of steps that are stored. It waits for the device.
  std::int64_t used() const;
  /// Adds steps: k and v are [batch, heads, steps, width]. Throws ShapeError for other shapes, and
  /// for more steps than there is room for, and DTypeError unless their dtype promotes to that of
  /// the cache.
  void append(Operand k, Operand v) const;
  /// Element b of the batch continues with what element rows[b] has stored. For beam_search(). rows
  /// is [batch], integers.
  void reorder(Operand rows) const;
  /// Forgets all steps.
  void clear() const;
  void fields(auto&& field) {
    field("keys", keys);
    field("values", values);
    field("length", length);
  }
};

/// Options of MultiHeadAttention.
struct MultiHeadAttentionOptions {
  std::int64_t kv_heads = 0;  ///< heads of keys and values, a divisor of `heads`; 0: `heads`
  Bias bias = Bias::yes;      ///< of queries, values and outputs; of keys with rotary_base only
  double dropout = 0;         ///< of the weights of attention, while training()
  double rotary_base = 0;     ///< of rotary() for queries and keys, for self-attention; 0: none
  DType dtype = DType::float32;
};
/// attention() of several heads with weights for queries, keys, values and outputs (Vaswani et al.
/// 2017). Each head has width / heads columns. Without rotary_base the keys have no bias: it would
/// add one number to all scores of a query, which changes no weight, and an optimizer would move it
/// by rounding errors. Throws ShapeError unless `heads` divides the width.
///
///     nn::MultiHeadAttention layer(32, 4);
struct REEL_API MultiHeadAttention {
  Linear query, key, value, output;
  std::int64_t heads, kv_heads;
  double dropout, rotary_base;
  MultiHeadAttention(Extent width, Extent heads, MultiHeadAttentionOptions options = {},
                     Caller caller = Caller::here());
  /// Self-attention: x and the result are [batch, time, width]. See attention() for the options; a
  /// dropout among them replaces that of the layer. x and the weights come to one floating dtype,
  /// which the result has.
  Tensor operator()(Operand x, const AttentionOptions& options = {}) const;
  /// Queries from q [batch, queries, width], keys and values from kv [batch, keys, width]. x and
  /// the weights come to one floating dtype, which the result has.
  Tensor operator()(Operand q, Operand kv, const AttentionOptions& options = {}) const;
  /// Causal self-attention of x [batch, steps, width], which follows the steps in the cache, to all
  /// of them. It adds the keys and values of x to the cache. Throws ShapeError if the cache is
  /// full. x and the weights come to one floating dtype, which the result has.
  Tensor operator()(Operand x, KeyValueCache& cache) const;
  /// A cache for this layer.
  KeyValueCache cache(Extent batch, Extent capacity, Caller caller = Caller::here()) const;
  void fields(auto&& field) {
    field("query", query);
    field("key", key);
    field("value", value);
    field("output", output);
  }
};

/// Options of TransformerEncoderLayer and TransformerDecoderLayer.
struct TransformerOptions {
  std::int64_t feed_forward = 0;         ///< columns of the hidden layer; 0: 4 times the width
  Tensor (*activation)(Operand) = relu;  ///< of the hidden layer, such as gelu
  double dropout = 0;                    ///< of weights, hidden elements and results, in training()
  bool norm_first = true;                ///< false: norms follow the sums, as in the paper
  std::int64_t kv_heads = 0;             ///< see MultiHeadAttentionOptions
  double rotary_base = 0;                ///< see MultiHeadAttentionOptions
  Bias bias = Bias::yes;                 ///< of all Linear
  double epsilon = 1e-5;                 ///< of the norms
  DType dtype = DType::float32;
};
/// Self-attention and a network of two layers for each step, each with a LayerNorm and added to its
/// input: with norm_first, x + attention(norm(x)), else norm(x + attention(x)). With
/// `{.causal = true}` at the call it is a layer of a decoder without an encoder, as in GPT.
///
///     nn::TransformerEncoderLayer layer(32, 4, {.feed_forward = 64, .dropout = 0.1});
struct REEL_API TransformerEncoderLayer {
  MultiHeadAttention attention;
  Linear expand, contract;
  LayerNorm attention_norm, feed_forward_norm;
  Tensor (*activation)(Operand);
  double dropout;
  bool norm_first;
  TransformerEncoderLayer(Extent width, Extent heads, TransformerOptions options = {},
                          Caller caller = Caller::here());
  /// x and the result are [batch, time, width]. x and the weights come to one floating dtype, which
  /// the result has.
  Tensor operator()(Operand x, const AttentionOptions& options = {}) const;
  /// x [batch, steps, width] follows the steps in the cache: see MultiHeadAttention. x and the
  /// weights come to one floating dtype, which the result has.
  Tensor operator()(Operand x, KeyValueCache& cache) const;
  void fields(auto&& field) {
    field("attention", attention);
    field("expand", expand);
    field("contract", contract);
    field("attention_norm", attention_norm);
    field("feed_forward_norm", feed_forward_norm);
  }
};
/// A TransformerEncoderLayer with causal self-attention, and attention to the result of an encoder
/// before the two layers for each step.
struct REEL_API TransformerDecoderLayer {
  MultiHeadAttention attention, cross_attention;
  Linear expand, contract;
  LayerNorm attention_norm, cross_norm, feed_forward_norm;
  Tensor (*activation)(Operand);
  double dropout;
  bool norm_first;
  TransformerDecoderLayer(Extent width, Extent heads, TransformerOptions options = {},
                          Caller caller = Caller::here());
  /// x and the result are [batch, time, width], memory is [batch, keys, width]. `of_memory` holds
  /// options of the attention to the memory, such as key_lengths. x and the weights come to one
  /// floating dtype, which the result has.
  Tensor operator()(Operand x, Operand memory, const AttentionOptions& options = {.causal = true},
                    const AttentionOptions& of_memory = {}) const;
  /// x [batch, steps, width] follows the steps in the cache: see MultiHeadAttention. x and the
  /// weights come to one floating dtype, which the result has.
  Tensor operator()(Operand x, Operand memory, KeyValueCache& cache,
                    const AttentionOptions& of_memory = {}) const;
  void fields(auto&& field) {
    field("attention", attention);
    field("cross_attention", cross_attention);
    field("expand", expand);
    field("contract", contract);
    field("attention_norm", attention_norm);
    field("cross_norm", cross_norm);
    field("feed_forward_norm", feed_forward_norm);
  }
};
}  // namespace reel::nn
