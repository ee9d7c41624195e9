// SPDX-License-Identifier: BSD-3-Clause
// Products of few rows with a y larger than the first cache: y comes panel by panel into memory of
// its own, where short rows stand one after the other whichever way y lies. Rows 4 KiB apart would
// share a few places of the cache, and be read from beyond it for each block of x's rows.
#pragma once
#include "lib/cpu/matmul.hpp"
#include "lib/cpu/transpose.hpp"

namespace reel::kernels::REEL_ISA {
inline constexpr std::int64_t panel_bytes = 32 << 10;
template <class T>
inline constexpr std::int64_t panel_columns = 4 * lanes<T>;
template <class T>
inline constexpr std::int64_t panel_rows = panel_bytes / (panel_columns<T> *
                                                          static_cast<std::int64_t>(sizeof(T)));

/// Elements are only moved: float as the integers that turn() has registers for.
inline void turn_elements(const float* y, std::int64_t step, float* to, std::int64_t to_step,
                          std::int64_t rows, std::int64_t columns) {
  turn(reinterpret_cast<const std::uint32_t*>(y), step, reinterpret_cast<std::uint32_t*>(to),
       to_step, rows, columns);
}
inline void turn_elements(const double* y, std::int64_t step, double* to, std::int64_t to_step,
                          std::int64_t rows, std::int64_t columns) {
  turn(y, step, to, to_step, rows, columns);
}

/// `rows` by `columns` elements of y to `to`; one of y's steps is 1.
template <class T>
void copy_panel(const T* y, std::int64_t row, std::int64_t column, std::int64_t rows,
                std::int64_t columns, T* to) {
  constexpr std::int64_t L = lanes<T>, ahead = 8;
  if (column != 1) return turn_elements(y, column, to, panel_columns<T>, rows, columns);
  for (std::int64_t i = 0; i < rows; ++i, y += row, to += panel_columns<T>) {
    std::int64_t j = 0;
    for (; j + L <= columns; j += L) {
      __builtin_prefetch(y + ahead * row + j);
      store(to + j, load(y + j));
    }
    for (; j < columns; ++j) to[j] = y[j];
  }
}

/// As multiply(), but y's rows or its columns are neighbours; `copy` has room for panel_bytes.
template <class T>
void multiply_by_panels(const Product<T>& p, std::int64_t y_column, T* copy) {
  const auto least = [](std::int64_t a, std::int64_t b) { return a < b ? a : b; };
  for (std::int64_t first = 0; first < p.k; first += panel_rows<T>) {
    const std::int64_t depth = least(panel_rows<T>, p.k - first);
    for (std::int64_t column = 0; column < p.m; column += panel_columns<T>) {
      const std::int64_t width = least(panel_columns<T>, p.m - column);
      copy_panel(p.y + first * p.y_row + column * y_column, p.y_row, y_column, depth, width, copy);
      Product<T> part = p;
      part.m = width;
      part.k = depth;
      part.x += first * p.x_column;
      part.y = copy;
      part.y_row = panel_columns<T>;
      part.c += column;
      part.start = first ? part.c : p.start ? p.start + column : nullptr;
      part.start_row = first ? p.c_row : p.start_row;
      panel(part, 0, width);
    }
  }
}
}  // namespace reel::kernels::REEL_ISA
