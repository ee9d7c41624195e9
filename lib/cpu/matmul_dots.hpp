// SPDX-License-Identifier: BSD-3-Clause
// Products of an x with few rows and a column-major y. Each element of c is a sum along two rows of
// memory. Its order depends on their length alone.
#pragma once
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/direction.hpp"
#include "lib/cpu/lanes.hpp"
#include "lib/cpu/lines.hpp"
#include "lib/cpu/panels.hpp"

namespace reel::kernels::REEL_ISA {
template <class T>
inline constexpr int dot_tile_rows = lanes<T> >= 8 ? 4 : 2;
/// The number of vectors of k that are added one after the other.
inline constexpr std::int64_t dot_block = 256;
/// There are enough sums to hide the latency of an addition, and few enough pointers for the
/// registers.
template <int Rows, class T>
inline constexpr int dot_tile_columns = Rows == 1 ? 8 : 4;

/// How a column of y is read. With one row of x, reads take all the time, so whole lines are read.
template <int Rows, class T>
using DotColumn = std::conditional_t<Rows == 1, Lines<T>, Row<T>>;

#ifdef __AVX512F__
/// The lanes of x in half as many, two by two.
inline xsimd::batch<float, xsimd::avx2> folded(const Vector<float>& x) {
  return _mm512_castps512_ps256(x + upper_half<8>(x));
}
inline xsimd::batch<double, xsimd::avx2> folded(const Vector<double>& x) {
  return _mm512_castpd512_pd256(x + upper_half<4>(x));
}
#else
template <class T>
const Vector<T>& folded(const Vector<T>& x) {
  return x;
}
#endif
/// The sums of N vectors' lanes, many at once. (Of 16 lanes, xsimd 8.1 puts them in another order.)
template <int N, class T>
[[gnu::always_inline]] inline void lane_sums(const Vector<T> (&x)[N], T* to) {
  using Part = std::decay_t<decltype(folded(x[0]))>;
  constexpr int step = static_cast<int>(Part::size);
  static_assert(N % step == 0);
  Part parts[N];
  REEL_UNROLL
  for (int i = 0; i < N; ++i) parts[i] = folded(x[i]);
  REEL_UNROLL
  for (int i = 0; i < N; i += step) xsimd::haddp(parts + i).store_aligned(to + i);
}

/// Where the sums are stored. They are added to c, or replace it.
template <class T>
struct Dots {
  T* c;
  std::int64_t row, column;  // steps
  bool adds;

  Dots from(std::int64_t i, std::int64_t j) const {
    return {c + i * row + j * column, row, column, adds};
  }
};

/// c (+)= x y for Rows rows of x and a few columns of y. If there are fewer columns, the last one
/// is repeated.
template <int Rows, class T>
void dot_tile(const Matrix<T>& x, const Matrix<T>& y, const Dots<T>& to) {
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
  alignas(64) T before[Rows * Columns][L];  // the sums of all blocks of k but the last
  bool paused = false;
  if (x.columns >= ahead) {
    DotColumn<Rows, T> readers[Columns];
    REEL_UNROLL
    for (int j = 0; j < Columns; ++j) readers[j] = DotColumn<Rows, T>{columns[j]};
    const std::int64_t all = x.columns - ahead;
    for (std::int64_t end = least(all, dot_block * L - L);; end = least(all, end + dot_block * L)) {
      for (; i <= end; i += L)
        add([&](int r) { return load(rows[r] + i); }, [&](int j) { return readers[j].take(i); });
      if (end == all) break;
      REEL_UNROLL
      for (int s = 0; s < Rows * Columns; ++s) {
        store(before[s], paused ? load(before[s]) + sums[s] : sums[s]);
        sums[s] = Vector<T>(T(0));
      }
      paused = true;
    }
  }
  for (; i < x.columns; i += L) {
    const Chunk<T> rest{least(L, x.columns - i)};
    add([&](int r) { return rest.zero_padded(rows[r] + i); },
        [&](int j) { return rest.zero_padded(columns[j] + i); });
  }
  if (paused) {
    REEL_UNROLL
    for (int s = 0; s < Rows * Columns; ++s) sums[s] = load(before[s]) + sums[s];
  }
  alignas(64) T all[Rows * Columns];
  lane_sums(sums, all);
  for (int r = 0; r < Rows && r < x.rows; ++r)
    for (int j = 0; j < Columns && j < y.columns; ++j) {
      T& c = *to.from(r, j).c;
      c = to.adds ? c + all[r * Columns + j] : all[r * Columns + j];
    }
}

/// All rows of x, whose elements are contiguous, and a few columns of y.
template <int Rows, class T>
void dot_rows(const Matrix<T>& x, const Matrix<T>& y, const Dots<T>& to) {
  Matrix<T> left = x;
  for (; left.rows > 0; left.rows -= Rows, left.data += Rows * x.row)
    dot_tile<Rows>(left, y, to.from(x.rows - left.rows, 0));
}

/// Tiles of columns, the last one first if `backward`.
template <int Rows, class T>
void dot_columns(const Matrix<T>& x, const Matrix<T>& y, const Dots<T>& to, bool backward = false) {
  constexpr int Columns = dot_tile_columns<Rows, T>;
  const std::int64_t tiles = (y.columns + Columns - 1) / Columns;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t first = (backward ? tiles - 1 - i : i) * Columns;
    Matrix<T> left = y;
    left.columns -= first;
    left.data += first * y.column;
    dot_rows<Rows>(x, left, to.from(0, first));
  }
}

/// c (+)= x y. Elements of x's rows and of y's columns are contiguous. With one row of x, y is read
/// from its start and from its end in turn.
template <class T>
void multiply_dots(const Matrix<T>& x, const Matrix<T>& y, const Dots<T>& to) {
  if (x.rows == 1) return dot_columns<1>(x, y, to, from_its_end(y.data));
  if (x.rows == 2) return dot_columns<2>(x, y, to);
  dot_columns<dot_tile_rows<T>>(x, y, to);
}
}  // namespace reel::kernels::REEL_ISA
