// SPDX-License-Identifier: BSD-3-Clause
// How reductions join elements: along rows and down columns, in an order that depends on lengths
// alone.
#pragma once
#include "lib/cpu/chunk.hpp"

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

constexpr std::int64_t lane_count = 32;  // sums that run side by side
constexpr std::int64_t leaf = 1024;      // elements below which sums are not halved
constexpr std::int64_t fold_rows = 64;   // rows that are added one after the other
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

/// The fold of each column: blocks of rows, which are joined in pairs, pairs of pairs and so on.
/// `tree` has room for fold_depth(rows) times fold_width elements.
template <class R, class A, class X>
void fold_columns(const X* x, std::int64_t rows, std::int64_t inner, A* to, A* tree) {
  constexpr std::int64_t most = fold_width<A>;
  for (std::int64_t first = 0; first < inner; first += most, x += most, to += most) {
    const std::int64_t width = inner - first < most ? inner - first : most;
    if (rows <= fold_rows) {
      fold_block<R>(x, rows, inner, width, to);
      continue;
    }
    std::int64_t depth = 0;
    const auto join_last = [&] {
      --depth;
      join_rows<R, 1>(tree + depth * most, 0, width, tree + (depth - 1) * most);
    };
    for (std::int64_t block = 0; block * fold_rows < rows; ++block) {
      const std::int64_t row = block * fold_rows;
      fold_block<R>(x + row * inner, rows - row < fold_rows ? rows - row : fold_rows, inner, width,
                    tree + depth++ * most);
      for (std::int64_t pairs = block; pairs & 1; pairs >>= 1) join_last();
    }
    while (depth > 1) join_last();
    __builtin_memcpy(to, tree, static_cast<std::size_t>(width) * sizeof(A));
  }
}

/// [outer, gone, inner] to [outer, inner].
template <class R, class A, class X>
void fold(const X* x, std::int64_t outer, std::int64_t gone, std::int64_t inner, A* to, A* tree) {
  if (gone == 0) {
    if constexpr (requires { R::none; })
      for (std::int64_t i = 0; i < outer * inner; ++i) to[i] = R::none;
    return;
  }
  for (std::int64_t o = 0; o < outer; ++o, x += gone * inner, to += inner) {
    if (inner == 1)
      *to = fold_row<R, A>(x, gone);
    else
      fold_columns<R>(x, gone, inner, to, tree);
  }
}
}  // namespace reel::kernels::REEL_ISA
