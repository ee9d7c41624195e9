// SPDX-License-Identifier: BSD-3-Clause
// Products whose y has its columns one after the other, and x few rows: each element of c is a sum
// along two rows of memory, in an order that depends on their length alone.
#pragma once
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/panels.hpp"

namespace reel::kernels::REEL_ISA {
template <class T>
inline constexpr int dot_tile_rows = lanes<T> >= 8 ? 4 : 2;
/// Sums enough to hide an addition's time, pointers few enough for the registers.
template <int Rows, class T>
inline constexpr int dot_tile_columns = Rows == 1 ? 8 : 4;

/// c (+)= x y for Rows rows of x and a few columns of y; those past the last repeat it.
template <int Rows, class T>
void dot_tile(const Matrix<T>& x, const Matrix<T>& y, T* c, std::int64_t c_row, bool accumulate) {
  constexpr std::int64_t L = lanes<T>;
  constexpr int Columns = dot_tile_columns<Rows, T>;
  const T* rows[Rows];
  const T* columns[Columns];
  for (int r = 0; r < Rows; ++r) rows[r] = x.data + least(r, x.rows - 1) * x.row;
  for (int j = 0; j < Columns; ++j) columns[j] = y.data + least(j, y.columns - 1) * y.column;
  Vector<T> sums[Rows * Columns];
  REEL_UNROLL
  for (int s = 0; s < Rows * Columns; ++s) sums[s] = Vector<T>(T(0));
  const auto add = [&](auto get) {
    Vector<T> factors[Rows];
    REEL_UNROLL
    for (int r = 0; r < Rows; ++r) factors[r] = get(rows[r]);
    REEL_UNROLL
    for (int j = 0; j < Columns; ++j) {
      const Vector<T> column = get(columns[j]);
      REEL_UNROLL
      for (int r = 0; r < Rows; ++r)
        sums[r * Columns + j] = xsimd::fma(factors[r], column, sums[r * Columns + j]);
    }
  };
  std::int64_t i = 0;
  for (; i + L <= x.columns; i += L) add([&](const T* from) { return load(from + i); });
  if (i < x.columns) add([&](const T* from) { return load_part(from + i, x.columns - i); });
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

template <int Rows, class T>
void dot_columns(const Matrix<T>& x, const Matrix<T>& y, T* c, std::int64_t c_row,
                 bool accumulate) {
  constexpr int Columns = dot_tile_columns<Rows, T>;
  Matrix<T> left = y;
  for (; left.columns > 0; left.columns -= Columns, left.data += Columns * y.column, c += Columns)
    dot_rows<Rows>(x, left, c, c_row, accumulate);
}

/// c (+)= x y, where x's rows and y's columns have neighbouring elements.
template <class T>
void multiply_dots(const Matrix<T>& x, const Matrix<T>& y, T* c, std::int64_t c_row,
                   bool accumulate) {
  if (x.rows == 1) return dot_columns<1>(x, y, c, c_row, accumulate);
  if (x.rows == 2) return dot_columns<2>(x, y, c, c_row, accumulate);
  dot_columns<dot_tile_rows<T>>(x, y, c, c_row, accumulate);
}
}  // namespace reel::kernels::REEL_ISA
