// SPDX-License-Identifier: BSD-3-Clause
// Transposes small squares of a matrix in registers.
#pragma once
#include <cstdint>

namespace reel::kernels::REEL_ISA {
/// to[r][c] = from[c][r] for a square. Steps between rows are in elements.
template <class T>
inline constexpr std::int64_t square_side = 4;
template <class T>
inline constexpr std::int64_t large_side = square_side<T>;

template <std::int64_t side, class T>
void transpose_square(const T* from, std::int64_t from_step, T* to, std::int64_t to_step) {
  T square[4][4];
  for (int c = 0; c < 4; ++c)
    for (int r = 0; r < 4; ++r) square[r][c] = from[c * from_step + r];
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) to[r * to_step + c] = square[r][c];
}

#ifdef __AVX__
template <>
inline constexpr std::int64_t square_side<std::uint32_t> = 8;

/// Loads rows c and c + 4, four columns of each, as two halves of one register. Later steps then
/// move no data between the halves.
inline __m256 load_halves(const float* low, const float* high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}
inline void store_row(float* to, __m256 x) { _mm256_storeu_ps(to, x); }
#ifdef __AVX512F__
inline void store_row(float* to, __m512 x) { _mm512_storeu_ps(to, x); }
#endif
/// Stores rows, four at a time.
struct RowsTo {
  float* row;
  std::int64_t step;
  template <class V>
  void operator()(V a, V b, V c, V d) {
    store_row(row, a);
    store_row(row + step, b);
    store_row(row + 2 * step, c);
    store_row(row + 3 * step, d);
    row += 4 * step;
  }
};
/// Transposes a square and calls put() with four rows at a time. Steps are in elements.
template <class Put>
[[gnu::always_inline]] inline void transposed_rows_of_8(const float* from, std::int64_t from_step,
                                                        Put put) {
  for (int half = 0; half < 2; ++half, from += 4) {
    const auto rows = [&](int c) {
      return load_halves(from + c * from_step, from + (c + 4) * from_step);
    };
    const __m256 a = rows(0), b = rows(1), c = rows(2), d = rows(3);
    const __m256 ab = _mm256_unpacklo_ps(a, b), cd = _mm256_unpacklo_ps(c, d);
    const __m256 ab_high = _mm256_unpackhi_ps(a, b), cd_high = _mm256_unpackhi_ps(c, d);
    put(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee),
        _mm256_shuffle_ps(ab_high, cd_high, 0x44), _mm256_shuffle_ps(ab_high, cd_high, 0xee));
  }
}
template <>
inline void transpose_square<8>(const std::uint32_t* from, std::int64_t from_step,
                                std::uint32_t* to, std::int64_t to_step) {
  transposed_rows_of_8(reinterpret_cast<const float*>(from), from_step,
                       RowsTo{reinterpret_cast<float*>(to), to_step});
}

template <>
inline constexpr std::int64_t square_side<std::uint64_t> = 4;
template <>
inline void transpose_square<4>(const std::uint64_t* from, std::int64_t from_step,
                                std::uint64_t* to, std::int64_t to_step) {
  const auto* const source = reinterpret_cast<const double*>(from);
  auto* const target = reinterpret_cast<double*>(to);
  for (int r = 0; r < 4; r += 2) {
    const auto rows = [&](int c) {
      const double* const low = source + c * from_step + r;
      return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(low)),
                                  _mm_loadu_pd(low + 2 * from_step), 1);
    };
    const __m256d a = rows(0), b = rows(1);
    _mm256_storeu_pd(target + r * to_step, _mm256_unpacklo_pd(a, b));
    _mm256_storeu_pd(target + (r + 1) * to_step, _mm256_unpackhi_pd(a, b));
  }
}
#endif

#ifdef __AVX512F__
template <>
inline constexpr std::int64_t large_side<std::uint32_t> = 16;
template <>
inline constexpr std::int64_t large_side<std::uint64_t> = 8;

/// Quarter q of transposed[k][i] becomes quarter k of row `each` * q + i; put() takes `each` rows.
template <std::size_t each, class Put>
[[gnu::always_inline]] inline void put_quarters(const __m512 (&transposed)[4][each],
                                                const Put& put) {
  __m512 left[each], right[each], rows[each];
  const auto put_both = [&] {
    for (std::size_t i = 0; i < each; ++i) rows[i] = _mm512_shuffle_f32x4(left[i], right[i], 0x88);
    put(rows);
    for (std::size_t i = 0; i < each; ++i) rows[i] = _mm512_shuffle_f32x4(left[i], right[i], 0xdd);
    put(rows);
  };
  for (std::size_t i = 0; i < each; ++i) {
    left[i] = _mm512_shuffle_f32x4(transposed[0][i], transposed[1][i], 0x44);
    right[i] = _mm512_shuffle_f32x4(transposed[2][i], transposed[3][i], 0x44);
  }
  put_both();
  for (std::size_t i = 0; i < each; ++i) {
    left[i] = _mm512_shuffle_f32x4(transposed[0][i], transposed[1][i], 0xee);
    right[i] = _mm512_shuffle_f32x4(transposed[2][i], transposed[3][i], 0xee);
  }
  put_both();
}

