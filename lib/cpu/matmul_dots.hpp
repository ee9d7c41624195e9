// SPDX-License-Identifier: BSD-3-Clause
// Products whose y has its columns one after the other, and x few rows: each element of c is a sum
// along two rows of memory, in an order that depends on their length alone.
#pragma once
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/lines.hpp"
#include "lib/cpu/panels.hpp"

namespace reel::kernels::REEL_ISA {
template <class T>
inline constexpr int dot_tile_rows = lanes<T> >= 8 ? 4 : 2;
/// Sums enough to hide an addition's time, pointers few enough for the registers.
template <int Rows, class T>
inline constexpr int dot_tile_columns = Rows == 1 ? 8 : 4;

/// How a column of y is read: with one row of x, reading is all that takes time.
template <int Rows, class T>
using DotColumn = std::conditional_t<Rows == 1, Lines<T>, Row<T>>;

/// c (+)= x y for Rows rows of x and a few columns of y; those past the last repeat it.
template <int Rows, class T>
void dot_tile(const Matrix<T>& x, const Matrix<T>& y, T* c, std::int64_t c_row, bool accumulate) {
  constexpr std::int64_t L = lanes<T>, ahead = Rows == 1 ? 2 * L : L;
  constexpr int Columns = dot_tile_columns<Rows, T>;
  const T *rows[Rows], *columns[Columns];
  for (int r = 0; r < Rows; ++r) rows[r] = x.data + least(r, x.rows - 1) * x.row;
  for (int j = 0; j < Columns; ++j) columns[j] = y.data + least(j, y.columns - 1) * y.column;
  Vector<T> sums[Rows * Columns];
  REEL_UNROLL
  for (int s = 0; s < Rows * Columns; ++s) sums[s] = Vector<T>(T(0));
  const auto add = [&](auto row, auto column) {
    Vector<T> factors[Rows];
    REEL_UNROLL
    for (int r = 0; r < Rows; ++r) factors[r] = row(r);
    REEL_UNROLL
    for (int j = 0; j < Columns; ++j) {
      const Vector<T> factor = column(j);
      REEL_UNROLL
      for (int r = 0; r < Rows; ++r)
        sums[r * Columns + j] = xsimd::fma(factors[r], factor, sums[r * Columns + j]);
    }
  };
  std::int64_t i = 0;
  if (x.columns >= ahead) {
    DotColumn<Rows, T> readers[Columns];
    REEL_UNROLL
    for (int j = 0; j < Columns; ++j) readers[j] = DotColumn<Rows, T>{columns[j]};
    for (; i + ahead <= x.columns; i += L)
      add([&](int r) { return load(rows[r] + i); }, [&](int j) { return readers[j].take(i); });
  }
  for (; i < x.columns; i += L) {
    const Chunk<T> rest{least(L, x.columns - i)};
    add([&](int r) { return rest.get(rows[r] + i); },
        [&](int j) { return rest.get(columns[j] + i); });
  }
  REEL_UNROLL
  for (int r = 0; r < Rows; ++r) {
    REEL_UNROLL
    for (int j = 0; j < Columns; ++j) {
      if (r >= x.rows || j >= y.columns) continue;
      T& to = c[r * c_row + j];
      const T sum = lane_sum(sums[r * Columns + j]);
      to = accumulate ? to + sum : sum;
    }
  }
}

/// All of x's rows, whose elements are neighbours, and a few columns of y.
template <int Rows, class T>
void dot_rows(const Matrix<T>& x, const Matrix<T>& y, T* c, std::int64_t c_row, bool accumulate) {
  Matrix<T> left = x;
  for (; left.rows > 0; left.rows -= Rows, left.data += Rows * x.row, c += Rows * c_row)
    dot_tile<Rows>(left, y, c, c_row, accumulate);
}

/// Tiles of columns, the last one first if `backward`.
template <int Rows, class T>
void dot_columns(const Matrix<T>& x, const Matrix<T>& y, T* c, std::int64_t c_row, bool accumulate,
                 bool backward = false) {
  constexpr int Columns = dot_tile_columns<Rows, T>;
  const std::int64_t tiles = (y.columns + Columns - 1) / Columns;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t first = (backward ? tiles - 1 - i : i) * Columns;
    Matrix<T> left = y;
    left.columns -= first;
    left.data += first * y.column;
    dot_rows<Rows>(x, left, c + first, c_row, accumulate);
  }
}

/// Whether the y at this place is to be read from its end: not if it was the last time.
template <class T>
bool turns_back(const T* y) {
  static thread_local bool backward[16];
  const auto at = reinterpret_cast<std::uintptr_t>(y);
  bool& was = backward[(at >> 6 ^ at >> 12 ^ at >> 18) % 16];
  return was = !was;
}

/// c (+)= x y, where x's rows and y's columns have neighbouring elements. One row of x takes y from
/// its one end and from the other in turn: a y that is met again and again, and that the second
/// cache does not hold, is found there in part, where reading it from one end alone finds nothing.
template <class T>
void multiply_dots(const Matrix<T>& x, const Matrix<T>& y, T* c, std::int64_t c_row,
                   bool accumulate) {
  if (x.rows == 1) return dot_columns<1>(x, y, c, c_row, accumulate, turns_back(y.data));
  if (x.rows == 2) return dot_columns<2>(x, y, c, c_row, accumulate);
  dot_columns<dot_tile_rows<T>>(x, y, c, c_row, accumulate);
}
}  // namespace reel::kernels::REEL_ISA
