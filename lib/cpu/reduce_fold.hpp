// SPDX-License-Identifier: BSD-3-Clause
// How reductions join elements, along rows and along columns. The order depends on lengths alone.
#pragma once

#include "lib/cpu/chunk.hpp"
#include "lib/cpu/half.hpp"
#include "lib/cpu/walk.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/thread_count.hpp"

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
template <class A>
struct Product {
  static constexpr A none = 1;
  template <class X>
  static A step(A product, X x) {
    if constexpr (static_cast<A>(0.5) != 0)
      return product * static_cast<A>(x);
    else
      return static_cast<A>(static_cast<std::uint64_t>(product) * static_cast<std::uint64_t>(x));
  }
  static Vector<A> join(const Vector<A>& product, const Vector<A>& x) { return product * x; }
};
/// The sum of squares. Its partial results are added.
template <class A>
struct SumOfSquares {
  using Parts = Sum<A>;
  static constexpr A none = 0;
  template <class X>
  static A step(A sum, X x) {
    return sum + static_cast<A>(x) * static_cast<A>(x);
  }
};
/// Of two equal elements the first; NaN wins.
template <class A>
struct Largest {
  static bool better(A x, A best) { return x > best; }
  static A step(A best, A x) { return ((x > best) | (x != x)) ? x : best; }
  static Vector<A> join(const Vector<A>& best, const Vector<A>& x) {
    return xsimd::select(xsimd::isnan(x), x, larger_or_second(x, best));
  }
};
template <class A>
struct Smallest {
  static bool better(A x, A best) { return x < best; }
  static A step(A best, A x) { return ((x < best) | (x != x)) ? x : best; }
  static Vector<A> join(const Vector<A>& best, const Vector<A>& x) {
    return xsimd::select(xsimd::isnan(x), x, smaller_or_second(x, best));
  }
};
/// Truth values are bytes: the compiler makes no vectors of bool.
template <bool Every>
struct Truth {
  static constexpr std::uint8_t none = Every;
  template <class X>
  static std::uint8_t step(std::uint8_t sofar, X x) {
    const std::uint8_t yes = x != X(0);
    return Every ? sofar & yes : sofar | yes;
  }
};

template <class A>
inline constexpr bool is_floating = static_cast<A>(0.5) != 0 && !std::is_same_v<A, bool>;
/// Whether elements are joined as vectors. The compiler makes vectors of the other loops.
template <class R, class A>
inline constexpr bool in_vectors = is_floating<A>&& requires(Vector<A> x) {
  R::join(x, x);
};
/// The reduction that joins partial results of R.
template <class R>
struct PartsOf {
  using type = R;
};
template <class R>
requires requires { typename R::Parts; }
struct PartsOf<R> {
  using type = typename R::Parts;
};
template <class R>
using Parts = typename PartsOf<R>::type;

constexpr std::int64_t fold_rows = 64;             // rows that are added one after the other
constexpr std::int64_t shared_elements = 1 << 16;  // fewer elements are not shared among threads
constexpr std::int64_t fold_bytes = 16384;         // of sums of columns, which stay in a cache
template <class A>
inline constexpr std::int64_t fold_width = fold_bytes / sizeof(A);

/// The first value of a column's fold.
template <class R, class A, class X>
A first_step(X x) {
  if constexpr (requires { R::none; })
    return R::step(R::none, x);
  else
    return static_cast<A>(x);
}

/// A vector of a row. Its lanes behind the end of the row change no fold.
template <class R, class A>
Vector<A> padded(const A* x, Chunk<A> chunk) {
  if constexpr (!requires { R::none; }) {
    return chunk.get(x);
  } else if constexpr (R::none == A(0)) {
    return chunk.zero_padded(x);
  } else {
    if (chunk.whole()) return load(x);
    alignas(64) A row[lanes<A>];
    for (std::int64_t i = 0; i < lanes<A>; ++i) row[i] = i < chunk.n ? x[i] : R::none;
    return load(row);
  }
}

template <class R>
inline constexpr bool is_truth = false;
template <bool Every>
inline constexpr bool is_truth<Truth<Every>> = true;
/// What elements are converted to before they are folded: float32 for those of 16 bits, and bytes
/// for truth values of wider elements, so that `any` and `all` share the code.
template <class R, class X>
using Prepared =
    std::conditional_t<is_short_float<X>, float,
                       std::conditional_t<is_truth<R> && sizeof(X) != 1, std::uint8_t, X>>;
template <class X>
[[gnu::noinline]] void prepare(const X* x, std::int64_t n, std::uint8_t* to) {
  REEL_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) to[i] = x[i] != X(0);
}
template <class X>
void prepare(const X* x, std::int64_t n, float* to) {
  widen(reinterpret_cast<const std::uint16_t*>(x), to, n, pass_of_half<X>);
}

