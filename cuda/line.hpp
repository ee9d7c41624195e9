// SPDX-License-Identifier: BSD-3-Clause
// Lines: rows and columns that several threads process together. each() calls f(k, i) for every
// pack of the calling thread: element i is the first one of its k-th pack. The packs may be kept in
// registers.
#pragma once
#include <type_traits>

#include "cuda/fold.hpp"

namespace reel::gpu {
/// A contiguous row. A thread has up to `held` packs, or any number of packs if `held` is 0. A pack
/// has adjacent elements if the row is whole. Otherwise its elements are `lanes` apart, so that
/// adjacent threads read adjacent elements.
template <class T, int held>
struct RowLine {
  static constexpr int n = pack_size<T>, packs = held;
  using Number = T;
  std::int64_t length;
  bool exists;  // if false, the length is 0 and nothing is written
  bool whole;   // rows are aligned and consist of whole packs
  int lanes, lane;

  template <class F>
  __device__ void each(const F& f) const {
    const std::int64_t step = std::int64_t{lanes} * n, first = whole ? lane * n : lane;
    if constexpr (held > 0) {
      REEL_UNROLL_ALL
      for (int k = 0; k < held; ++k) {
        const std::int64_t i = k * step + first;
        if (i < length) f(k, i);
      }
    } else {
      for (std::int64_t i = first; i < length; i += step) f(0, i);
    }
  }
  /// The place of the v-th element of the pack at i.
  __device__ std::int64_t place(std::int64_t i, int v) const {
    return whole ? i + v : i + std::int64_t{v} * lanes;
  }
  /// How many elements of the pack at i are in the row.
  __device__ int count(std::int64_t i) const {
    if (whole) return n;
    const int end = rest(i);
    int elements = 0;
    for (int v = 0; v < n; ++v) elements += v * lanes < end;
    return elements;
  }
  __device__ Pack<T, n> read(const T* x, std::int64_t i) const {
    x += i;
    if (whole) return *reinterpret_cast<const Pack<T, n>*>(x);
    const int end = rest(i);
    Pack<T, n> pack;
    for (int v = 0; v < n; ++v) pack.of[v] = v * lanes < end ? x[v * lanes] : T(0);
    return pack;
  }
  __device__ void write(T* y, std::int64_t i, Pack<T, n> pack, bool add = false) const {
    if (add) {
      const Pack<T, n> before = read(y, i);
      for (int v = 0; v < n; ++v) pack.of[v] = before.of[v] + pack.of[v];
    }
    y += i;
    if (whole) {
      store(y, pack);
      return;
    }
    const int end = rest(i);
    for (int v = 0; v < n; ++v)
      if (v * lanes < end) y[v * lanes] = pack.of[v];
  }
  template <class F, class A>
  __device__ A fold(const A& value) const {
    return fold_lanes<F>(value, lanes);
  }
  __device__ bool is_first() const { return exists && lane == 0; }

  /// The elements from i to the end of the row, as far as the pack at i matters.
  __device__ int rest(std::int64_t i) const {
    return static_cast<int>(std::min<std::int64_t>(length - i, n * lanes));
  }
};

/// A column whose elements are `step` apart. A block handles `width` columns. A thread has up to
/// `held` elements, or any number of them if `held` is 0.
template <class T, int held>
struct ColumnLine {
  static constexpr int n = 1, packs = held;
  using Number = T;
  std::int64_t length, step;
  int width, slots, slot;
  void* shared;  // space for two numbers of each thread

  template <class F>
  __device__ void each(const F& f) const {
    if constexpr (held > 0) {
      REEL_UNROLL_ALL
      for (int k = 0; k < held; ++k) {
        const std::int64_t i = std::int64_t{k} * slots + slot;
        if (i < length) f(k, i);
      }
    } else {
      REEL_UNROLL
      for (std::int64_t i = slot; i < length; i += slots) f(0, i);
    }
  }
  __device__ std::int64_t place(std::int64_t i, int) const { return i; }
  __device__ int count(std::int64_t) const { return 1; }
  __device__ Pack<T, 1> read(const T* x, std::int64_t i) const { return {{x[i * step]}}; }
  __device__ void write(T* y, std::int64_t i, const Pack<T, 1>& pack, bool add = false) const {
    y[i * step] = add ? y[i * step] + pack.of[0] : pack.of[0];
  }
  template <class F, class A>
  __device__ A fold(const A& value) const {
    return fold_slots<F>(value, width, static_cast<A*>(shared));
  }
};

/// The elements of a line that belong to a thread. They are in registers, or are read again each
/// time.
template <class Line>
struct Held {
  using T = typename Line::Number;
  using Packed = Pack<T, Line::n>;
  static constexpr bool keeps = Line::packs > 0;
  const T* x;
  Packed packs[keeps ? Line::packs : 1];

