// SPDX-License-Identifier: BSD-3-Clause
// Attention in its plainest form without a matrix of all scores: a block of threads has one query,
// or one key, and goes through tiles of keys, or of queries.
#include "cuda/fold.hpp"
#include "cuda/numbers.hpp"
#include "cuda/queue.hpp"
#include "lib/formulas/philox.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/attention.hpp"

namespace reel::gpu {
namespace {
using Int = std::int64_t;
namespace math = formulas::math;
constexpr int tile = 128;  // the threads of a block

/// The larger number; NaN wins.
template <class T>
struct Larger {
  static __device__ T none() { return -static_cast<T>(__builtin_inf()); }
  static __device__ T join(T a, T b) { return a > b || !(a == a) ? a : b; }
};

struct Dropout {
  const Int* seed = nullptr;  // null: no dropout
  std::uint64_t limit = 0;
  double growth = 1;

  __device__ double factor(Int head, Int query, Int key) const {
    if (!seed) return 1;
    const auto number = static_cast<std::uint64_t>(*seed), at = static_cast<std::uint64_t>(head);
    std::uint32_t words[4] = {static_cast<std::uint32_t>(key / 4),
                              static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(at),
                              static_cast<std::uint32_t>(at >> 32)};
    formulas::philox(words, static_cast<std::uint32_t>(number),
                     static_cast<std::uint32_t>(number >> 32));
    return words[key % 4] < limit ? growth : 0;
  }
};

template <class T>
struct Attended : AttentionSizes {
  const T *q, *k, *v;
  T factor;
  const std::uint8_t* seen = nullptr;  // by a mask of bool
  const T* added = nullptr;            // by a floating mask
  const Int* lengths = nullptr;
  Dropout dropout;

  Attended(const AttentionSettings& options, const Body* const* inputs, const Shape* of_mask)
      : AttentionSizes(
            sizes_of(options, inputs[0]->shape, inputs[1]->shape, inputs[2]->shape, of_mask)),
        q(inputs[0]->as<T>()),
        k(inputs[1]->as<T>()),
        v(inputs[2]->as<T>()),
        factor(static_cast<T>(options.scale)) {
    const Body* const mask = of_mask ? inputs[options.mask()] : nullptr;
    if (mask && mask->dtype == DType::boolean) seen = mask->as<std::uint8_t>();
    if (mask && mask->dtype != DType::boolean) added = mask->as<T>();
    if (options.has_lengths) lengths = inputs[options.lengths()]->as<Int>();
    if (options.dropout > 0)
      dropout = {inputs[options.seed()]->as<Int>(), kept_below(options.dropout),
                 1 / (1 - options.dropout)};
  }
  static Attended of(const AttentionSettings& options, const Body* const* inputs) {
    return {options, inputs, options.has_mask ? &inputs[options.mask()]->shape : nullptr};
  }
  Int rows() const { return heads * queries; }

