// SPDX-License-Identifier: BSD-3-Clause
// How reductions join elements: along rows and down columns, in an order that depends on lengths
// alone.
#pragma once
#include <reel/threads.hpp>

#include "lib/cpu/chunk.hpp"
#include "lib/cpu/pool.hpp"

namespace reel::kernels::REEL_ISA {
template <class A>
struct Sum {
  static constexpr A none = 0;
  template <class X>
  static A step(A sum, X x) {
    if constexpr (static_cast<A>(0.5) != 0)
      return sum + static_cast<A>(x);
    else
      return static_cast<A>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(x));
  }
  static Vector<A> join(const Vector<A>& sum, const Vector<A>& x) { return sum + x; }
};
/// The first of two that compare equal; NaN wins.
template <class A>
struct Largest {
  static A step(A best, A x) { return ((x > best) | (x != x)) ? x : best; }
  static Vector<A> join(const Vector<A>& best, const Vector<A>& x) {
    return xsimd::select((x > best) | xsimd::isnan(x), x, best);
  }
};
template <class A>
struct Smallest {
  static A step(A best, A x) { return ((x < best) | (x != x)) ? x : best; }
  static Vector<A> join(const Vector<A>& best, const Vector<A>& x) {
    return xsimd::select((x < best) | xsimd::isnan(x), x, best);
  }
};
template <bool Every>
struct Truth {
  static constexpr bool none = Every;
  template <class X>
  static bool step(bool sofar, X x) {
    const bool yes = x != X(0);
    return Every ? sofar & yes : sofar | yes;
  }
};

template <class A>
inline constexpr bool is_floating = static_cast<A>(0.5) != 0 && !std::is_same_v<A, bool>;

constexpr std::int64_t lane_count = 32;            // sums that run side by side
constexpr std::int64_t leaf = 1024;                // elements below which sums are not halved
constexpr std::int64_t fold_rows = 64;             // rows that are added one after the other
constexpr std::int64_t shared_elements = 1 << 16;  // that are worth another thread's way
template <class A>
inline constexpr std::int64_t fold_width = 16384 / sizeof(A);  // columns whose sums stay in a cache

/// What a column's first element starts from.
template <class R, class A, class X>
A first_step(X x) {
  if constexpr (requires { R::none; })
    return R::step(R::none, x);
  else
    return static_cast<A>(x);
}

/// A row of up to `leaf` elements: lanes side by side, then joined by halves.
template <class R, class A, class X>
A fold_leaf(const X* x, std::int64_t n) {
  if constexpr (is_floating<A>) {
    const auto vector = [&](std::int64_t i, Chunk<A> chunk) {
      if constexpr (requires { R::none; })
        return chunk.get(x + i);
      else
        return chunk.any(x, i);
    };
    return fold_lanes<A>(row_fold<A>(n, vector, R::join), R::join);
  }
  alignas(64) A sums[lane_count];
  std::int64_t i = 0, filled = 0;
  if (n >= lane_count) {
    for (std::int64_t l = 0; l < lane_count; ++l) sums[l] = first_step<R, A>(x[l]);
    filled = lane_count;
    for (i = lane_count; i + lane_count <= n; i += lane_count)
      for (std::int64_t l = 0; l < lane_count; ++l) sums[l] = R::step(sums[l], x[i + l]);
  }
  for (; i < n; ++i) {
    const std::int64_t l = i % lane_count;
    if (l < filled) {
      sums[l] = R::step(sums[l], x[i]);
    } else {
      sums[l] = first_step<R, A>(x[i]);
      filled = l + 1;
    }
  }
  for (std::int64_t width = lane_count / 2; width > 0; width /= 2)
    for (std::int64_t l = 0; l < width && l + width < filled; ++l)
      sums[l] = R::step(sums[l], sums[l + width]);
  return sums[0];
}

template <class R, class A, class X>
A fold_row(const X* x, std::int64_t n) {
  if (n <= leaf) return fold_leaf<R, A>(x, n);
  const std::int64_t half = (n / 2 + leaf - 1) / leaf * leaf;
  return R::step(fold_row<R, A>(x, half), fold_row<R, A>(x + half, n - half));
}

/// The same, the tree's branches shared among threads.
template <class R, class A, class X>
A fold_long_row(const X* x, std::int64_t n) {
  if (n < 2 * shared_elements) return fold_row<R, A>(x, n);
  constexpr int branches = 16;
  const X* starts[branches + 1] = {x, x + n};
  for (int count = 1; count < branches; count *= 2)
    for (int i = count; i > 0; --i) {
      const std::int64_t length = starts[i] - starts[i - 1];
      starts[2 * i] = starts[i];
      starts[2 * i - 1] = starts[i - 1] + (length / 2 + leaf - 1) / leaf * leaf;
    }
  A sums[branches];
  parallel_for(branches, [&](std::int64_t i) {
    sums[i] = fold_row<R, A>(starts[i], starts[i + 1] - starts[i]);
  });
  for (int count = branches / 2; count > 0; count /= 2)
    for (int i = 0; i < count; ++i) sums[i] = R::step(sums[2 * i], sums[2 * i + 1]);
  return sums[0];
}

