// SPDX-License-Identifier: BSD-3-Clause
// Products in register tiles for the small and narrow matrices of recurrent nets.
#pragma once
#include <algorithm>
#include <cstddef>

#include "curves.hpp"

namespace limits {

inline constexpr std::size_t lanes = Batch::size, panel_vectors = 4, panel = panel_vectors * lanes;

/// Columns in panels of 64: panel p starts at `first + p * panel_step`, its rows are `row_step`
/// apart. Row-major with n columns: {first, 64, n}; packed with k rows: {first, 64 * k, 64}.
template <class T>
struct Panels {
  T* first;
  std::size_t panel_step, row_step;
};
template <class T>
Panels<T> row_major(T* first, std::size_t columns) {
  return {first, panel, columns};
}
template <class T>
Panels<T> packed(T* first, std::size_t rows) {
  return {first, panel * rows, panel};
}

/// The left factor: element (i, p) is first[i * row_step + p * column_step].
struct Left {
  const float* first;
  std::size_t row_step, column_step;
};

/// What a product is added to.
enum class Onto { zero, target, row };

template <std::size_t rows, std::size_t vectors>
void tile(std::size_t depth, Left a, const float* b, std::size_t b_step, float* c,
          std::size_t c_step, Onto onto, const float* row) {
  Batch sums[rows][vectors];
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < vectors; ++j) {
      sums[i][j] = onto == Onto::zero     ? Batch(0.0f)
                   : onto == Onto::target ? Batch::load_aligned(c + i * c_step + j * lanes)
                                          : Batch::load_aligned(row + j * lanes);
    }
  }
  for (std::size_t p = 0; p < depth; ++p, b += b_step) {
    Batch right[vectors];
    for (std::size_t j = 0; j < vectors; ++j) right[j] = Batch::load_aligned(b + j * lanes);
    for (std::size_t i = 0; i < rows; ++i) {
      const Batch left(a.first[i * a.row_step + p * a.column_step]);
      for (std::size_t j = 0; j < vectors; ++j) sums[i][j] = xsimd::fma(left, right[j], sums[i][j]);
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < vectors; ++j) sums[i][j].store_aligned(c + i * c_step + j * lanes);
  }
}

template <std::size_t vectors>
void tile_rows(std::size_t rows, std::size_t depth, Left a, const float* b, std::size_t b_step,
               float* c, std::size_t c_step, Onto onto, const float* row) {
  switch (rows) {
    case 1:
      return tile<1, vectors>(depth, a, b, b_step, c, c_step, onto, row);
    case 2:
      return tile<2, vectors>(depth, a, b, b_step, c, c_step, onto, row);
    case 3:
      return tile<3, vectors>(depth, a, b, b_step, c, c_step, onto, row);
    case 4:
      return tile<4, vectors>(depth, a, b, b_step, c, c_step, onto, row);
    case 5:
      return tile<5, vectors>(depth, a, b, b_step, c, c_step, onto, row);
    default:
      return tile<6, vectors>(depth, a, b, b_step, c, c_step, onto, row);
  }
}

/// C (m, n) = A (m, k) B (k, n), onto zero, what C holds, or one row; n in whole vectors.
inline void product(std::size_t m, std::size_t n, std::size_t k, Left a, Panels<const float> b,
                    Panels<float> c, Onto onto = Onto::zero, const float* row = nullptr) {
  const std::size_t blocks = (m + 5) / 6;
  for (std::size_t column = 0, p = 0; column < n; column += panel, ++p) {
    const std::size_t vectors = std::min(panel_vectors, (n - column) / lanes);
    const float* start = row == nullptr ? nullptr : row + column;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t first = m * block / blocks, rows = m * (block + 1) / blocks - first;
      const Left left{a.first + first * a.row_step, a.row_step, a.column_step};
      const float* right = b.first + p * b.panel_step;
      float* target = c.first + p * c.panel_step + first * c.row_step;
      const auto run = vectors == 4   ? tile_rows<4>
                       : vectors == 3 ? tile_rows<3>
                       : vectors == 2 ? tile_rows<2>
                                      : tile_rows<1>;
      run(rows, k, left, right, b.row_step, target, c.row_step, onto, start);
    }
  }
}

/// The sum over a vector's lanes, renamed in xsimd 9.
inline float total(Batch x) {
#if XSIMD_VERSION_MAJOR >= 9
  return xsimd::reduce_add(x);
#else
  return xsimd::hadd(x);
#endif
}

}  // namespace limits
