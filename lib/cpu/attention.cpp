// SPDX-License-Identifier: BSD-3-Clause
// Attention in blocks of queries by keys (Dao et al. 2022), so that no matrix of all scores exists.
// The value keeps the logarithm of each query's sum of exponentials. The gradient computes the
// blocks again from it. Threads share heads, or blocks of one head; each sum has one order.
#include "lib/cpu/attention.hpp"
#include "lib/cpu/bytes.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/thread_count.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
constexpr Int shared_work = 1 << 18;  // multiply-adds, before blocks are shared among threads
constexpr Int enough_units = 16;      // for threads to share

/// Equal parts of the blocks of a head, if there are few heads.
struct Parts {
  Int count, blocks;  // so many parts of so many blocks

  Parts(Int heads, Int all) : count(1), blocks(all) {
    constexpr Int fewest = 4;  // blocks of a part, as each part packs the keys by itself
    if (heads >= enough_units || all < 2 * fewest) return;
    const Int wanted = least((enough_units + heads - 1) / (heads ? heads : 1), all / fewest);
    blocks = (all + wanted - 1) / wanted;
    count = (all + blocks - 1) / blocks;
  }
};
constexpr Int blocks_of(Int n, Int block) { return (n + block - 1) / block; }

template <class T>
void clear(T* x, Int n) {
  clear_bytes(reinterpret_cast<std::byte*>(x), n * size_in_bytes<T>);
}
template <class T>
void multiply_row(T* row, Int n, T factor) {
  const Vector<T> by(factor);
  for_chunks<T>(n, [&](Int i, Chunk<T> chunk) { chunk.put(row + i, chunk.get(row + i) * by); });
}

/// The softmax of rows of scores, block after block.
template <class T>
struct RunningSoftmax {
  T *most, *sum;  // of each row

  void begin(Int rows) {
    for (Int r = 0; r < rows; ++r) most[r] = none(), sum[r] = 0;
  }
  static constexpr T none() { return -static_cast<T>(__builtin_inf()); }
  /// Replaces `width` scores, whole vectors, by exponentials. If the largest score is exceeded, the
  /// row of results so far is scaled down.
  void add(Int r, T* scores, Int width, T* result, Int n) {
    constexpr Int L = lanes<T>;
    Vector<T> best = load(scores);
    for (Int e = L; e < width; e += L) best = xsimd::max(best, load(scores + e));
    const T block = fold_lanes<T>(
        best, [](const Vector<T>& x, const Vector<T>& y) { return xsimd::max(x, y); });
    if (block > most[r]) {
      if (sum[r] > 0) {
        const T shrink = decay<T>(Vector<T>(most[r] - block)).get(0);
        sum[r] *= shrink;
        multiply_row(result, n, shrink);
      }
      most[r] = block;
    }
    if (most[r] == none()) {  // no key yet, or NaN
      for (Int e = 0; e < width; ++e)
        if (scores[e] == none())
          scores[e] = 0;
        else
          most[r] = sum[r] = scores[e];
      return;
    }
    const Vector<T> shift(most[r]);
    Vector<T> added(T(0));
    for (Int e = 0; e < width; e += L) {
      const Vector<T> x = decay<T>(load(scores + e) - shift);
      store(scores + e, x);
      added += x;
    }
    sum[r] += lane_sum(added);
  }
};