/// to[j] joined with x[.][j] for j < width, over `rows` rows, `step` apart.
template <class R, int rows, class A, class X>
void join_rows(const X* x, std::int64_t step, std::int64_t width, A* to) {
  if constexpr (is_floating<A>) {
    for_chunks<A>(width, [&](std::int64_t j, Chunk<A> chunk) {
      Vector<A> sofar = chunk.get(to + j);
      for (int r = 0; r < rows; ++r) sofar = R::join(sofar, chunk.get(x + r * step + j));
      chunk.put(to + j, sofar);
    });
  } else {
    for (int r = 0; r < rows; ++r, x += step) {
      REEL_INDEPENDENT
      for (std::int64_t j = 0; j < width; ++j) to[j] = R::step(to[j], x[j]);
    }
  }
}

/// to[j] = fold of x[.][j], one row after the other.
template <class R, class A, class X>
void fold_block(const X* x, std::int64_t rows, std::int64_t step, std::int64_t width, A* to) {
  REEL_INDEPENDENT
  for (std::int64_t j = 0; j < width; ++j) to[j] = first_step<R, A>(x[j]);
  std::int64_t r = 1;
  for (; r + 4 <= rows; r += 4) join_rows<R, 4>(x + r * step, step, width, to);
  for (; r < rows; ++r) join_rows<R, 1>(x + r * step, step, width, to);
}

/// Sums that wait for their neighbours while columns of so many rows are folded.
inline std::int64_t fold_depth(std::int64_t rows) {
  if (rows <= fold_rows) return 0;
  return 65 - __builtin_clzll(static_cast<unsigned long long>((rows - 1) / fold_rows));
}

/// The fold of each of up to fold_width columns: blocks of rows, which are joined in pairs, pairs
/// of pairs and so on. `tree` has fold_depth(rows) rows, fold_width apart.
template <class R, class A, class X>
void fold_few_columns(const X* x, std::int64_t rows, std::int64_t inner, std::int64_t width, A* to,
                      A* tree) {
  if (rows <= fold_rows) return fold_block<R>(x, rows, inner, width, to);
  constexpr std::int64_t step = fold_width<A>;
  std::int64_t depth = 0;
  const auto join_pair = [&](std::int64_t last) {
    join_rows<R, 1>(tree + last * step, 0, width, tree + (last - 1) * step);
  };
  for (std::int64_t block = 0; block * fold_rows < rows; ++block) {
    const std::int64_t row = block * fold_rows;
    fold_block<R>(x + row * inner, rows - row < fold_rows ? rows - row : fold_rows, inner, width,
                  tree + depth++ * step);
    for (std::int64_t pairs = block; pairs & 1; pairs >>= 1) join_pair(--depth);
  }
  while (depth > 1) join_pair(--depth);
  __builtin_memcpy(to, tree, static_cast<std::size_t>(width) * sizeof(A));
}

/// Each column is folded alike however they are shared: a single thread takes them all at once.
template <class R, class A, class X>
void fold_columns(const X* x, std::int64_t rows, std::int64_t inner, A* to, A* tree) {
  constexpr std::int64_t most = fold_width<A>, least_grain = 256;
  const bool shared = rows * inner >= 2 * shared_elements && num_threads() > 1;
  for (std::int64_t first = 0; first < inner; first += most) {
    const std::int64_t width = inner - first < most ? inner - first : most;
    const std::int64_t quarter = (width + 255) / 256 * 64;
    const std::int64_t grain = quarter < least_grain ? least_grain : quarter;
    parallel_ranges(width, shared ? grain : width, [&](std::int64_t part, std::int64_t end) {
      fold_few_columns<R>(x + first + part, rows, inner, end - part, to + first + part,
                          tree + part);
    });
  }
}

/// [outer, gone, inner] to [outer, inner]. Columns of one after the other where they use `tree`.
template <class R, class A, class X>
void fold(const X* x, std::int64_t outer, std::int64_t gone, std::int64_t inner, A* to, A* tree) {
  if (gone == 0) {
    if constexpr (requires { R::none; })
      for (std::int64_t i = 0; i < outer * inner; ++i) to[i] = R::none;
    return;
  }
  const auto fold_some = [&](std::int64_t o, std::int64_t end) {
    for (; o < end; ++o) {
      if (inner == 1)
        to[o] = fold_long_row<R, A>(x + o * gone, gone);
      else
        fold_columns<R>(x + o * gone * inner, gone, inner, to + o * inner, tree);
    }
  };
  if (inner == 1 || fold_depth(gone) == 0)
    parallel_rows(outer, gone * inner, shared_elements, fold_some);
  else
    fold_some(0, outer);
}
}  // namespace reel::kernels::REEL_ISA