/// A row of up to `leaf` elements. Floating elements are folded in independent lanes, which are
/// joined by halves. The compiler chooses the order of other elements, which changes no result.
template <class R, class A, class X>
[[gnu::noinline]] A fold_leaf(const X* x, std::int64_t n) {
  if constexpr (!std::is_same_v<Prepared<R, X>, X>) {
    alignas(64) Prepared<R, X> row[leaf];
    prepare(x, n, row);
    return fold_leaf<R, A>(row, n);
  } else if constexpr (in_vectors<R, A>) {
    const auto vector = [&](std::int64_t i, Chunk<A> chunk) { return padded<R>(x + i, chunk); };
    return fold_lanes<A>(row_fold<A>(n, vector, R::join), R::join);
  } else if constexpr (is_floating<A>) {
    constexpr std::int64_t lane_count = 8;
    A sums[lane_count] = {};
    std::int64_t i = 0;
    for (; i + lane_count <= n; i += lane_count)
      for (std::int64_t l = 0; l < lane_count; ++l) sums[l] = R::step(sums[l], x[i + l]);
    for (; i < n; ++i) sums[i % lane_count] = R::step(sums[i % lane_count], x[i]);
    for (std::int64_t width = lane_count / 2; width > 0; width /= 2)
      for (std::int64_t l = 0; l < width; ++l) sums[l] = Parts<R>::step(sums[l], sums[l + width]);
    return sums[0];
  } else if constexpr (std::is_same_v<R, Sum<std::int64_t>> && sizeof(X) == 1) {
    return fold_leaf<Sum<std::uint32_t>, std::uint32_t>(x, n);  // a sum of bytes fits
  } else {
    A sofar = first_step<R, A>(x[0]);
    for (std::int64_t i = 1; i < n; ++i) sofar = R::step(sofar, x[i]);
    return sofar;
  }
}

template <class R, class A, class X>
A fold_row(const X* x, std::int64_t n) {
  if (n <= leaf) return fold_leaf<R, A>(x, n);
  const std::int64_t half = (n / 2 + leaf - 1) / leaf * leaf;
  const A first = fold_row<R, A>(x, half);  // before the rest: memory is read forwards
  return Parts<R>::step(first, fold_row<R, A>(x + half, n - half));
}

