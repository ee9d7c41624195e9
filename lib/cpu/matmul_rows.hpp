// SPDX-License-Identifier: BSD-3-Clause
// Products of one row x with a row-major y. y is read once, several rows at a time, in memory
// order. As in tiles, each element of c is a chain of additions in the order of k. If the product
// adds, the last part of the chain is added to c.
#pragma once
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/lines.hpp"
#include "lib/cpu/panels.hpp"

namespace reel::kernels::REEL_ISA {
/// The number of rows of y that are read together. Each needs registers for a factor, a line and
/// its position.
inline constexpr int rows_at_once = 8;

/// to = start + x y for the first Rows rows of y, or to += that. A null start stands for zeros.
template <int Rows, class T>
void add_rows(const Product<T>& p, const T* start, T* to, bool adds) {
  constexpr std::int64_t L = lanes<T>;
  Vector<T> factors[Rows];
  Lines<T> rows[Rows];
  REEL_UNROLL
  for (int r = 0; r < Rows; ++r) {
    factors[r] = Vector<T>(p.x[r * p.x_column]);
    rows[r] = Lines<T>{p.y + r * p.y_row};
  }
  std::int64_t j = 0;
  for (; j + 2 * L <= p.m; j += L) {
    Vector<T> sum = start ? load(start + j) : Vector<T>(T(0));
    REEL_UNROLL
    for (int r = 0; r < Rows; ++r) sum = xsimd::fma(factors[r], rows[r].take(j), sum);
    store(to + j, adds ? load(to + j) + sum : sum);
  }
  for (; j < p.m; j += L) {
    const Chunk<T> chunk{least(L, p.m - j)};
    Vector<T> sum = start ? chunk.get(start + j) : Vector<T>(T(0));
    REEL_UNROLL
    for (int r = 0; r < Rows; ++r)
      sum = xsimd::fma(factors[r], chunk.get(p.y + r * p.y_row + j), sum);
    chunk.give(to + j, sum, adds);
  }
}

/// Adds the products with all remaining rows of p: Rows at a time, then fewer.
template <int Rows, class T>
void add_all_rows(Product<T>& p, const T* start, T* sums) {
  for (; p.k >= Rows; p.k -= Rows) {
    const bool last = p.k == Rows;
    T* const to = last ? p.c : sums;
    add_rows<Rows>(p, start, to, last && p.adds);
    p.x += Rows * p.x_column;
    p.y += Rows * p.y_row;
    start = to;
  }
  if constexpr (Rows > 1) add_all_rows<Rows / 2>(p, start, sums);
}

/// c (+)= start + x y for one row x and at least one row of y. `sums` has space for c. It must not
/// be c if the product adds.
template <class T>
void multiply_row(Product<T> p, T* sums) {
  add_all_rows<rows_at_once>(p, p.start, sums);
}
}  // namespace reel::kernels::REEL_ISA