  __device__ Held(const Line& line, const T* from) : x(from) {
    if constexpr (keeps) line.each([&](int k, std::int64_t i) { packs[k] = line.read(x, i); });
  }
  __device__ Packed get(const Line& line, int k, std::int64_t i) const {
    if constexpr (keeps)
      return packs[k];
    else
      return line.read(x, i);
  }
};

/// Reduces the elements of the packs of(k, i), first in each thread, then over the threads of the
/// line.
template <class F, class A, class Line, class Of>
__device__ A fold_line(const Line& line, const Of& of) {
  A value = F::none();
  line.each([&](int k, std::int64_t i) {
    const int count = line.count(i);
    A each[Line::n];
    const auto pack = of(k, i);
    for (int v = 0; v < Line::n; ++v) each[v] = v < count ? pack.of[v] : F::none();
    for (int half = Line::n / 2; half > 0; half /= 2)
      for (int v = 0; v < half; ++v) each[v] = F::join(each[v], each[v + half]);
    value = F::join(value, each[0]);
  });
  return line.template fold<F>(value);
}

/// The threads of a row, at most. Fewer have more registers, and can keep more packs each.
template <int held>
constexpr int row_threads = held > 0 ? 512 : 1024;

/// Each group of `lanes` threads processes a row. `op(line, at, row)`: `at` is the offset of the
/// row's first element.
template <class T, int held, class Op>
__global__ void __launch_bounds__(row_threads<held>)
    run_rows(Op op, std::int64_t rows, std::int64_t length, int lanes, bool whole) {
  const std::int64_t groups = static_cast<int>(blockDim.x) / lanes;
  const int group = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (std::int64_t round = blockIdx.x * groups; round < rows; round += gridDim.x * groups) {
    const std::int64_t row = round + group;
    const bool exists = row < rows;
    const RowLine<T, held> line{exists ? length : 0, exists, whole, lanes, lane};
    op(line, exists ? row * length : 0, exists ? row : 0);
  }
}
/// Runs op for rows of `length` elements; `whole` says whether all pointers are aligned.
template <class T, class Op>
void over_rows(const Queue& queue, const Op& op, std::int64_t rows, std::int64_t length,
               bool whole) {
  if (rows == 0) return;
  constexpr int n = pack_size<T>, few = 8;  // packs in a thread
  const std::int64_t packs = (length + n - 1) / n;
  whole = whole && length % n == 0;
  int lanes = power_of_two(packs, 32);
  const bool kept = packs <= few * row_threads<few>;
  if (packs > 32 * few)
    lanes = kept ? static_cast<int>((packs + 32 * few - 1) / (32 * few) * 32) : row_threads<0>;
  const std::int64_t threads =
      lanes > 32 ? lanes : std::min<std::int64_t>(256, (rows * lanes + 31) / 32 * 32);
  const std::int64_t groups = threads / lanes;
  const std::int64_t blocks =
      std::min((rows + groups - 1) / groups, queue.most_blocks() * 256 / threads);
  const auto kernel = packs <= 32 ? run_rows<T, 1, Op>
                      : kept      ? run_rows<T, few, Op>
                                  : run_rows<T, 0, Op>;
  queue.launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), 0,
               op, rows, length, lanes, whole);
}

/// The threads of a block, at most: more where each holds its elements.
template <int held>
constexpr int column_threads = held > 0 ? 1024 : 256;

template <class T, int held, class Op>
__global__ void __launch_bounds__(column_threads<held>)
    run_columns(Op op, std::int64_t outer, std::int64_t length, std::int64_t inner, int width) {
  REEL_SHARED(Two<T>, shared, column_threads<held>);
  const int column = static_cast<int>(threadIdx.x) % width;
  const int slot = static_cast<int>(threadIdx.x) / width;
  const int slots = static_cast<int>(blockDim.x) / width;
  const std::int64_t tiles_in_row = (inner + width - 1) / width;
  for (std::int64_t tile = blockIdx.x; tile < outer * tiles_in_row; tile += gridDim.x) {
    const std::int64_t here = tile % tiles_in_row * width + column;
    const bool exists = here < inner;
    const ColumnLine<T, held> line{exists ? length : 0, inner, width, slots, slot, &shared[0]};
    op(line, exists ? tile / tiles_in_row * length * inner + here : 0, tile);
  }
}
/// Runs op for the columns of matrices with `length` rows: [outer, length, inner].
template <class T, class Op>
void over_columns(const Queue& queue, const Op& op, std::int64_t outer, std::int64_t length,
                  std::int64_t inner) {
  if (outer * inner == 0) return;
  constexpr int few = 8;                                    // elements of a thread
  constexpr int narrow = 32 / static_cast<int>(sizeof(T));  // 32 bytes are read at once
  int width = power_of_two(inner, 32);
  const auto kept = [&] { return length <= few * (column_threads<few> / width); };
  // More threads for each column can keep longer ones.
  if (length <= few * (column_threads<few> / narrow))
    while (!kept() && width > narrow) width /= 2;
  const std::int64_t tiles = outer * ((inner + width - 1) / width);
  const auto run = [&]<int held>(std::integral_constant<int, held>) {
    int slots = power_of_two((length + few - 1) / few, column_threads<held> / width);
    if (width * slots < 32) slots = 32 / width;
    queue.launch(run_columns<T, held, Op>,
                 dim3(static_cast<unsigned>(std::min(tiles, queue.most_blocks()))),
                 dim3(static_cast<unsigned>(width * slots)), 0, op, outer, length, inner, width);
  };
  if (kept())
    run(std::integral_constant<int, few>());
  else
    run(std::integral_constant<int, 0>());
}
}  // namespace reel::gpu