/// The results of some blocks of queries of one head.
template <class T>
void attend(const Attended<T>& a, Int head, Int first, Int end, const T* packed, Room<T> room,
            T* out, T* log_sums) {
  T *const scores = room.take(query_block * key_block), *const scaled =
                                                            room.take(query_block * a.width);
  RunningSoftmax<T> softmax{room.take(query_block), room.take(query_block)};
  T *const factors = room.take(key_block), *const wide = room.take(a.wide_size(
                                               key_block, most(a.width, a.value_width)));
  const Int of_keys = head / a.group * a.keys, length = a.length_of(head), mask = a.mask_at(head);
  const Source<T> k = a.k + of_keys * a.width, v = a.v + of_keys * a.value_width;
  for (Int i = first; i < end; i += query_block) {
    const Int n = least(query_block, end - i), row = head * a.queries + i;
    copy_scaled(a, row, n, scaled);
    T* const results = out + row * a.value_width;
    clear(results, n * a.value_width);
    softmax.begin(n);
    const Int last = a.end_key(i + n - 1, length);
    for (Int j = a.first_key(i) / key_block * key_block; j < last; j += key_block) {
      const Int m = least(key_block, length - j);
      products_with_rows(n, m, a.width, scaled, k, packed, j, scores, wide);
      for (Int r = 0; r < n; ++r) {
        T* const of_row = scores + r * key_block;
        mask_scores(a, i + r, length, mask, j, m, of_row);
        softmax.add(r, of_row, rounded_up(m, lanes<T>), results + r * a.value_width, a.value_width);
        if (a.drops) {
          a.dropout.factors(head, i + r, j, factors);
          for (Int e = 0; e < m; ++e) of_row[e] *= factors[e];
        }
      }
      const T* const values = (v + j * a.value_width).read(m * a.value_width, wide);
      product(n, a.value_width, m, scores, key_block, Int{1}, values, a.value_width, results,
              a.value_width, true);
    }
    for (Int r = 0; r < n; ++r) {
      const T sum = softmax.sum[r];
      multiply_row(results + r * a.value_width, a.value_width, sum == 0 ? T(0) : 1 / sum);
      log_sums[row + r] = sum == 0 ? T(0) : softmax.most[r] + formulas::math::log(sum);
    }
  }
}

template <class T>
void attention_value(const Attended<T>& a, T* out, T* log_sums) {
  const Parts parts(a.heads, blocks_of(a.queries, query_block));
  const Int packed_size = a.packed_size(a.width);
  const Int wide_size = a.wide_size(key_block, most(a.width, a.value_width));
  const Int own = query_block * (key_block + a.width + 2) + key_block + wide_size;
  parallel_rows(a.heads * parts.count, a.work() / parts.count, shared_work,
                [&](Int unit, Int end_unit) {
                  Room<T> room(packed_size + own);
                  T* const packed = packed_size ? room.take(packed_size) : nullptr;
                  Int packed_head = -1;
                  for (; unit < end_unit; ++unit) {
                    const Int head = unit / parts.count, part = unit % parts.count;
                    if (packed && packed_head != head / a.group) {
                      packed_head = head / a.group;
                      pack(a.k + packed_head * a.keys * a.width, a.length_of(head), a.width, packed,
                           Room<T>(room).take(wide_size));
                    }
                    const Int first = part * parts.blocks * query_block;
                    const Int end = least(a.queries, first + parts.blocks * query_block);
                    attend(a, head, first, end, packed, room, out, log_sums);
                  }
                });
}
KernelResult attention(const KernelCall& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    attention_value(attended<T>(call.option<AttentionSettings>(), call.inputs),
                    call.output(0).as<T>(), call.output(1).as<T>());
  });
}

/// What the gradient reads and writes. dq, dk, dv and the mask's gradient are null where a pass
/// does not compute them.
template <class T>
struct Gradients {
  Source<T> out, dy;
  const T* log_sums;
  T *dq, *dk, *dv, *dmask;
  bool adds_to_q, adds_to_k, adds_to_v;
};
/// Blocks of queries of heads that share their keys, by blocks of keys.
struct Area {
  Int first_head, end_head, first_query, end_query, first_key, end_key;
};

/// Adds ds of one query to the gradient of the mask, or its sum where one element counts for all
/// keys.
template <class T>
void add_to_mask(const Attended<T>& a, const T* ds, Int m, T* dmask) {
  for (Int e = 0; e < m; ++e) dmask[e * a.mask_column] += ds[e];
}

