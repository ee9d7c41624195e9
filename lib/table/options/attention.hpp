// SPDX-License-Identifier: BSD-3-Clause
// Options of attention, and the lengths and bounds that its kernels share.
#pragma once
#include <cstdint>

#include <reel/shape.hpp>

namespace reel {
/// The inputs are q, k and v, then a mask, the lengths of keys, and the seed of dropout, if they
/// are given.
struct AttentionSettings {
  double scale = 1, dropout = 0;
  std::int64_t window = 0;  // 0: no limit
  bool causal = false, has_mask = false, has_lengths = false;

  int mask() const { return 3; }
  int lengths() const { return 3 + has_mask; }
  int seed() const { return 3 + has_mask + has_lengths; }
  int inputs() const { return seed() + (dropout > 0); }
  void fields(auto&& field) {
    field("scale", scale);
    field("dropout", dropout);
    field("window", window);
    field("causal", causal);
    field("has_mask", has_mask);
    field("has_lengths", has_lengths);
  }
};
/// Options of attention_dropout.
struct AttentionDropoutOptions {
  double dropout = 0;
  Shape shape;  // of the scores
  DType dtype = DType::float32;
  void fields(auto&& field) {
    field("dropout", dropout);
    field("shape", shape);
    field("dtype", dtype);
  }
};

/// Dropout keeps the score of (head, query, key) if word key % 4 of the Philox block with the
/// counter {key / 4, query, head, head >> 32} is below this limit.
constexpr std::uint64_t kept_below(double dropout) {
  return static_cast<std::uint64_t>((1 - dropout) * 0x1p32);
}

/// The lengths of an attention, and where each head finds its keys and its mask. Heads are counted
/// over all elements of the batch.
struct AttentionSizes {
  static constexpr int most_axes = 6;
  std::int64_t heads, shared;  // of q; of k and v, each for `group` heads of q after each other
  std::int64_t group;
  std::int64_t heads_in_batch;
  std::int64_t queries, keys, width, value_width;
  std::int64_t window;
  bool causal;
  // The mask's lengths and steps along the axes before the queries, the last one first. A step is 0
  // along an axis that the mask does not have.
  int mask_axes = 0;
  std::int64_t mask_length[most_axes] = {}, mask_step[most_axes] = {};
  std::int64_t mask_row = 0, mask_column = 0, mask_elements = 0;

  /// Query i sees keys from first_key(i) to end_key(i) - 1, of `length` keys.
  constexpr std::int64_t first_key(std::int64_t i) const {
    const std::int64_t first = i + keys - queries - window + 1;
    return window > 0 && first > 0 ? first : 0;
  }
  constexpr std::int64_t end_key(std::int64_t i, std::int64_t length) const {
    const std::int64_t end = i + keys - queries + 1;
    return causal && end < length ? (end > 0 ? end : 0) : length;
  }
  /// Where the mask of a head begins.
  constexpr std::int64_t mask_at(std::int64_t head) const {
    std::int64_t at = 0;
    for (int a = 0; a < mask_axes; ++a) {
      at += head % mask_length[a] * mask_step[a];
      head /= mask_length[a];
    }
    return at;
  }
};
/// `mask` is null if there is none. Inlined, as each instruction set has its own.
[[gnu::always_inline]] inline AttentionSizes sizes_of(const AttentionSettings& options,
                                                      const Shape& q, const Shape& k,
                                                      const Shape& v, const Shape* mask) {
  AttentionSizes sizes{};
  const int rank = static_cast<int>(q.rank());
  const std::int64_t *const of_q = q.data(), *const of_k = k.data();
  sizes.heads = sizes.heads_in_batch = of_q[rank - 3];
  sizes.shared = of_k[rank - 3];
  sizes.group = sizes.shared > 0 ? sizes.heads / sizes.shared : 1;
  for (int a = 0; a < rank - 3; ++a) {
    sizes.heads *= of_q[a];
    sizes.shared *= of_q[a];
  }
  sizes.queries = of_q[rank - 2];
  sizes.width = of_q[rank - 1];
  sizes.keys = of_k[rank - 2];
  sizes.value_width = v.data()[rank - 1];
  sizes.window = options.window;
  sizes.causal = options.causal;
  if (!mask) return sizes;
  std::int64_t step = 1;
  const int own = static_cast<int>(mask->rank());
  for (int a = 0; a < rank; ++a) {  // from the last axis on
    const std::int64_t length = a < own ? mask->data()[own - 1 - a] : 1;
    const std::int64_t used = length == 1 ? 0 : step;
    if (a == 0) sizes.mask_column = used;
    if (a == 1) sizes.mask_row = used;
    if (a > 1) {
      sizes.mask_length[a - 2] = of_q[rank - 1 - a];
      sizes.mask_step[a - 2] = used;
    }
    step *= length;
  }
  sizes.mask_axes = rank - 2;
  sizes.mask_elements = step;
  return sizes;
}
}  // namespace reel
