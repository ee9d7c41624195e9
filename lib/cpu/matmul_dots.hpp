// SPDX-License-Identifier: BSD-3-Clause
// Products whose y has its columns one after the other, and x few rows: each element of c is a sum
// along two rows of memory, in a fixed order.
#pragma once
#include "lib/cpu/chunk.hpp"

namespace reel::kernels::REEL_ISA {
inline constexpr int dot_columns = 4;

/// c[j] (+)= x . y[j] for Columns rows y[j], `step` apart. The sum's order depends on n alone.
template <int Columns, class T>
void dots(const T* x, const T* y, std::int64_t step, std::int64_t n, T* c, bool accumulate) {
  constexpr std::int64_t L = lanes<T>;
  Vector<T> even[Columns], odd[Columns];
  for (int j = 0; j < Columns; ++j) even[j] = odd[j] = Vector<T>(T(0));
  std::int64_t i = 0;
  for (; i + 2 * L <= n; i += 2 * L) {
    const Vector<T> a = load(x + i), b = load(x + i + L);
    for (int j = 0; j < Columns; ++j) {
      even[j] = xsimd::fma(a, load(y + j * step + i), even[j]);
      odd[j] = xsimd::fma(b, load(y + j * step + i + L), odd[j]);
    }
  }
  if (i + L <= n) {
    for (int j = 0; j < Columns; ++j)
      even[j] = xsimd::fma(load(x + i), load(y + j * step + i), even[j]);
    i += L;
  }
  if (i < n)
    for (int j = 0; j < Columns; ++j)
      odd[j] = xsimd::fma(load_part(x + i, n - i), load_part(y + j * step + i, n - i), odd[j]);
  for (int j = 0; j < Columns; ++j) {
    const T sum = lane_sum(even[j] + odd[j]);
    c[j] = accumulate ? c[j] + sum : sum;
  }
}

/// A row of c from a row of x with neighbouring elements.
template <class T>
void dot_row(const T* x, const T* y, std::int64_t step, std::int64_t n, std::int64_t m, T* c,
             bool accumulate) {
  std::int64_t j = 0;
  for (; j + dot_columns <= m; j += dot_columns)
    dots<dot_columns>(x, y + j * step, step, n, c + j, accumulate);
  for (; j < m; ++j) dots<1>(x, y + j * step, step, n, c + j, accumulate);
}
}  // namespace reel::kernels::REEL_ISA
