// SPDX-License-Identifier: BSD-3-Clause
// Products in registers: a tile of c stays in vectors while k runs. Each element is a chain of
// additions in the order of k, in every tile. So rows and columns may be divided in any way without
// a change of bits. A long k is divided into blocks. The chain of each block is added to c when it
// is complete.
#pragma once
#include <cstdint>

#include "lib/cpu/simd.hpp"
#include "lib/table/kernel_call.hpp"

// With narrow vectors the overhead of the loop would be visible.
#if defined(__AVX512F__) || defined(__clang__)
#define REEL_UNROLL_STEPS
#else
#define REEL_UNROLL_STEPS _Pragma("GCC unroll 2")
#endif

namespace reel::kernels::REEL_ISA {
/// A pass over rows of c.
template <class T>
void activate_rows(PassFunction activation, T* c, std::int64_t c_row, std::int64_t rows,
                   std::int64_t columns) {
  if (columns == c_row) columns *= rows, rows = 1;
  for (; rows > 0; --rows, c += c_row) {
    const void* const input = c;
    activation(columns, &input, 0, c);
  }
}

/// c [n, m] = start + x [n, k] y [k, m]. Columns of y, c and start are contiguous; x may have any
/// layout. start may be c, or null for zeros. Its step is 0 if each row starts from the same row.
/// Tiles have x and y in T. In blocks of other elements, From, they are converted when copied.
template <class T, class From = T>
struct Product {
  std::int64_t n, m, k;
  const From* x;
  std::int64_t x_row, x_column;
  const From* y;
  std::int64_t y_row;
  T* c;
  std::int64_t c_row;
  const T* start;
  std::int64_t start_row;
  std::int64_t x_group = 0;  // from one tile's rows of x to the next one's, if not by x_row

  // Tiles of Strategy::fetching also prefetch from this matrix, which has so many lines in each
  // row. The first tile prefetches the first line of each row, the second tile the second line, ...
  const T* soon = nullptr;
  std::int64_t soon_row = 0, soon_lines = 0;

  PassFunction activation = nullptr;  // applied to the elements when their sums are complete
  bool adds = false;                  // whether complete sums are added to c

  void skip_rows(std::int64_t rows) {
    n -= rows;
    x += x_group ? x_group : rows * x_row;
    c += rows * c_row;
    if (start) start += rows * start_row;
  }
  void activate_rows(std::int64_t rows) const {
    if (activation) kernels::REEL_ISA::activate_rows(activation, c, c_row, rows, m);
  }
  void skip_line() {
    soon += 64 / sizeof(T);
    if (--soon_lines <= 0) soon_row = 0;
  }
};

/// What a tile does besides its products. plain: nothing. fetching: it prefetches the tile below.
/// copying: it also copies the rows of y that it reads to contiguous memory.
enum class Strategy { plain, fetching, copying };

constexpr int most_tile_vectors = 8;
template <class T>
alignas(64) static constexpr T zeros[most_tile_vectors * lanes<T>] = {};

/// The elements of a vector in memory: all of them, or the first `part` at the end of a row.
template <bool Partial, class T>
Vector<T> load_some(const T* from, std::int64_t part) {
  if constexpr (Partial)
    return load_part(from, part);
  else
    return load(from);
}

/// A tile of c in registers; the last vector of each row holds `part` elements if Partial.
template <int Rows, int Vectors, bool Partial, class T>
struct Sums {
  static constexpr std::int64_t L = lanes<T>;
  static constexpr int last = Vectors - 1;
  Vector<T> at[Rows][Vectors];

  [[gnu::always_inline]] void take(const T* from, std::int64_t step, std::int64_t part) {
    REEL_UNROLL
    for (int r = 0; r < Rows; ++r, from += step) {
      REEL_UNROLL
      for (int v = 0; v < last; ++v) at[r][v] = load(from + v * L);
      at[r][last] = load_some<Partial>(from + last * L, part);
    }
  }
  /// Adds the elements in memory.
  [[gnu::always_inline]] void add(const T* from, std::int64_t step, std::int64_t part) {
    REEL_UNROLL
    for (int r = 0; r < Rows; ++r, from += step) {
      REEL_UNROLL
      for (int v = 0; v < last; ++v) at[r][v] = load(from + v * L) + at[r][v];
      at[r][last] = load_some<Partial>(from + last * L, part) + at[r][last];
    }
  }
  [[gnu::always_inline]] void give(T* to, std::int64_t step, std::int64_t part) const {
    REEL_UNROLL
    for (int r = 0; r < Rows; ++r, to += step) {
      REEL_UNROLL
      for (int v = 0; v < last; ++v) store(to + v * L, at[r][v]);
      if constexpr (Partial)
        store_part(to + last * L, at[r][last], part);
      else
        store(to + last * L, at[r][last]);
    }
  }
};

/// Prefetches the memory of the next tile line by line during this tile. All prefetches at once
/// would delay the reads of this tile.
template <int Rows, int Vectors, class T>
struct Fetching {
  T* row;
  std::int64_t step, pause, wait = 1;