/// The gradients of an area. Sums over keys and over queries go from the first block to the last,
/// in every area.
template <class T>
void differentiate(const Attended<T>& a, const Gradients<T>& g, const Area& area, Room<T> room) {
  const Int shared = area.first_head / a.group, keys = shared * a.keys;
  const Int w = a.width, vw = a.value_width, length = a.length_of(area.first_head);
  T* const columns = room.take(a.packed_size(w + vw));
  T *const packed_k = a.packs() ? columns : nullptr, *const packed_v =
                                                         a.packs() ? columns + a.packed_size(w)
                                                                   : nullptr;
  T *const powers = room.take(query_block * key_block), *const ds =
                                                            room.take(query_block * key_block);
  T *const scaled = room.take(query_block * w), *const sums = room.take(query_block * w);
  T *const dots = room.take(query_block), *const factors = room.take(key_block);
  T *const wide = room.take(a.wide_size(key_block, most(w, vw))),
           *const wide_dy = room.take(a.wide_size(query_block, vw)),
           *const wide_out = room.take(a.wide_size(1, vw));
  const Source<T> k = a.k + keys * w, v = a.v + keys * vw;
  const Int end_key = least(length, area.end_key), in_area = end_key - area.first_key;
  if (a.packs()) {
    pack(k + area.first_key * w, in_area, w, packed_k + area.first_key * w, wide);
    pack(v + area.first_key * vw, in_area, vw, packed_v + area.first_key * vw, wide);
  }
  const Int all = area.end_key - area.first_key;
  if (g.dk && !g.adds_to_k) clear(g.dk + (keys + area.first_key) * w, all * w);
  if (g.dv && !g.adds_to_v) clear(g.dv + (keys + area.first_key) * vw, all * vw);
  for (Int head = area.first_head; head < area.end_head; ++head) {
    const Int mask = a.mask_at(head);
    for (Int i = area.first_query; i < area.end_query; i += query_block) {
      const Int n = least(query_block, area.end_query - i), row = head * a.queries + i;
      const T* const dy = (g.dy + row * vw).read(n * vw, wide_dy);
      copy_scaled(a, row, n, scaled);
      for (Int r = 0; r < n; ++r) {
        const T *const y = (g.out + (row + r) * vw).read(vw, wide_out), *const of_row = dy + r * vw;
        dots[r] = lane_sum<T>(row_sum<T>(vw, [&](Int e, Chunk<T> chunk) {
          return Vector<T>(chunk.zero_padded(y + e) * chunk.zero_padded(of_row + e));
        }));
      }
      if (g.dq) clear(sums, n * w);
      const Int end = least(end_key, a.end_key(i + n - 1, length));
      const Int first = a.first_key(i) / key_block * key_block;
      for (Int j = first > area.first_key ? first : area.first_key; j < end; j += key_block) {
        const Int m = least(key_block, end_key - j);
        products_with_rows(n, m, w, scaled, k, packed_k, j, powers, wide);
        products_with_rows(n, m, vw, dy, v, packed_v, j, ds, wide);
        for (Int r = 0; r < n; ++r) {
          T *const p = powers + r * key_block, *const d = ds + r * key_block;
          mask_scores(a, i + r, length, mask, j, m, p);
          for (Int e = m; e < rounded_up(m, lanes<T>); ++e) d[e] = 0;
          const Vector<T> shift(g.log_sums[row + r]), less(dots[r]);
          if (a.drops) a.dropout.factors(head, i + r, j, factors);
          for (Int e = 0; e < m; e += lanes<T>) {
            const Vector<T> x = decay<T>(load(p + e) - shift), by = load(d + e);
            if (a.drops) {
              const Vector<T> kept = load(factors + e);
              store(p + e, x * kept);
              store(d + e, x * (by * kept - less));
            } else {
              store(p + e, x);
              store(d + e, x * (by - less));
            }
          }
          if (g.dmask)
            add_to_mask(a, d, m, g.dmask + mask + (i + r) * a.mask_row + j * a.mask_column);
        }
        if (g.dv)
          product(m, vw, n, powers, Int{1}, key_block, dy, vw, g.dv + (keys + j) * vw, vw, true);
        if (g.dk)
          product(m, w, n, ds, Int{1}, key_block, scaled, w, g.dk + (keys + j) * w, w, true);
        if (g.dq)
          product(n, w, m, ds, key_block, Int{1}, (k + j * w).read(m * w, wide), w, sums, w, true);
      }
      if (!g.dq) continue;
      T* const dq = g.dq + row * w;
      for (Int e = 0; e < n * w; ++e) dq[e] = (g.adds_to_q ? dq[e] : T(0)) + sums[e] * a.scale;
    }
  }
}

