// SPDX-License-Identifier: BSD-3-Clause
// Attention of queries to keys, without a matrix of queries by keys.
#pragma once  // defined in lib/ops
#include <cstdint>

#include <reel/tensor.hpp>

namespace reel {
/// Options of attention(). A query sees a key only if every option allows it.
struct AttentionOptions {
  /// bool: true where a query sees a key. float32 or float64: added to the scores; -infinity hides
  /// a key. The mask broadcasts to [..., heads, queries, keys].
  Tensor mask = {};
  /// Integers from 0 to `keys`, one for each element of the batch: shape [...], so [batch] if q is
  /// [batch, heads, queries, width]. Keys at and behind the length are not seen and not read.
  Tensor key_lengths = {};
  /// Query i sees key j only if j - keys <= i - queries. So the last query sees all keys, and with
  /// as many queries as keys no query sees a later key.
  bool causal = false;
  /// Query i sees key j only if j - keys > i - queries - window; with `causal`, these are the last
  /// `window` keys. 0 means all keys.
  std::int64_t window = 0;
  double scale = 0;    ///< multiplies the products of q and k; 0 means 1 / sqrt(width)
  double dropout = 0;  ///< the probability that a weight is 0; others grow by 1 / (1 - dropout)
};

/// Attention (Vaswani et al. 2017): softmax(scale q k^T + mask) v, for each head by itself.
/// - q is [..., heads, queries, width];
/// - k is [..., kv_heads, keys, width], and v is [..., kv_heads, keys, value_width]. kv_heads
///   divides heads: heads / kv_heads heads after each other share keys and values;
/// - the result is [..., heads, queries, value_width].
///
/// q, k and v are promoted to one floating dtype, which the result has. A floating mask is
/// converted to it, and to float32 if it has 16 bits. The memory grows with queries + keys, not
/// with their product. A query that sees no key has the result 0 and gradients of 0. Without keys,
/// all results are 0.
///
///     attention(ones({1, 2, 4}), ones({1, 3, 4}), ones({1, 3, 1}))  // [[[1.], [1.]]]
///
/// NaN in a key or value behind the length is not read. NaN in one that a mask, `causal` or
/// `window` hides may reach the result. Dropout draws from the generator of the thread, as
/// dropout() does. Throws ShapeError for other shapes, DTypeError for a mask of integers, and
/// IndexError for a length outside 0 to keys. Second gradients need memory for queries times keys.
REEL_API Tensor attention(Operand q, Operand k, Operand v, const AttentionOptions& options = {});
}  // namespace reel