  Fetching(T* first, std::int64_t step, std::int64_t k) : row(first), step(step), pause(k / Rows) {}
  [[gnu::always_inline]] void go() {
    if (--wait) return;
    for (int v = 0; v < Vectors; ++v) __builtin_prefetch(row + v * lanes<T>, 1);
    row += step;
    wait = pause > 0 ? pause : 1;
  }
};

/// Computes the first Rows rows by Vectors vectors of c, from `column` on. Rows of x are addressed
/// by two pointers plus one step or two steps, as the processor can add these in an address.
template <int Rows, int Vectors, bool Partial, Strategy strategy, class T>
void tile(const Product<T>& p, std::int64_t column, std::int64_t part, T* copy = nullptr) {
  constexpr std::int64_t L = lanes<T>, ahead = 8;
  constexpr int last = Vectors - 1, upper = (Rows + 1) / 2;
  const std::int64_t x_row = p.x_row, x_column = p.x_column, y_row = p.y_row;
  T* const c = p.c + column;
  Sums<Rows, Vectors, Partial, T> sums;
  // Zeros are read from memory, because g++ 12 keeps sums that it has set to zero in memory.
  sums.take(p.start ? p.start + column : zeros<T>, p.start ? p.start_row : 0, part);
  const T *x = p.x, *x_lower = x + upper * x_row, *y = p.y + column;
  [[maybe_unused]] const T* soon = p.soon;
  [[maybe_unused]] const std::int64_t soon_row = p.soon_row;
  [[maybe_unused]] Fetching<Rows, Vectors, T> below(c + Rows * p.c_row, p.c_row, p.k);
  REEL_UNROLL_STEPS
  for (std::int64_t i = p.k; i > 0; --i) {
    if constexpr (strategy != Strategy::plain) below.go();
    Vector<T> columns[Vectors];
    REEL_UNROLL
    for (int v = 0; v < last; ++v) columns[v] = load(y + v * L);
    columns[last] = load_some<Partial>(y + last * L, part);
    if constexpr (strategy == Strategy::copying) {
      REEL_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        __builtin_prefetch(y + ahead * y_row + v * L);
        columns[v].store_aligned(copy + v * L);
      }
      copy += Vectors * L;
    }
    if constexpr (strategy == Strategy::fetching && Vectors > 2) {  // to the L2 cache
      __builtin_prefetch(soon, 0, 2);
      soon += soon_row;
    }
    REEL_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Vector<T> factor(r < upper ? x[r * x_row] : x_lower[(r - upper) * x_row]);
      REEL_UNROLL
      for (int v = 0; v < Vectors; ++v)
        sums.at[r][v] = xsimd::fma(factor, columns[v], sums.at[r][v]);
    }
    x += x_column;
    x_lower += x_column;
    y += y_row;
  }
  if (p.adds) [[unlikely]]
    sums.add(c, p.c_row, part);
  sums.give(c, p.c_row, part);
}

/// The most vectors of sums in a tile with this number of rows: there are 32 registers, or 16.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int most_tile_rows = 8, wide_tile_rows = 6;
constexpr int tile_vectors(int rows) { return rows == 1 ? most_tile_vectors : rows <= 6 ? 4 : 3; }
#else
inline constexpr int most_tile_rows = 6, wide_tile_rows = 6;
constexpr int tile_vectors(int rows) { return rows == 1 ? most_tile_vectors : rows == 2 ? 4 : 2; }
#endif

/// The last columns gain nothing from a prefetch. With AVX2, though, tiles that large products
/// share with small ones would make these slower: they would not be inlined.
constexpr Strategy last_strategy([[maybe_unused]] Strategy strategy) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return strategy;
#else
  return Strategy::plain;
#endif
}
/// Computes the columns behind the whole tiles. There are fewer of them than in a tile.
template <int Rows, int Vectors, Strategy strategy, class T>
void last_tile(const Product<T>& p, std::int64_t column) {
  constexpr std::int64_t before = (Vectors - 1) * lanes<T>;
  const std::int64_t left = p.m - column - before;
  if constexpr (Vectors > 1)
    if (left <= 0) return last_tile<Rows, Vectors - 1, strategy>(p, column);
  if (left == lanes<T>)
    tile<Rows, Vectors, false, strategy>(p, column, 0);
  else if (left > 0)
    tile<Rows, Vectors, true, strategy>(p, column, left);
}

/// Computes all columns of the first Rows rows.
template <int Rows, Strategy strategy, class T>
void strip(const Product<T>& p) {
  constexpr int vectors = tile_vectors(Rows);
  std::int64_t column = 0;
  for (; column + vectors * lanes<T> <= p.m; column += vectors * lanes<T>)
    tile<Rows, vectors, false, strategy>(p, column, 0);
  last_tile<Rows, vectors, last_strategy(strategy)>(p, column);
}

template <int Rows, Strategy strategy, class T>
void strip_of(std::int64_t rows, const Product<T>& p) {
  if constexpr (Rows > 1)
    if (rows < Rows) return strip_of<Rows - 1, strategy>(rows, p);
  strip<Rows, strategy>(p);
}

/// The height of the next tile. The last two tiles share the remaining rows. There is no division,
/// as it would take as long as a small product.
inline std::int64_t next_height(std::int64_t rows, std::int64_t height) {
  return rows >= 2 * height ? height : rows > height ? (rows + 1) / 2 : rows;
}

/// Computes tiles of up to `height` rows. At return p has no rows left.
template <Strategy strategy, class T>
void multiply(Product<T>& p, std::int64_t height) {
  while (p.n > 0) {
    const std::int64_t rows = next_height(p.n, height);
    strip_of<most_tile_rows, strategy>(rows, p);
    p.activate_rows(rows);
    p.skip_rows(rows);
    if constexpr (strategy == Strategy::fetching) p.skip_line();
  }
}
}  // namespace reel::kernels::REEL_ISA
