// SPDX-License-Identifier: BSD-3-Clause
// Blocks of queries by keys, which kernels of attention compute one after the other.
#pragma once
#include "lib/cpu/philox.hpp"
#include "lib/cpu/product.hpp"
#include "lib/cpu/source.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/attention.hpp"

namespace reel::kernels::REEL_ISA {
using Int = std::int64_t;
inline constexpr Int query_block = 96, key_block = 64;
/// So few queries read keys row by row. More of them read keys packed as columns.
inline constexpr Int few_queries = 8;

/// e^x for x <= 0. float32 results below the smallest normal number are 0.
template <class T>
Vector<T> decay(const Vector<T>& x) {
  if constexpr (is_single<T>) {
    const Reduced<T> e(xsimd::max(constant<T>(-88), x));
    const Vector<T> y = (constant<T>(1) + e.less_one) * power_of_two<T>(e.sum);
    return xsimd::select(x < constant<T>(-87), constant<T>(0), y);
  } else {
    return exponential<T>(x);
  }
}

/// The factors of dropout for scores of one query.
struct Dropout {
  std::uint64_t seed = 0, limit = 0;
  double growth = 1;

  /// For key_block keys from j on, a multiple of 4.
  template <class T>
  [[gnu::noinline]] void factors(Int head, Int query, Int j, T* to) const {
    constexpr Int blocks = key_block / 4;
    alignas(64) std::uint64_t counters[blocks], word[2][blocks];
    for (Int k = 0; k < blocks; ++k)
      counters[k] = static_cast<std::uint64_t>(query) << 32 | static_cast<std::uint64_t>(j / 4 + k);
    for (Int k = 0; k < blocks; k += lanes<std::uint64_t>)
      draw_lanes(seed, counters + k, static_cast<std::uint64_t>(head), word[0] + k, word[1] + k);
    const T kept = static_cast<T>(growth);
    for (Int k = 0; k < key_block; ++k) {
      const std::uint64_t pair = word[k / 2 % 2][k / 4], drawn = k % 2 ? pair >> 32 : pair;
      to[k] = (drawn & 0xffffffff) < limit ? kept : T(0);
    }
  }
};
inline Dropout dropout_of(double probability, const Body& seed) {
  return {static_cast<std::uint64_t>(*seed.as<std::int64_t>()), kept_below(probability),
          1 / (1 - probability)};
}

/// What the heads of one call attend to.
template <class T>
struct Attended : AttentionSizes {
  Source<T> q = {}, k = {}, v = {};
  T scale = 1;
  const std::uint8_t* seen = nullptr;  // by a mask of bool
  const T* added = nullptr;            // by a floating mask
  const Int* lengths = nullptr;
  bool drops = false;
  Dropout dropout = {};

  Int length_of(Int head) const { return lengths ? lengths[head / heads_in_batch] : keys; }
  bool packs() const { return queries > few_queries; }
  Int packed_size(Int wide) const { return packs() ? rounded_up(keys, key_block) * wide : 0; }
  /// Memory for so many rows of 16 bits, widened.
  Int wide_size(Int rows, Int wide) const { return q.is_half() ? rows * wide : 0; }
  /// Multiply-adds of one head.
  Int work() const { return queries * keys * (width + value_width); }
};
template <class T>
Attended<T> attended(const AttentionSettings& options, const Body* const* inputs) {
  const Body* const mask = options.has_mask ? inputs[options.mask()] : nullptr;
  const Body &q = *inputs[0], &k = *inputs[1], &v = *inputs[2];
  Attended<T> a{sizes_of(options, q.shape, k.shape, v.shape, mask ? &mask->shape : nullptr)};
  a.q = Source<T>(q);
  a.k = Source<T>(k);
  a.v = Source<T>(v);
  a.scale = static_cast<T>(options.scale);
  if (mask && mask->dtype == DType::boolean) a.seen = mask->as<std::uint8_t>();
  if (mask && mask->dtype != DType::boolean) a.added = mask->as<T>();
  if (options.has_lengths) a.lengths = inputs[options.lengths()]->as<std::int64_t>();
  a.drops = options.dropout > 0;
  if (a.drops) a.dropout = dropout_of(options.dropout, *inputs[options.seed()]);
  return a;
}

/// c [n, m] (+)= x [n, k] y [k, m].
template <class T>
void product(Int n, Int m, Int k, const T* x, Int x_row, Int x_column, const T* y, Int y_row, T* c,
             Int c_row, bool adds) {
  product_of_tiles(
      Product<T>{n, m, k, x, x_row, x_column, y, y_row, c, c_row, adds ? c : nullptr, c_row});
}

/// Packs rows of keys or values as columns, block by block. `wide` has room for a block of 16 bits.
template <class T>
void pack(Source<T> from, Int rows, Int width, T* to, T* wide) {
  for (; rows > 0; rows -= key_block, from = from + key_block * width, to += key_block * width) {
    const Int some = least(rows, key_block);
    transpose_elements(from.read(some * width, wide), width, to, key_block, width, some);
  }
}
/// Products of n rows of x with the m rows from row j of a matrix, which may be packed.
template <class T>
void products_with_rows(Int n, Int m, Int width, const T* x, const Source<T>& rows, const T* packed,
                        Int j, T* to, T* wide) {
  if (packed)
    return product(n, m, width, x, width, Int{1}, packed + j * width, key_block, to, key_block,
                   false);
  const T* const block = (rows + j * width).read(m * width, wide);
  product_of_dots(Matrix<T>{x, n, width, width, 1}, Matrix<T>{block, width, m, 1, width}, to,
                  key_block);
}
/// q of n rows, times the scale.
template <class T>
void copy_scaled(const Attended<T>& a, Int row, Int n, T* to) {
  (a.q + row * a.width).copy(to, n * a.width);
  for (Int e = 0; e < n * a.width; ++e) to[e] *= a.scale;
}

/// Adds the mask to scores of one query with m keys from key j on. Hidden keys get -infinity, and
/// so do elements behind them, up to a whole vector.
template <class T>
void mask_scores(const Attended<T>& a, Int query, Int length, Int mask, Int j, Int m, T* scores) {
  constexpr T hidden = -static_cast<T>(__builtin_inf());
  mask += query * a.mask_row + j * a.mask_column;
  if (a.seen) {
    const std::uint8_t* const seen = a.seen + mask;
    if (a.mask_column)
      for (Int e = 0; e < m; ++e) scores[e] = seen[e] ? scores[e] : hidden;
    else
      for (Int e = 0; e < m; ++e) scores[e] = *seen ? scores[e] : hidden;
  }
  if (a.added) {
    const T* const added = a.added + mask;
    if (a.mask_column)
      for (Int e = 0; e < m; ++e) scores[e] += added[e];
    else
      for (Int e = 0; e < m; ++e) scores[e] += *added;
  }
  const Int first = least(m, a.first_key(query) - j), end = least(m, a.end_key(query, length) - j);
  for (Int e = 0; e < first; ++e) scores[e] = hidden;
  for (Int e = end > 0 ? end : 0; e < rounded_up(m, lanes<T>); ++e) scores[e] = hidden;
}

/// The memory of one call of a kernel.
template <class T>
class Room {
 public:
  explicit Room(Int elements)
      : at_(static_cast<T*>(scratch(static_cast<std::size_t>(elements + spare) * sizeof(T)))) {}
  T* take(Int elements) {
    T* const taken = at_;
    at_ += rounded_up(elements, 16);
    return taken;
  }

 private:
  static constexpr Int spare = 256;  // for lengths that are rounded up
  T* at_;
};
}  // namespace reel::kernels::REEL_ISA
