// SPDX-License-Identifier: BSD-3-Clause
// Large products in blocks. A block of x stays in the L2 cache while panels of y pass through the
// L1 cache. Each panel is first copied, so that its short rows are contiguous. Without the copy,
// rows 4 KiB apart would map to the same few cache sets, and each tile would load them again.
#pragma once
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/half_matrix.hpp"
#include "lib/cpu/matmul.hpp"
#include "lib/cpu/matrix.hpp"
#include "lib/cpu/transpose.hpp"

namespace reel::kernels::REEL_ISA {
template <class T>
inline constexpr std::int64_t size_in_bytes = static_cast<std::int64_t>(sizeof(T));

template <int height, class T>
inline constexpr std::int64_t panel_width = tile_vectors(height) * lanes<T>;
// Up to this number of rows, tall tiles are faster, as they read y less often. Above it, wide tiles
// are faster, as they read x less often.
inline constexpr std::int64_t most_tall_rows = 100;

// Measured with an L1 cache of 32 KB, which holds a narrow panel, and an L2 cache of 1 MB.
template <class T>
inline constexpr std::int64_t most_depth =
    (lanes<T> * size_in_bytes<T> == 64 ? 1360 : 1024) / size_in_bytes<T>;
// AVX2: measured with an L2 cache of 512 KB (Zen 3). There a wide product copies all of x, and the
// panels of y are kept for the next block of x.
inline constexpr bool has_wide_vectors = lanes<float> == 16;
inline constexpr std::int64_t block_bytes = (has_wide_vectors ? 384 : 192) << 10;
inline constexpr std::int64_t most_kept_columns = 2048, least_packed_columns = 384;
/// A sum of at least this number of terms starts at 0, and is then added to z.
inline constexpr std::int64_t least_apart = 16;
inline constexpr std::int64_t group_width = 8;

inline std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
/// The length of a part if n is cut into equal parts of at most about `most` each. The length is a
/// multiple of `multiple`.
inline std::int64_t part_length(std::int64_t n, std::int64_t most, std::int64_t multiple) {
  const std::int64_t parts = (n + most - 1) / most;
  return rounded_up((n + parts - 1) / parts, multiple);
}

/// Copies x into row-major memory with rows to_step elements apart.
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

/// Copies a column-major x tile by tile. The elements of a column that belong to one tile become
/// contiguous, and the columns of a tile follow one another.
template <class T>
void copy_groups(const Matrix<T>& x, T* to, std::int64_t height) {
  constexpr std::int64_t some = 8;  // columns at once
  for (std::int64_t first = 0; first < x.columns; first += some) {
    const std::int64_t columns = least(some, x.columns - first);
    const T* from = x.data + first * x.column;
    T* at = to + first * group_width;
    for (std::int64_t left = x.rows, rows; left > 0; left -= rows, from += rows) {
      rows = next_height(left, height);
      if (left >= group_width)  // a group of eight is copied at once
        for (std::int64_t i = 0; i < columns; ++i)
          __builtin_memcpy(at + i * group_width, from + i * x.column, group_width * sizeof(T));
      else
        for (std::int64_t i = 0; i < columns * rows; ++i)
          at[i / rows * group_width + i % rows] = from[i / rows * x.column + i % rows];
      at += group_width * x.columns;
    }
  }
}

/// Whether rows of this length map to few cache sets.
template <class T>
bool crowds(std::int64_t row, std::int64_t column) {
  return column == 1 && row * size_in_bytes<T> % 2048 == 0;
}
template <class T>
bool is_tall(std::int64_t rows, std::int64_t columns) {
  return rows <= most_tall_rows || columns <= panel_width<most_tile_rows, T>;
}
/// The length of the blocks along k. Sums depend on it, so all pieces of a product use the length
/// of the whole product.
template <class T>
std::int64_t depth_of(const Matrix<T>& x, const Matrix<T>& y) {
  const bool half = crowds<T>(y.row, y.column) && is_tall<T>(x.rows, y.columns);
  return x.columns ? part_length(x.columns, half ? most_depth<T> / 2 : most_depth<T>, 4) : 0;
}
/// Calls f(block) for each block along k. A product with a short k is one block.
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

/// multiply<Strategy::fetching>() for other files than matmul.cpp, which have no tiles.
void multiply_copied(Product<float>& p, std::int64_t height);

/// A product in blocks. y may have any layout; y_column is the step between its columns. From is T,
/// or Half with `how` as widen_matrix() takes it.
template <class T, class From = T>
struct Blocks {
  const Product<T, From>& p;
  const std::int64_t y_column;
  const unsigned how;
  const bool grouped, tall, packs;
  const std::int64_t depth, rows;
  const bool keeps;  // the panels of a block of y, for all blocks of x
  const std::int64_t columns;

  static constexpr std::int64_t line = 64 / size_in_bytes<T>;
  static constexpr bool widens = !std::is_same_v<T, From>;

  Blocks(const Product<T, From>& product, std::int64_t y_column, std::int64_t block_depth,
         unsigned how = 0)
      : p(product),
        y_column(y_column),
        how(how),
        grouped(!widens && p.x_row == 1 && p.x_column != 1),
        tall(is_tall<T>(p.n, p.m)),
        packs(widens || pays_for_x()),
        depth(block_depth),
        rows(part_length(p.n, block_bytes / (depth * size_in_bytes<T>), wide_tile_rows)),
        keeps(!has_wide_vectors && p.n > rows),
        columns(keeps ? most_kept_columns : p.m) {}

