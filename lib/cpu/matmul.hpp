// SPDX-License-Identifier: BSD-3-Clause
// Products in registers: a block of c stays in vectors while k runs. Nothing is packed unless y
// lies the wrong way; what recurrent models need is small or narrow.
#pragma once
#include <cstdint>

#include "lib/cpu/simd.hpp"

namespace reel::kernels::REEL_ISA {
/// c [n, m] = x [n, k] y [k, m] (+ c). y's and c's columns are neighbours; x may lie anyhow.
template <class T>
struct Product {
  std::int64_t n, m, k;
  const T* x;
  std::int64_t x_row, x_column;
  const T* y;
  std::int64_t y_row;
  T* c;
  std::int64_t c_row;
  bool accumulate;
};

/// Rows [row, row + Rows) by Vectors vectors from `column`; the last one holds `part` elements if
/// Partial.
template <int Rows, int Vectors, bool Partial, class T>
void block(const Product<T>& p, std::int64_t row, std::int64_t column, std::int64_t part) {
  constexpr std::int64_t L = lanes<T>;
  Vector<T> sums[Rows][Vectors];
  T* c = p.c + row * p.c_row + column;
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v) {
      const T* from = c + r * p.c_row + v * L;
      if (!p.accumulate)
        sums[r][v] = Vector<T>(T(0));
      else if (Partial && v == Vectors - 1)
        sums[r][v] = load_part(from, part);
      else
        sums[r][v] = load(from);
    }
  const T* x = p.x + row * p.x_row;
  const T* y = p.y + column;
  for (std::int64_t i = 0; i < p.k; ++i, x += p.x_column, y += p.y_row) {
    Vector<T> columns[Vectors];
    for (int v = 0; v < Vectors; ++v)
      columns[v] = Partial && v == Vectors - 1 ? load_part(y + v * L, part) : load(y + v * L);
    for (int r = 0; r < Rows; ++r) {
      const Vector<T> factor(x[r * p.x_row]);
      for (int v = 0; v < Vectors; ++v) sums[r][v] = xsimd::fma(factor, columns[v], sums[r][v]);
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v) {
      T* to = c + r * p.c_row + v * L;
      if (Partial && v == Vectors - 1)
        store_part(to, sums[r][v], part);
      else
        store(to, sums[r][v]);
    }
}

/// All columns of Rows rows.
template <int Rows, int Vectors, class T>
void strip(const Product<T>& p, std::int64_t row, std::int64_t from, std::int64_t to) {
  constexpr std::int64_t L = lanes<T>;
  std::int64_t column = from;
  for (; column + Vectors * L <= to; column += Vectors * L)
    block<Rows, Vectors, false>(p, row, column, 0);
  if constexpr (Vectors > 2) {
    strip<Rows, Vectors / 2>(p, row, column, to);
  } else {
    const std::int64_t left = to - column;
    if constexpr (Vectors == 2) {
      if (left > L) return block<Rows, 2, true>(p, row, column, left - L);
      if (left == L) return block<Rows, 1, false>(p, row, column, 0);
    }
    if (left > 0) block<Rows, 1, true>(p, row, column, left);
  }
}

/// 16 vector registers hold 6 rows of two sums, 32 hold 8.
#if defined(__AVX512F__)
inline constexpr int block_rows = 8;
#else
inline constexpr int block_rows = 6;
#endif

/// Rows [from, to) of a panel of columns.
template <class T>
void panel(const Product<T>& p, std::int64_t from, std::int64_t to, std::int64_t first,
           std::int64_t last) {
  std::int64_t row = from;
  for (; row + block_rows <= to; row += block_rows) strip<block_rows, 2>(p, row, first, last);
  for (; row + 4 <= to; row += 4) strip<4, 2>(p, row, first, last);
  for (; row + 2 <= to; row += 2) strip<2, 4>(p, row, first, last);
  for (; row < to; ++row) strip<1, 8>(p, row, first, last);
}

/// Panels are as wide as fits the first cache beside x, so that y is read from it for all rows.
template <class T>
void multiply(const Product<T>& p) {
  constexpr std::int64_t cache = 24 << 10;
  constexpr std::int64_t step = 2 * lanes<T>;
  std::int64_t width = p.m;
  if (p.n > block_rows && p.k * p.m * static_cast<std::int64_t>(sizeof(T)) > cache) {
    width = cache / (p.k * static_cast<std::int64_t>(sizeof(T))) / step * step;
    if (width < step) width = step;
  }
  for (std::int64_t first = 0; first < p.m; first += width)
    panel(p, 0, p.n, first, first + width < p.m ? first + width : p.m);
}

/// sum of x[i] y[i], in a fixed order.
template <class T>
T dot(const T* x, const T* y, std::int64_t n) {
  constexpr std::int64_t L = lanes<T>;
  Vector<T> a(T(0)), b(T(0)), c(T(0)), d(T(0));
  std::int64_t i = 0;
  for (; i + 4 * L <= n; i += 4 * L) {
    a = xsimd::fma(load(x + i), load(y + i), a);
    b = xsimd::fma(load(x + i + L), load(y + i + L), b);
    c = xsimd::fma(load(x + i + 2 * L), load(y + i + 2 * L), c);
    d = xsimd::fma(load(x + i + 3 * L), load(y + i + 3 * L), d);
  }
  for (; i + L <= n; i += L) a = xsimd::fma(load(x + i), load(y + i), a);
  if (i < n) b = xsimd::fma(load_part(x + i, n - i), load_part(y + i, n - i), b);
  alignas(64) T sums[L];
  ((a + b) + (c + d)).store_aligned(sums);
  for (std::int64_t half = L / 2; half > 0; half /= 2)
    for (std::int64_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  return sums[0];
}
}  // namespace reel::kernels::REEL_ISA