/// Transposes a square of floats and calls put() with four rows at a time. Steps are in elements.
template <class Put>
[[gnu::always_inline]] inline void transposed_rows_of_16(const float* from, std::int64_t from_step,
                                                         Put put) {
  __m512 transposed[4][4];
  for (auto& part : transposed) {
    const auto row = [&](int r) { return _mm512_loadu_ps(from + r * from_step); };
    const __m512 a = row(0), b = row(1), c = row(2), d = row(3);
    const __m512 ab = _mm512_unpacklo_ps(a, b), cd = _mm512_unpacklo_ps(c, d);
    const __m512 ab_high = _mm512_unpackhi_ps(a, b), cd_high = _mm512_unpackhi_ps(c, d);
    part[0] = _mm512_shuffle_ps(ab, cd, 0x44);
    part[1] = _mm512_shuffle_ps(ab, cd, 0xee);
    part[2] = _mm512_shuffle_ps(ab_high, cd_high, 0x44);
    part[3] = _mm512_shuffle_ps(ab_high, cd_high, 0xee);
    from += 4 * from_step;
  }
  put_quarters(transposed, [&](const __m512(&x)[4]) { put(x[0], x[1], x[2], x[3]); });
}
template <>
inline void transpose_square<16>(const std::uint32_t* from, std::int64_t from_step,
                                 std::uint32_t* to, std::int64_t to_step) {
  transposed_rows_of_16(reinterpret_cast<const float*>(from), from_step,
                        RowsTo{reinterpret_cast<float*>(to), to_step});
}
template <>
inline void transpose_square<8>(const std::uint64_t* from, std::int64_t from_step,
                                std::uint64_t* to, std::int64_t to_step) {
  const auto* row = reinterpret_cast<const double*>(from);
  auto* target = reinterpret_cast<double*>(to);
  __m512 transposed[4][2];
  for (auto& part : transposed) {
    const __m512d a = _mm512_loadu_pd(row), b = _mm512_loadu_pd(row + from_step);
    part[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
    part[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    row += 2 * from_step;
  }
  put_quarters(transposed, [&](const __m512(&x)[2]) {
    _mm512_storeu_pd(target, _mm512_castps_pd(x[0]));
    _mm512_storeu_pd(target + to_step, _mm512_castps_pd(x[1]));
    target += 2 * to_step;
  });
}
#endif

/// Calls band(row, column, width) for bands of adjacent squares in a matrix of at least one square.
/// Blocks limit the number of cache lines and pages in use. If a length is no multiple of the side,
/// the last squares overlap the squares before them.
template <std::int64_t side, std::int64_t block, class Band>
void walk_bands(std::int64_t rows, std::int64_t columns, const Band& band) {
  for (std::int64_t top = 0; top < rows; top += block)
    for (std::int64_t left = 0; left < columns; left += block) {
      const std::int64_t column = left + side <= columns ? left : columns - side;
      const std::int64_t width = columns - column < block ? columns - column : block;
      for (std::int64_t r = top; r < rows && r < top + block; r += side)
        band(r + side <= rows ? r : rows - side, column, width);
    }
}

/// to[r][c] = from[c][r] for r < rows, c < columns. Both are at least `side`.
template <std::int64_t side, class T>
void turn_by_squares(const T* from, std::int64_t from_step, T* to, std::int64_t to_step,
                     std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t block = 128 / sizeof(T);
  walk_bands<side, block>(
      rows, columns, [&](std::int64_t row, std::int64_t first, std::int64_t width) {
        const T* const source = from + first * from_step + row;
        T* const target = to + row * to_step + first;
        for (std::int64_t i = 0; i < width; i += side) {
          const std::int64_t c = i + side <= width ? i : width - side;
          transpose_square<side>(source + c * from_step, from_step, target + c, to_step);
        }
      });
}

/// to[r][c] = from[c][r] for r < rows, c < columns.
template <class T>
void transpose_matrix(const T* from, std::int64_t from_step, T* to, std::int64_t to_step,
                      std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t small_side = 4;
  const std::int64_t least = rows < columns ? rows : columns;
  if (least >= large_side<T>)
    return turn_by_squares<large_side<T>>(from, from_step, to, to_step, rows, columns);
  if (least >= square_side<T>)
    return turn_by_squares<square_side<T>>(from, from_step, to, to_step, rows, columns);
  if (least >= small_side)
    return turn_by_squares<small_side>(from, from_step, to, to_step, rows, columns);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) to[r * to_step + c] = from[c * from_step + r];
}
/// Elements are moved as integers, for which transpose_matrix() has register code.
inline void transpose_elements(const float* y, std::int64_t step, float* to, std::int64_t to_step,
                               std::int64_t rows, std::int64_t columns) {
  transpose_matrix(reinterpret_cast<const std::uint32_t*>(y), step,
                   reinterpret_cast<std::uint32_t*>(to), to_step, rows, columns);
}
inline void transpose_elements(const double* y, std::int64_t step, double* to, std::int64_t to_step,
                               std::int64_t rows, std::int64_t columns) {
  transpose_matrix(reinterpret_cast<const std::uint64_t*>(y), step,
                   reinterpret_cast<std::uint64_t*>(to), to_step, rows, columns);
}
}  // namespace reel::kernels::REEL_ISA
