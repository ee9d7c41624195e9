// SPDX-License-Identifier: BSD-3-Clause
// Large products in blocks: a block of x stays in the second cache while panels of y pass it, each
// copied to where its short rows stand one after the other. Rows 4 KiB apart would share a few
// places of the cache, and be read from beyond it for each tile.
#pragma once
#include "lib/cpu/matmul.hpp"
#include "lib/cpu/transpose.hpp"

namespace reel::kernels::REEL_ISA {
template <class T>
inline constexpr std::int64_t size_in_bytes = static_cast<std::int64_t>(sizeof(T));

template <int height, class T>
inline constexpr std::int64_t panel_width = tile_vectors(height) * lanes<T>;
// Up to here tall tiles are better, which read y less often; then wide ones, which read x less.
inline constexpr std::int64_t most_tall_rows = 100;

// Measured on 32 KB of first cache, where narrow panels stay, and 1 MB of second cache.
template <class T>
inline constexpr std::int64_t most_depth =
    (lanes<T> * size_in_bytes<T> == 64 ? 1360 : 1024) / size_in_bytes<T>;
inline constexpr std::int64_t block_bytes = 384 << 10;
/// From so many steps on, a sum is made apart from what it is added to.
inline constexpr std::int64_t least_apart = 16;
inline constexpr std::int64_t group_width = 8;

inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
/// The length of n's equal parts, each of at most about `most`, and a multiple.
inline std::int64_t part_length(std::int64_t n, std::int64_t most, std::int64_t multiple) {
  const std::int64_t parts = (n + most - 1) / most;
  return rounded_up((n + parts - 1) / parts, multiple);
}

/// A matrix as it lies.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t rows, columns, row, column;  // lengths, then steps

  Matrix transposed() const { return {data, columns, rows, column, row}; }
};

/// x in rows with neighbouring columns, to_step apart.
template <class T>
void copy_matrix(const Matrix<T>& x, T* to, std::int64_t to_step) {
  constexpr std::int64_t L = lanes<T>, ahead = 4;
  if (x.row == 1 && x.column != 1)
    return transpose_elements(x.data, x.column, to, to_step, x.rows, x.columns);
  for (std::int64_t i = 0; i < x.rows; ++i, to += to_step) {
    const T* from = x.data + i * x.row;
    std::int64_t j = 0;
    for (; x.column == 1 && j + L <= x.columns; j += L) {
      __builtin_prefetch(from + ahead * x.row + j);
      store(to + j, load(from + j));
    }
    for (; j < x.columns; ++j) to[j] = from[j * x.column];
  }
}

/// x's rows are neighbours: those of a tile side by side, one column after the other.
template <class T>
void copy_groups(const Matrix<T>& x, T* to, std::int64_t height) {
  constexpr std::int64_t some = 8;  // columns at a time
  for (std::int64_t first = 0; first < x.columns; first += some) {
    const std::int64_t columns = least(some, x.columns - first);
    const T* from = x.data + first * x.column;
    T* at = to + first * group_width;
    for (std::int64_t left = x.rows, rows; left > 0; left -= rows, from += rows) {
      rows = next_height(left, height);
      if (left >= group_width)  // eight move as one
        for (std::int64_t i = 0; i < columns; ++i)
          __builtin_memcpy(at + i * group_width, from + i * x.column, group_width * sizeof(T));
      else
        for (std::int64_t i = 0; i < columns * rows; ++i)
          at[i / rows * group_width + i % rows] = from[i / rows * x.column + i % rows];
      at += group_width * x.columns;
    }
  }
}

/// Rows so far apart meet in few places of the caches.
template <class T>
bool crowds(std::int64_t row, std::int64_t column) {
  return column == 1 && row * size_in_bytes<T> % 2048 == 0;
}
template <class T>
bool is_tall(std::int64_t rows, std::int64_t columns) {
  return rows <= most_tall_rows || columns <= panel_width<most_tile_rows, T>;
}
/// The length of k's blocks. Sums depend on it, so it is that of the whole product in all its
/// pieces.
template <class T>
std::int64_t depth_of(const Matrix<T>& x, const Matrix<T>& y) {
  const bool half = crowds<T>(y.row, y.column) && is_tall<T>(x.rows, y.columns);
  return x.columns ? part_length(x.columns, half ? most_depth<T> / 2 : most_depth<T>, 4) : 0;
}
/// Calls f(block) for each block of k; p itself is one where k is short.
template <class P, class F>
void for_blocks(P& p, std::int64_t depth, const F& f) {
  if (p.k <= depth) return f(p);
  for (std::int64_t first = 0; first < p.k; first += depth) {
    auto block = p;
    block.x += first * p.x_column;
    block.y += first * p.y_row;
    block.k = least(depth, p.k - first);
    if (first) {
      block.start = nullptr;
      block.adds = true;
    }
    if (first + depth < p.k) block.activation = nullptr;
    f(block);
  }
}

