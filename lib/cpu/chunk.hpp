// SPDX-License-Identifier: BSD-3-Clause
// Rows in vectors: whole ones, then what is left of the row.
#pragma once
#include <cstdint>

#include "lib/cpu/lanes.hpp"
#include "lib/cpu/simd_math.hpp"
#include "lib/tensor/body.hpp"

namespace reel::kernels::REEL_ISA {
/// As many neighbours as a vector holds, or fewer at the end of a row.
template <class T>
struct Chunk {
  std::int64_t n;
  bool whole() const { return n == lanes<T>; }
  Vector<T> get(const T* from) const { return whole() ? load(from) : load_part(from, n); }
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
};

/// f(i, chunk) over a row of n elements.
template <class T, class F>
void for_chunks(std::int64_t n, const F& f) {
  std::int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) f(i, Chunk<T>{lanes<T>});
  if (i < n) f(i, Chunk<T>{n - i});
}

template <class T>
using Maths = formulas::math::Functions<Vector<T>>;

/// The elements of a body, or null where there is none.
template <class T>
T* elements(const Body* body) {
  return body ? body->as<T>() : nullptr;
}
}  // namespace reel::kernels::REEL_ISA
