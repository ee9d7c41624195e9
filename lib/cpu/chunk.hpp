// SPDX-License-Identifier: BSD-3-Clause
// Divides rows into vectors: whole vectors, then the rest of the row.
#pragma once
#include <cstdint>

#include "lib/body/body.hpp"
#include "lib/cpu/lanes.hpp"
#include "lib/cpu/simd_math.hpp"

namespace reel::kernels::REEL_ISA {
inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t most(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

/// A number of vectors.
template <int>
struct Width {};

/// The elements of one vector, or fewer at the end of a row.
template <class T>
struct Chunk {
  std::int64_t n;
  bool whole() const { return n == lanes<T>; }
  /// Lanes behind the end of the row repeat elements of the row.
  Vector<T> get(const T* from) const { return whole() ? load(from) : load_repeated(from, n); }
  /// Lanes behind the end of the row are zero, as sums need it.
  Vector<T> zero_padded(const T* from) const { return whole() ? load(from) : load_part(from, n); }
  void put(T* to, const Vector<T>& x) const {
    if (whole())
      store(to, x);
    else
      store_part(to, x, n);
  }
  /// Writes to `to`, or adds to it if `add` is set. Nothing happens if `to` is null.
  void give(T* to, const Vector<T>& x, bool add) const {
    if (to) put(to, add ? get(to) + x : x);
  }
  /// x with zeros behind the end of the row.
  Vector<T> only(const Vector<T>& x) const {
    if (whole()) return x;
    alignas(64) T part[lanes<T>];
    x.store_aligned(part);
    return load_part(part, n);
  }
};

/// Calls f(i, chunk) for each chunk of a row of n elements.
template <class T, class F>
void for_chunks(std::int64_t n, const F& f) {
  std::int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) f(i, Chunk<T>{lanes<T>});
  if (i < n) f(i, Chunk<T>{n - i});
}

/// Two sums at once.
template <class T>
struct Two {
  Vector<T> first, second;
  Two operator+(const Two& x) const { return {first + x.first, second + x.second}; }
};

/// Joins f(i, chunk) of all chunks of a row into one vector (or Two). There are four independent
/// chains, and their order depends on n alone. Lanes behind the end count too. The function is
/// inlined, so that the caller's loop over rows keeps the constants of f in registers.
template <class T, class F, class Join>
[[gnu::always_inline]] inline auto row_fold(std::int64_t n, const F& f, const Join& join) {
  constexpr std::int64_t L = lanes<T>;
  const Chunk<T> whole{L};
  if (n < L) return f(0, Chunk<T>{n});
  auto total = f(0, whole);
  std::int64_t i = L;
  if (n >= 4 * L) {
    auto b = f(L, whole), c = f(2 * L, whole), d = f(3 * L, whole);
    for (i = 4 * L; i + 4 * L <= n; i += 4 * L) {
      total = join(total, f(i, whole));
      b = join(b, f(i + L, whole));
      c = join(c, f(i + 2 * L, whole));
      d = join(d, f(i + 3 * L, whole));
    }
    total = join(join(total, b), join(c, d));
  }
  for (; i + L <= n; i += L) total = join(total, f(i, whole));
  if (i < n) total = join(total, f(i, Chunk<T>{n - i}));
  return total;
}
constexpr std::int64_t leaf = 1024;  // sums of fewer elements are not divided into halves

template <class T, class F>
[[gnu::always_inline]] inline auto leaf_sum(std::int64_t n, const F& f) {
  return row_fold<T>(n, f,
                     [](const auto& a, const auto& b) { return std::decay_t<decltype(a)>(a + b); });
}
/// The sum of the elements from `first` on, divided into halves again and again. The error grows
/// with the logarithm of n.
template <class T, class F>
[[gnu::noinline]] auto sum_of_halves(std::int64_t first, std::int64_t n, const F& f)
    -> std::decay_t<decltype(f(n, Chunk<T>{n}))> {
  if (n <= leaf)
    return leaf_sum<T>(n, [&](std::int64_t i, Chunk<T> chunk) { return f(first + i, chunk); });
  const std::int64_t half = (n / 2 + leaf - 1) / leaf * leaf;
  const auto sum = sum_of_halves<T>(first, half, f);
  return sum + sum_of_halves<T>(first + half, n - half, f);
}
template <class T, class F>
[[gnu::always_inline]] inline auto row_sum(std::int64_t n, const F& f) {
  return n <= leaf ? leaf_sum<T>(n, f) : sum_of_halves<T>(0, n, f);
}

template <class T>
using Maths = formulas::math::Functions<Vector<T>>;

/// The elements of a body; null if there is no body.
template <class T>
T* elements(const Body* body) {
  return body ? body->as<T>() : nullptr;
}
}  // namespace reel::kernels::REEL_ISA