/// A product in blocks; y may lie anyhow, and is reached through its transpose's step.
template <class T>
struct Blocks {
  const Product<T>& p;
  const std::int64_t y_column;
  const bool grouped, tall, packs;
  const std::int64_t depth, rows;

  static constexpr std::int64_t line = 64 / size_in_bytes<T>;

  Blocks(const Product<T>& product, std::int64_t y_column, std::int64_t block_depth)
      : p(product),
        y_column(y_column),
        grouped(p.x_row == 1 && p.x_column != 1),
        tall(is_tall<T>(p.n, p.m)),
        packs(pays_for_x()),
        depth(block_depth),
        rows(part_length(p.n, block_bytes / (depth * size_in_bytes<T>), wide_tile_rows)) {}

  /// Elements of scratch memory.
  std::int64_t scratch_size() const { return panel_size() + (packs ? block_size() : 0); }

  void multiply(T* memory) const {
    for_blocks(p, depth, [&](Product<T> rest) {
      for (; rest.n > 0; rest.skip_rows(rows)) {
        Product<T> block = rest;
        block.n = least(rows, rest.n);
        if (packs) copy_x(block, memory + panel_size());
        if (tall)
          panels<most_tile_rows>(block, memory);
        else
          panels<wide_tile_rows>(block, memory);
      }
    });
  }

 private:
  bool pays_for_x() const {
    if (p.n < 64 || p.m < 2 * panel_width<wide_tile_rows, T>) return false;
    return p.x_column != 1 || (crowds<T>(p.x_row, 1) && p.m >= 8 * panel_width<wide_tile_rows, T>);
  }
  std::int64_t panel_size() const {
    const std::int64_t width =
        tall ? panel_width<most_tile_rows, T> : panel_width<wide_tile_rows, T>;
    return rounded_up(width * depth, line);
  }
  /// An odd number of lines: rows spread over the cache.
  std::int64_t block_row() const { return (rounded_up(depth, line) / line | 1) * line; }
  std::int64_t block_size() const {
    const std::int64_t n = least(rows, p.n);
    return grouped ? (n / wide_tile_rows + 2) * group_width * depth : n * block_row();
  }

  void copy_x(Product<T>& block, T* to) const {
    const Matrix<T> x{block.x, block.n, block.k, p.x_row, p.x_column};
    block.x = to;
    if (grouped) {
      block.x_group = group_width * block.k;
      block.x_column = group_width;
      copy_groups(x, to, tall ? most_tile_rows : wide_tile_rows);
    } else {
      block.x_row = block_row();
      block.x_column = 1;
      copy_matrix(x, to, block.x_row);
    }
  }

  template <int height>
  void panels(const Product<T>& block, T* copy) const {
    constexpr std::int64_t width = panel_width<height, T>;
    for (std::int64_t column = 0; column < p.m; column += width) {
      Product<T> part = block;
      part.m = least(width, p.m - column);
      part.y += column * y_column;
      part.c += column;
      if (part.start) part.start += column;
      panel<height>(part, copy, column + width < p.m);
    }
  }

  /// The first tile copies y while it multiplies, if it can. The others ask for the next panel, if
  /// there is one and they are few: many hide its way by their work.
  template <int height>
  void panel(Product<T> part, T* copy, bool more) const {
    constexpr std::int64_t width = panel_width<height, T>;
    const Matrix<T> y{part.y, part.k, part.m, part.y_row, y_column};
    if (part.m == width && y_column == 1 && part.n >= 2 * height) {
      tile<height, tile_vectors(height), false, Strategy::copying>(part, 0, 0, copy);
      part.activate_rows(height);
      part.skip_rows(height);
    } else {
      copy_matrix(y, copy, width);
    }
    part.y = part.soon = copy;
    part.y_row = width;
    if (more && tall && y_column == 1) {
      part.soon = y.data + width;
      part.soon_row = y.row;
      part.soon_lines = tile_vectors(height);
    }
    kernels::REEL_ISA::multiply<Strategy::fetching>(part, height);
  }
};
}  // namespace reel::kernels::REEL_ISA