  __device__ Int first_of(Int query) const { return first_key(query); }
  __device__ Int end_of(Int head, Int query) const {
    return end_key(query, lengths ? lengths[head / heads_in_batch] : keys);
  }
  /// Row `key` of the keys or values of a head.
  __device__ const T* of_key(const T* x, Int head, Int key, Int wide) const {
    return x + (head / group * keys + key) * wide;
  }
  static __device__ T product(const T* x, const T* y, Int n) {
    T sum = 0;
    for (Int e = 0; e < n; ++e) sum += x[e] * y[e];
    return sum;
  }
  /// -infinity for a key that is not seen, which is not read.
  __device__ T score(Int head, Int query, Int key) const {
    if (key < first_of(query) || key >= end_of(head, query)) return Larger<T>::none();
    const Int mask = mask_at(head) + query * mask_row + key * mask_column;
    if (seen && !seen[mask]) return Larger<T>::none();
    const T scaled =
        factor * product(q + (head * queries + query) * width, of_key(k, head, key, width), width);
    return added ? scaled + added[mask] : scaled;
  }
};

template <class T>
__global__ void values(Attended<T> a, T* out, T* log_sums) {
  REEL_SHARED(T, weights, tile);
  const int own = static_cast<int>(threadIdx.x);
  const Int wide = a.value_width;
  for (Int row = blockIdx.x; row < a.heads * a.queries; row += gridDim.x) {
    const Int head = row / a.queries, i = row % a.queries, end = a.end_of(head, i);
    T* const y = out + row * wide;
    for (Int c = own; c < wide; c += tile) y[c] = T(0);
    T most = Larger<T>::none(), sum = 0;
    for (Int j = a.first_of(i); j < end; j += tile) {
      const T score = a.score(head, i, j + own);
      const T next = Larger<T>::join(most, fold_lanes<Larger<T>>(score, tile));
      if (next == Larger<T>::none()) continue;  // no key yet
      const T shrink = most == Larger<T>::none() ? T(0) : math::exp(most - next);
      const T weight = score == Larger<T>::none() ? T(0) : math::exp(score - next);
      sum = sum * shrink + fold_lanes<Sum<T>>(weight, tile);
      most = next;
      weights[own] = weight * static_cast<T>(a.dropout.factor(head, i, j + own));
      __syncthreads();
      const Int some = end - j < tile ? end - j : tile;
      for (Int c = own; c < wide; c += tile) {
        T total = y[c] * shrink;
        for (Int e = 0; e < some; ++e) total += weights[e] * a.of_key(a.v, head, j + e, wide)[c];
        y[c] = total;
      }
      __syncthreads();
    }
    const bool none = sum == 0;
    for (Int c = own; c < wide; c += tile) y[c] = none ? T(0) : y[c] / sum;
    if (own == 0) log_sums[row] = none ? T(0) : most + math::log(sum);
  }
}
KernelResult attention(const Call& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    const auto a = Attended<T>::of(call.option<AttentionSettings>(), call.inputs);
    if (a.rows() == 0) return;
    call.queue.launch(values<T>, dim3(static_cast<unsigned>(std::min(a.rows(), Int{1} << 20))),
                      dim3(tile), 0, a, call.output(0).as<T>(), call.output(1).as<T>());
  });
}