/// Joins to[j] with x[.][j] for j < width, over `rows` rows, which are `step` apart.
template <class R, int rows, class A, class X>
[[gnu::noinline]] void join_rows(const X* x, std::int64_t step, std::int64_t width, A* to) {
  if constexpr (in_vectors<R, A>) {
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
[[gnu::noinline]] void fold_block(const X* x, std::int64_t rows, std::int64_t step,
                                  std::int64_t width, A* to) {
  if constexpr (!std::is_same_v<Prepared<R, X>, X>) {
    constexpr std::int64_t piece = 256, at_once = 8;
    alignas(64) Prepared<R, X> block[at_once * piece];
    for (std::int64_t j = 0; j < width; j += piece) {
      const std::int64_t n = width - j < piece ? width - j : piece;
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t here = r % at_once;
        prepare(x + r * step + j, n, block + here * n);
        const std::int64_t first = r - here, count = here + 1;
        if (count < at_once && r + 1 < rows) continue;
        if (first == 0)
          fold_block<R>(block, count, n, n, to + j);
        else
          for (std::int64_t k = 0; k < count; ++k) join_rows<R, 1>(block + k * n, n, n, to + j);
      }
    }
  } else {
    REEL_INDEPENDENT
    for (std::int64_t j = 0; j < width; ++j) to[j] = first_step<R, A>(x[j]);
    std::int64_t r = 1;
    for (; r + 4 <= rows; r += 4) join_rows<R, 4>(x + r * step, step, width, to);
    for (; r < rows; ++r) join_rows<R, 1>(x + r * step, step, width, to);
  }
}

/// The most sums that wait for their partner while columns with this number of rows are folded.
inline std::int64_t fold_depth(std::int64_t rows) {
  if (rows <= fold_rows) return 0;
  return 65 - __builtin_clzll(static_cast<unsigned long long>((rows - 1) / fold_rows));
}

/// Folds each of up to fold_width columns. Blocks of rows are joined in pairs, then pairs of pairs,
/// and so on. `tree` has fold_depth(rows) rows, fold_width apart.
template <class R, class A, class X>
void fold_few_columns(const X* x, std::int64_t rows, std::int64_t inner, std::int64_t width, A* to,
                      A* tree) {
  if (rows <= fold_rows) return fold_block<R>(x, rows, inner, width, to);
  constexpr std::int64_t step = fold_width<A>;
  std::int64_t depth = 0;
  const auto join_pair = [&](std::int64_t last) {
    join_rows<Parts<R>, 1>(tree + last * step, 0, width, tree + (last - 1) * step);
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

/// What a reduction does to elements of any type; `tree` as above.
struct Fold {
  int from_size, to_size;
  void (*row)(const void* x, std::int64_t n, void* to);
  void (*columns)(const void* x, std::int64_t rows, std::int64_t inner, std::int64_t width,
                  void* to, void* tree);
  /// to[i] starts from x[i]. x is null if there are no elements.
  void (*start)(const void* x, std::int64_t n, void* to);
  void (*join)(const void* x, std::int64_t n, void* to);
};
template <class R, class A, class X>
struct FoldOf {
  static void row(const void* x, std::int64_t n, void* to) {
    *static_cast<A*>(to) = fold_row<R, A>(static_cast<const X*>(x), n);
  }
  static void columns(const void* x, std::int64_t rows, std::int64_t inner, std::int64_t width,
                      void* to, void* tree) {
    fold_few_columns<R>(static_cast<const X*>(x), rows, inner, width, static_cast<A*>(to),
                        static_cast<A*>(tree));
  }
  static void start(const void* x, std::int64_t n, void* to) {
    const X* const from = static_cast<const X*>(x);
    A* const out = static_cast<A*>(to);
    if constexpr (requires { R::none; })
      if (!from) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = R::none;
        return;
      }
    fold_block<R>(from, 1, n, n, out);
  }
  static void join(const void* x, std::int64_t n, void* to) {
    join_rows<Parts<R>, 1>(static_cast<const A*>(x), 0, n, static_cast<A*>(to));
  }
};
template <class R, class A, class X>
inline constexpr Fold fold_of = {sizeof(X),
                                 sizeof(A),
                                 FoldOf<R, A, X>::row,
                                 FoldOf<R, A, X>::columns,
                                 FoldOf<R, A, X>::start,
                                 FoldOf<R, A, A>::join};

/// Folds a row whose branches threads share.
[[gnu::noinline]] inline void fold_shared_row(const Fold& fold, const std::byte* x, std::int64_t n,
                                              std::byte* to) {
  constexpr int branches = 16;
  std::int64_t starts[branches + 1] = {0, n};
  for (int count = 1; count < branches; count *= 2)
    for (int i = count; i > 0; --i) {
      const std::int64_t length = starts[i] - starts[i - 1];
      starts[2 * i] = starts[i];
      starts[2 * i - 1] = starts[i - 1] + (length / 2 + leaf - 1) / leaf * leaf;
    }
  alignas(64) std::byte sums[branches * sizeof(std::int64_t)];
  parallel_for(branches, [&](std::int64_t i) {
    fold.row(x + starts[i] * fold.from_size, starts[i + 1] - starts[i], sums + i * fold.to_size);
  });
  for (int step = 1; step < branches; step *= 2)
    for (int i = 0; i < branches; i += 2 * step)
      fold.join(sums + (i + step) * fold.to_size, 1, sums + i * fold.to_size);
  __builtin_memcpy(to, sums, static_cast<std::size_t>(fold.to_size));
}

/// Folds a row. Threads share the branches of its tree.
inline void fold_long_row(const Fold& fold, const std::byte* x, std::int64_t n, std::byte* to) {
  n < 2 * shared_elements ? fold.row(x, n, to) : fold_shared_row(fold, x, n, to);
}

/// Whether the columns have so many rows that threads share the branches of their tree.
inline bool folds_branches(std::int64_t rows, std::int64_t inner) {
  return inner > 1 && rows >= 8 * fold_rows && rows * inner >= 8 * shared_elements;
}
/// The rows of a branch. Each branch except the last is a complete tree of blocks. There are at
/// most 16.
constexpr std::int64_t most_branches = 16;
inline std::int64_t branch_rows(std::int64_t rows) {
  std::int64_t branch = fold_rows;
  while (branch * most_branches < rows) branch *= 2;
  return branch;
}
/// The memory for folding columns, in rows of fold_bytes: the waiting sums of each branch.
inline std::int64_t fold_memory(std::int64_t rows, std::int64_t inner) {
  if (!folds_branches(rows, inner)) return fold_depth(rows);
  return most_branches * (1 + fold_depth(branch_rows(rows)));
}

/// Folds columns of up to fold_bytes. Threads share the branches of their tree.
inline void fold_tall_columns(const Fold& fold, const std::byte* x, std::int64_t rows,
                              std::int64_t inner, std::int64_t width, std::byte* to,
                              std::byte* tree) {
  const std::int64_t branch = branch_rows(rows), count = (rows + branch - 1) / branch;
  const std::int64_t size_needed = (1 + fold_depth(branch)) * fold_bytes;
  parallel_for(count, [&](std::int64_t i) {
    const std::int64_t left = rows - i * branch;
    std::byte* const sums = tree + i * size_needed;
    fold.columns(x + i * branch * inner * fold.from_size, left < branch ? left : branch, inner,
                 width, sums, sums + fold_bytes);
  });
  std::byte* waiting[most_branches];
  std::int64_t depth = 0;
  const auto join_pair = [&] {
    --depth;
    fold.join(waiting[depth], width, waiting[depth - 1]);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    waiting[depth++] = tree + i * size_needed;
    for (std::int64_t pairs = i; pairs & 1; pairs >>= 1) join_pair();
  }
  while (depth > 1) join_pair();
  __builtin_memcpy(to, waiting[0], static_cast<std::size_t>(width * fold.to_size));
}

/// Each column is folded in the same way however columns are shared. A single thread folds all
/// columns at once.
[[gnu::noinline]] inline void fold_columns(const Fold& fold, const std::byte* x, std::int64_t rows,
                                           std::int64_t inner, std::byte* to, std::byte* tree) {
  const std::int64_t most = fold_bytes / fold.to_size, least_grain = 256;
  const bool shared = rows * inner >= 8 * shared_elements && thread_count() > 1;  // short rows each
  for (std::int64_t first = 0; first < inner; first += most) {
    const std::int64_t width = inner - first < most ? inner - first : most;
    const std::byte* const from = x + first * fold.from_size;
    std::byte* const target = to + first * fold.to_size;
    if (shared && folds_branches(rows, inner)) {
      fold_tall_columns(fold, from, rows, inner, width, target, tree);
      continue;
    }
    const std::int64_t quarter = (width + 255) / 256 * 64;
    const std::int64_t grain = quarter < least_grain ? least_grain : quarter;
    parallel_ranges(width, shared ? grain : width, [&](std::int64_t part, std::int64_t end) {
      fold.columns(from + part * fold.from_size, rows, inner, end - part,
                   target + part * fold.to_size, tree + part * fold.to_size);
    });
  }
}

/// Many short rows are transposed, a tile at a time, and folded as columns. Folding each row by
/// itself would take a call for each row.
constexpr std::int64_t tile_rows = 128, most_in_tile_row = 16;
inline bool in_tiles(std::int64_t rows, std::int64_t n, std::int64_t inner = 1) {
  return inner == 1 && rows >= tile_rows / 2 && n > 1 && n <= most_in_tile_row;
}
/// Calls f(columns, first row, rows) for each tile of [rows, n] elements of `size` bytes.
template <class F>
void for_tiles(const std::byte* x, std::int64_t rows, std::int64_t n, int size, const F& f) {
  alignas(64) std::byte columns[tile_rows * most_in_tile_row * sizeof(double)];
  for (std::int64_t first = 0; first < rows; first += tile_rows) {
    const std::int64_t here = rows - first < tile_rows ? rows - first : tile_rows;
    CopyLoop walk;
    walk.add_axis(n, 1, here);
    walk.add_axis(here, n, 1);
    copy_elements(walk, here * n, x + first * n * size, columns, size);
    f(columns, first, here);
  }
}

/// [outer, gone, inner] to [outer, inner]. If columns use `tree`, one `outer` follows the other.
/// Rows are folded in tiles or not: that decides the order of their elements.
[[gnu::noinline]] inline void fold_all(const Fold& fold, const std::byte* x, std::int64_t outer,
                                       std::int64_t gone, std::int64_t inner, bool tiles,
                                       std::byte* to, std::byte* tree) {
  if (gone == 0) return fold.start(nullptr, outer * inner, to);
  const std::int64_t from_step = gone * inner * fold.from_size, to_step = inner * fold.to_size;
  const auto fold_some = [&](std::int64_t o, std::int64_t end) {
    if (tiles)
      return for_tiles(x + o * from_step, end - o, gone, fold.from_size,
                       [&](const std::byte* columns, std::int64_t first, std::int64_t rows) {
                         fold.columns(columns, gone, rows, rows, to + (o + first) * to_step,
                                      nullptr);
                       });
    for (; o < end; ++o) {
      if (inner == 1)
        fold_long_row(fold, x + o * from_step, gone, to + o * to_step);
      else
        fold_columns(fold, x + o * from_step, gone, inner, to + o * to_step, tree);
    }
  };
  if (inner == 1 || fold_depth(gone) == 0)
    parallel_rows(outer, gone * inner, shared_elements, fold_some);
  else
    fold_some(0, outer);
}
}  // namespace reel::kernels::REEL_ISA