  /// Elements of scratch memory.
  std::int64_t scratch_size() const { return panels_size() + (packs ? block_size() : 0); }

  void multiply(T* memory) const {
    for (std::int64_t column = 0; column < p.m; column += columns) {
      Product<T, From> part = p;
      part.m = least(columns, p.m - column);
      part.y += column * y_column;
      part.c += column;
      if (part.start) part.start += column;
      for_blocks(part, depth, [&](Product<T, From> rest) {
        for (bool first = true; rest.n > 0; rest.skip_rows(rows), first = !keeps) {
          Product<T, From> block = rest;
          block.n = least(rows, rest.n);
          const Product<T> copied = with_x_in(block, memory + panels_size());
          if (tall)
            panels<most_tile_rows>(copied, block.y, memory, first);
          else
            panels<wide_tile_rows>(copied, block.y, memory, first);
        }
      });
    }
  }

 private:
  bool pays_for_x() const {
    if (p.n < 64 || p.m < 2 * panel_width<wide_tile_rows, T>) return false;
    if (!has_wide_vectors && p.m >= least_packed_columns) return true;
    return p.x_column != 1 || (crowds<T>(p.x_row, 1) && p.m >= 8 * panel_width<wide_tile_rows, T>);
  }
  std::int64_t width() const {
    return tall ? panel_width<most_tile_rows, T> : panel_width<wide_tile_rows, T>;
  }
  std::int64_t panel_size() const { return rounded_up(width() * depth, line); }
  std::int64_t panels_size() const {
    return panel_size() * (keeps ? (least(columns, p.m) + width() - 1) / width() : 1);
  }
  /// The row length of a copied block: an odd number of cache lines, so that rows use all cache
  /// sets.
  std::int64_t block_row() const { return (rounded_up(depth, line) / line | 1) * line; }
  std::int64_t block_size() const {
    const std::int64_t n = least(rows, p.n);
    return grouped ? (n / wide_tile_rows + 2) * group_width * depth : n * block_row();
  }

  /// The block with x as tiles read it: copied to memory, or as it lies.
  Product<T> with_x_in(const Product<T, From>& block, T* to) const {
    const Matrix<From> x{block.x, block.n, block.k, p.x_row, p.x_column};
    if constexpr (widens) {
      Product<T> copied{block.n, block.m,     block.k, to,          block_row(), 1,
                        nullptr, block.y_row, block.c, block.c_row, block.start, block.start_row};
      copied.activation = block.activation;
      copied.adds = block.adds;
      widen_matrix(x, to, block_row(), how);
      return copied;
    } else {
      Product<T> copied = block;
      if (!packs) return copied;
      copied.x = to;
      if (grouped) {
        copied.x_group = group_width * block.k;
        copied.x_column = group_width;
        copy_groups(x, to, tall ? most_tile_rows : wide_tile_rows);
      } else {
        copied.x_row = block_row();
        copied.x_column = 1;
        copy_matrix(x, to, copied.x_row);
      }
      return copied;
    }
  }

  template <int height>
  void panels(const Product<T>& block, const From* y, T* copy, bool first) const {
    constexpr std::int64_t width = panel_width<height, T>;
    for (std::int64_t column = 0; column < block.m; column += width, y += width * y_column) {
      Product<T> part = block;
      part.m = least(width, block.m - column);
      part.c += column;
      if (part.start) part.start += column;
      panel<height>(part, first ? y : nullptr, copy, column + width < block.m);
      if (keeps) copy += panel_size();
    }
  }

  /// `from` is null if the panel is at `copy` already.
  template <int height>
  void panel(Product<T> part, const From* from, T* copy, bool more) const {
    part.soon = copy;
    if (from) copy_panel<height>(part, from, copy, more);
    part.y = copy;
    part.y_row = panel_width<height, T>;
    if constexpr (widens)
      multiply_copied(part, height);
    else
      kernels::REEL_ISA::multiply<Strategy::fetching>(part, height);
  }
  /// The first tile copies y while it multiplies, if it can. The other tiles prefetch the next
  /// panel, if there is one and the tiles are few. Many tiles hide the load of the next panel by
  /// their own work.
  template <int height>
  void copy_panel(Product<T>& part, const From* from, T* copy, bool more) const {
    constexpr std::int64_t width = panel_width<height, T>;
    const Matrix<From> y{from, part.k, part.m, part.y_row, y_column};
    if constexpr (widens) {
      widen_matrix(y, copy, width, how);
    } else {
      part.y = from;
      if (part.m == width && y_column == 1 && part.n >= 2 * height) {
        tile<height, tile_vectors(height), false, Strategy::copying>(part, 0, 0, copy);
        part.activate_rows(height);
        part.skip_rows(height);
      } else {
        copy_matrix(y, copy, width);
      }
      if (more && tall && y_column == 1) {
        part.soon = y.data + width;
        part.soon_row = y.row;
        part.soon_lines = tile_vectors(height);
      }
    }
  }
};
}  // namespace reel::kernels::REEL_ISA
