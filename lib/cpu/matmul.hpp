// SPDX-License-Identifier: BSD-3-Clause
// Products in registers: a tile of c stays in vectors while k runs. Every element is one chain of
// additions in the order of k, whatever the tile: rows and columns may be split anyhow without a
// change of bits.
#pragma once
#include <cstdint>

#include "lib/cpu/simd.hpp"

// Loops over registers: unrolled before g++ decides what lives in memory.
#ifdef __clang__
#define REEL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define REEL_UNROLL _Pragma("GCC unroll 8")
#endif

namespace reel::kernels::REEL_ISA {
/// c [n, m] = start + x [n, k] y [k, m]. Columns of y, c and start are neighbours; x may lie
/// anyhow. start may be c, or null for zeros; its step is 0 where each row starts from the same
/// one.
template <class T>
struct Product {
  std::int64_t n, m, k;
  const T* x;
  std::int64_t x_row, x_column;
  const T* y;
  std::int64_t y_row;
  T* c;
  std::int64_t c_row;
  const T* start;
  std::int64_t start_row;
};

constexpr int most_tile_vectors = 8;
template <class T>
alignas(64) static constexpr T zeros[most_tile_vectors * lanes<T>] = {};

/// A vector's elements in memory: all, or the first `part` at the end of a row.
template <bool Partial, class T>
Vector<T> load_some(const T* from, std::int64_t part) {
  if constexpr (Partial)
    return load_part(from, part);
  else
    return load(from);
}

/// Rows by Vectors vectors of c from `row` and `column` on; the last vector holds `part` elements
/// if Partial. Rows are reached from two pointers: the processor adds one step, or twice one.
template <int Rows, int Vectors, bool Partial, class T>
void tile(const Product<T>& p, std::int64_t row, std::int64_t column, std::int64_t part) {
  constexpr std::int64_t L = lanes<T>;
  constexpr int last = Vectors - 1, upper = (Rows + 1) / 2;
  const std::int64_t k = p.k, x_row = p.x_row, x_column = p.x_column, y_row = p.y_row;
  Vector<T> sums[Rows][Vectors];
  // Zeros are read from memory: g++ 12 keeps sums there that it has cleared.
  const T* const start = p.start ? p.start + row * p.start_row + column : zeros<T>;
  const std::int64_t start_row = p.start ? p.start_row : 0;
  REEL_UNROLL
  for (int r = 0; r < Rows; ++r) {
    REEL_UNROLL
    for (int v = 0; v < last; ++v) sums[r][v] = load(start + r * start_row + v * L);
    sums[r][last] = load_some<Partial>(start + r * start_row + last * L, part);
  }
  const T* x = p.x + row * x_row;
  const T* x_lower = x + upper * x_row;
  const T* y = p.y + column;
  for (std::int64_t i = 0; i < k; ++i) {
    Vector<T> columns[Vectors];
    REEL_UNROLL
    for (int v = 0; v < last; ++v) columns[v] = load(y + v * L);
    columns[last] = load_some<Partial>(y + last * L, part);
    REEL_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Vector<T> factor(r < upper ? x[r * x_row] : x_lower[(r - upper) * x_row]);
      REEL_UNROLL
      for (int v = 0; v < Vectors; ++v) sums[r][v] = xsimd::fma(factor, columns[v], sums[r][v]);
    }
    x += x_column;
    x_lower += x_column;
    y += y_row;
  }
  REEL_UNROLL
  for (int r = 0; r < Rows; ++r) {
    T* const to = p.c + (row + r) * p.c_row + column;
    REEL_UNROLL
    for (int v = 0; v < last; ++v) store(to + v * L, sums[r][v]);
    if constexpr (Partial)
      store_part(to + last * L, sums[r][last], part);
    else
      store(to + last * L, sums[r][last]);
  }
}

/// How many vectors of sums a tile of these many rows may have: 32 registers, or 16.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int most_tile_rows = 8, wide_tile_rows = 6;
constexpr int tile_vectors(int rows) { return rows == 1 ? most_tile_vectors : rows <= 6 ? 4 : 3; }
#else
inline constexpr int most_tile_rows = 6, wide_tile_rows = 6;
constexpr int tile_vectors(int rows) { return rows == 1 ? most_tile_vectors : rows == 2 ? 4 : 2; }
#endif

/// The columns that whole tiles leave over: fewer than those of a tile.
template <int Rows, int Vectors, class T>
void last_tile(const Product<T>& p, std::int64_t row, std::int64_t column, std::int64_t to) {
  constexpr std::int64_t before = (Vectors - 1) * lanes<T>;
  const std::int64_t left = to - column - before;
  if constexpr (Vectors > 1)
    if (left <= 0) return last_tile<Rows, Vectors - 1>(p, row, column, to);
  if (left == lanes<T>)
    tile<Rows, Vectors, false>(p, row, column, 0);
  else if (left > 0)
    tile<Rows, Vectors, true>(p, row, column, left);
}

/// Columns [from, to) of Rows rows.
template <int Rows, class T>
void strip(const Product<T>& p, std::int64_t row, std::int64_t from, std::int64_t to) {
  constexpr int vectors = tile_vectors(Rows);
  for (; from + vectors * lanes<T> <= to; from += vectors * lanes<T>)
    tile<Rows, vectors, false>(p, row, from, 0);
  last_tile<Rows, vectors>(p, row, from, to);
}

template <int Rows, class T>
void strip_of(std::int64_t rows, const Product<T>& p, std::int64_t row, std::int64_t from,
              std::int64_t to) {
  if constexpr (Rows > 1)
    if (rows < Rows) return strip_of<Rows - 1>(rows, p, row, from, to);
  strip<Rows>(p, row, from, to);
}

/// Columns [from, to) of all rows. The last two tiles share what is left, and nothing is divided:
/// that would take as long as a small product.
template <class T>
void panel(const Product<T>& p, std::int64_t from, std::int64_t to) {
  std::int64_t height = most_tile_rows;
  if (p.n > height && to - from > tile_vectors(most_tile_rows) * lanes<T>) height = wide_tile_rows;
  std::int64_t row = 0;
  for (; p.n - row >= 2 * height; row += height) strip_of<most_tile_rows>(height, p, row, from, to);
  if (p.n - row > height) {
    const std::int64_t half = (p.n - row + 1) / 2;
    strip_of<most_tile_rows>(half, p, row, from, to);
    row += half;
  }
  if (row < p.n) strip_of<most_tile_rows>(p.n - row, p, row, from, to);
}
}  // namespace reel::kernels::REEL_ISA