/// Heads from `first` on, `group` of them in each unit, by parts of the queries and keys.
struct Division {
  Int first, heads, group, queries, keys;
};
/// Threads share the areas of a division.
template <class T>
void share(const Attended<T>& a, const Gradients<T>& g, const Division& d) {
  const Int of_queries = blocks_of(a.queries, d.queries);
  const Int of_keys = a.keys ? blocks_of(a.keys, d.keys) : 1, parts = of_queries * of_keys;
  const Int memory = a.packed_size(a.width + a.value_width) +
                     2 * query_block * (key_block + a.width) + query_block + key_block +
                     a.wide_size(key_block, most(a.width, a.value_width)) +
                     a.wide_size(query_block + 1, a.value_width);
  parallel_rows(d.heads / d.group * parts, a.work() * d.group / parts, shared_work,
                [&](Int unit, Int end) {
                  const Room<T> room(memory);
                  for (; unit < end; ++unit) {
                    const Int head = d.first + unit / parts * d.group;
                    const Int query = unit / of_keys % of_queries * d.queries;
                    const Int key = unit % of_keys * d.keys;
                    differentiate(a, g,
                                  {head, head + d.group, query, least(a.queries, query + d.queries),
                                   key, least(a.keys, key + d.keys)},
                                  room);
                  }
                });
}

template <class T>
Gradients<T> gradients_of(const GradientKernelCall& call, int mask) {
  const auto of = [&](int i) {
    return i < call.output_count && call.dx(i) ? call.dx(i)->as<T>() : nullptr;
  };
  return {Source<T>(*call.y(0)),
          Source<T>(*call.dy()),
          call.y(1)->as<T>(),
          of(0),
          of(1),
          of(2),
          mask ? of(mask) : nullptr,
          call.adds(0),
          call.adds(1),
          call.adds(2)};
}
KernelResult attention_gradient(const KernelCall& given) {
  const GradientKernelCall call(given);
  const auto& options = call.option<AttentionSettings>();
  return with_floating(call.y(1)->dtype, [&]<class T>(Type<T>) {
    const Attended<T> a = attended<T>(options, &call.inputs[call.op_outputs()]);
    Gradients<T> g = gradients_of<T>(call, a.added ? options.mask() : 0);
    if (g.dmask && !call.adds(options.mask())) clear(g.dmask, a.mask_elements);
    if (a.heads == 0 || a.queries == 0) {
      for (int i : {1, 2})
        if (call.dx(i) && !call.adds(i)) clear(call.dx(i)->as<T>(), call.dx(i)->elements);
      return;
    }
    T* const dmask = g.dmask;
    g.dmask = nullptr;
    if (a.shared >= thread_count() && (g.dk || g.dv)) {
      share(a, g, {0, a.heads, a.group, a.queries, a.keys});
    } else {  // dq of parts of the queries, dk and dv of parts of the keys: each computes the
              // scores
      Gradients<T> of_q = g, of_keys = g;
      of_q.dk = of_q.dv = of_keys.dq = nullptr;
      const Parts by_queries(a.heads, blocks_of(a.queries, query_block));
      const Parts by_keys(a.shared, blocks_of(a.keys, key_block));
      if (g.dq) share(a, of_q, {0, a.heads, 1, by_queries.blocks * query_block, a.keys});
      if (g.dk || g.dv)
        share(a, of_keys, {0, a.heads, a.group, a.queries, by_keys.blocks * key_block});
    }
    // The mask follows, one head after the other, as heads may share it. If queries share it too,
    // they are one unit.
    if (!dmask) return;
    g = {g.out, g.dy, g.log_sums, nullptr, nullptr, nullptr, dmask, false, false, false};
    for (Int head = 0; head < a.heads; ++head)
      share(a, g, {head, 1, 1, a.mask_row ? query_block : a.queries, a.keys});
  });
}

/// The factors of all scores.
KernelResult attention_dropout(const KernelCall& call) {
  const auto& options = call.option<AttentionDropoutOptions>();
  if (call.output().elements == 0) return {};
  const Dropout dropout = dropout_of(options.dropout, call.input(0));
  const Int queries = options.shape.end()[-2], keys = options.shape.end()[-1];
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    T* to = call.output().as<T>();
    alignas(64) T factors[key_block];
    for (Int left = call.output().elements, row = 0; left > 0; left -= keys, ++row)
      for (Int j = 0; j < keys; j += key_block) {
        dropout.factors(row / queries, row % queries, j, factors);
        for (Int e = 0; e < least(key_block, keys - j); ++e) *to++ = factors[e];
      }
  });
}

const NamedKernel kernels[] = {{"attention", attention},
                               {"attention.d", attention_gradient},
                               {"attention_dropout", attention_dropout},
                               {nullptr, nullptr}};
}  // namespace
extern const Family attention_family;
const Family attention_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