/// What the gradient reads and writes.
template <class T>
struct Gradients {
  const T *out, *log_sums, *dy;
  T *dots, *dq, *dk, *dv, *dmask;
  bool adds[4];
};
/// The weight of a key after dropout, and the gradient of its score.
template <class T>
__device__ Two<T> slope(const Attended<T>& a, const Gradients<T>& g, Int head, Int query, Int key) {
  const T score = a.score(head, query, key);
  if (score == Larger<T>::none()) return {T(0), T(0)};
  const Int row = head * a.queries + query, wide = a.value_width;
  const T weight = math::exp(score - g.log_sums[row]);
  const T kept = static_cast<T>(a.dropout.factor(head, query, key));
  const T of_weight = a.product(g.dy + row * wide, a.of_key(a.v, head, key, wide), wide);
  return {weight * kept, weight * (of_weight * kept - g.dots[row])};
}
/// The products of rows of the result and its gradient.
template <class T>
__global__ void row_dots(Attended<T> a, Gradients<T> g) {
  const Int wide = a.value_width;
  for (Int row = first_index(); row < a.heads * a.queries; row += grid_step())
    g.dots[row] = a.product(g.out + row * wide, g.dy + row * wide, wide);
}
template <class T>
__global__ void of_queries(Attended<T> a, Gradients<T> g) {
  REEL_SHARED(T, slopes, tile);
  const int own = static_cast<int>(threadIdx.x);
  for (Int row = blockIdx.x; row < a.heads * a.queries; row += gridDim.x) {
    const Int head = row / a.queries, i = row % a.queries, end = a.end_of(head, i);
    T* const dq = g.dq + row * a.width;
    if (!g.adds[0])
      for (Int c = own; c < a.width; c += tile) dq[c] = T(0);
    for (Int j = a.first_of(i); j < end; j += tile) {
      slopes[own] = slope(a, g, head, i, j + own).second * a.factor;
      __syncthreads();
      const Int some = end - j < tile ? end - j : tile;
      for (Int c = own; c < a.width; c += tile)
        for (Int e = 0; e < some; ++e) dq[c] += slopes[e] * a.of_key(a.k, head, j + e, a.width)[c];
      __syncthreads();
    }
  }
}
template <class T>
__global__ void of_keys(Attended<T> a, Gradients<T> g) {
  REEL_SHARED(T, weights, tile);
  REEL_SHARED(T, slopes, tile);
  const int own = static_cast<int>(threadIdx.x);
  const Int w = a.width, wide = a.value_width;
  for (Int row = blockIdx.x; row < a.shared * a.keys; row += gridDim.x) {
    const Int first = row / a.keys * a.group, key = row % a.keys;
    T *const dk = g.dk ? g.dk + row * w : nullptr, *const dv = g.dv ? g.dv + row * wide : nullptr;
    if (dk && !g.adds[1])
      for (Int c = own; c < w; c += tile) dk[c] = T(0);
    if (dv && !g.adds[2])
      for (Int c = own; c < wide; c += tile) dv[c] = T(0);
    for (Int head = first; head < first + a.group; ++head)
      for (Int i = 0; i < a.queries; i += tile) {
        const Int some = a.queries - i < tile ? a.queries - i : tile;
        const Two<T> of_own = own < some ? slope(a, g, head, i + own, key) : Two<T>{T(0), T(0)};
        weights[own] = of_own.first;
        slopes[own] = of_own.second * a.factor;
        __syncthreads();
        const Int from = head * a.queries + i;
        for (Int c = own; dk && c < w; c += tile)
          for (Int e = 0; e < some; ++e) dk[c] += slopes[e] * a.q[(from + e) * w + c];
        for (Int c = own; dv && c < wide; c += tile)
          for (Int e = 0; e < some; ++e) dv[c] += weights[e] * g.dy[(from + e) * wide + c];
        __syncthreads();
      }
  }
}
/// A thread has one element of the mask, and adds the gradients of all scores that it counts for.
template <class T>
__global__ void of_mask(Attended<T> a, Gradients<T> g) {
  for (Int at = first_index(); at < a.mask_elements; at += grid_step()) {
    T sum = g.adds[3] ? g.dmask[at] : T(0);
    for (Int head = 0; head < a.heads; ++head)
      for (Int i = 0; i < a.queries; ++i) {
        const Int left = at - a.mask_at(head) - i * a.mask_row;
        if (a.mask_column ? left < 0 || left >= a.keys : left != 0) continue;
        const Int first = a.mask_column ? left : 0, end = a.mask_column ? left + 1 : a.keys;
        for (Int j = first; j < end; ++j) sum += slope(a, g, head, i, j).second;
      }
    g.dmask[at] = sum;
  }
}
KernelResult attention_gradient(const Call& given) {
  const GradientCall call(given);
  const auto& options = call.option<AttentionSettings>();
  return with_floating(call.dy()->dtype, [&]<class T>(Type<T>) {
    const auto a = Attended<T>::of(options, &call.inputs[call.op_outputs()]);
    const auto of = [&](int i) -> T* { return call.dx(i) ? call.dx(i)->as<T>() : nullptr; };
    const int mask = options.mask();
    const Gradients<T> g{call.y(0)->as<T>(),
                         call.y(1)->as<T>(),
                         call.dy()->as<T>(),
                         call.queue.scratch_of<T>(a.rows()),
                         of(0),
                         of(1),
                         of(2),
                         a.added ? of(mask) : nullptr,
                         {call.adds(0), call.adds(1), call.adds(2), a.added && call.adds(mask)}};
    const auto launch = [&](auto kernel, Int blocks) {
      if (blocks > 0)
        call.queue.launch(kernel, dim3(static_cast<unsigned>(std::min(blocks, Int{1} << 20))),
                          dim3(tile), 0, a, g);
    };
    call.queue.launch_for(a.rows(), row_dots<T>, a, g);
    if (g.dq) launch(of_queries<T>, a.rows());
    if (g.dk || g.dv) launch(of_keys<T>, a.shared * a.keys);
    if (g.dmask) call.queue.launch_for(a.mask_elements, of_mask<T>, a, g);
  });
}

template <class T>
__global__ void factors(Int n, Int queries, Int keys, Dropout dropout, T* to) {
  for (Int i = first_index(); i < n; i += grid_step()) {
    const Int row = i / keys;
    to[i] = static_cast<T>(dropout.factor(row / queries, row % queries, i % keys));
  }
}
KernelResult attention_dropout(const Call& call) {
  const auto& options = call.option<AttentionDropoutOptions>();
  const Body& y = call.output();
  const std::size_t rank = options.shape.rank();
  return with_floating(y.dtype, [&]<class T>(Type<T>) {
    call.queue.launch_for(
        y.elements, factors<T>, y.elements, options.shape.data()[rank - 2],
        options.shape.data()[rank - 1],
        Dropout{call.input(0).as<Int>(), kept_below(options.dropout), 1 / (1 - options.dropout)},
        y.as<T>());
  });
}
}  // namespace

extern const NamedKernel attention_kernels[];
const NamedKernel attention_kernels[] = {{"attention", attention},
                                         {"attention.d", attention_gradient},
                                         {"attention_dropout", attention_dropout},
                                         {nullptr, nullptr}};
}  // namespace reel::gpu
