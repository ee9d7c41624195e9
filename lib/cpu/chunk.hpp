// SPDX-License-Identifier: BSD-3-Clause
// Rows in vectors: whole ones, then what is left of the row.
#pragma once
#include <cstdint>

#include "lib/body/body.hpp"
#include "lib/cpu/lanes.hpp"
#include "lib/cpu/simd_math.hpp"

namespace reel::kernels::REEL_ISA {
/// As many neighbours as a vector holds, or fewer at the end of a row.
template <class T>
struct Chunk {
  std::int64_t n;
  bool whole() const { return n == lanes<T>; }
  /// Past the end of the row its elements come again.
  Vector<T> get(const T* from) const { return whole() ? load(from) : load_repeated(from, n); }
  /// Past the end of the row there are zeros: for sums.
  Vector<T> zero_padded(const T* from) const { return whole() ? load(from) : load_part(from, n); }
  void put(T* to, const Vector<T>& x) const {
    if (whole())
      store(to, x);
    else
      store_part(to, x, n);
  }
  /// To `to`, added where `add` says so; nothing if to is null.
  void give(T* to, const Vector<T>& x, bool add) const {
    if (to) put(to, add ? get(to) + x : x);
  }
  /// x with zeros past the end of the row.
  Vector<T> only(const Vector<T>& x) const {
    if (whole()) return x;
    alignas(64) T part[lanes<T>];
    x.store_aligned(part);
    return load_part(part, n);
  }
};

/// f(i, chunk) over a row of n elements.
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

/// f(i, chunk) over a row, joined into one vector (or Two): four chains side by side, in an order
/// that depends on n alone. Lanes past the end count too. Part of its caller, whose loop over rows
/// then keeps the numbers of f in registers.
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
constexpr std::int64_t leaf = 1024;  // elements below which sums are not halved

template <class T, class F>
[[gnu::always_inline]] inline auto leaf_sum(std::int64_t n, const F& f) {
  return row_fold<T>(n, f,
                     [](const auto& a, const auto& b) { return std::decay_t<decltype(a)>(a + b); });
}
/// The sum from element `first` on, by halves: errors grow with the logarithm of n.
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

/// The elements of a body, or null where there is none.
template <class T>
T* elements(const Body* body) {
  return body ? body->as<T>() : nullptr;
}
}  // namespace reel::kernels::REEL_ISA
