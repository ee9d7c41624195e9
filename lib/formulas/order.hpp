// SPDX-License-Identifier: BSD-3-Clause
// The order of elements: ascending, NaN last.
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
template <class T>
constexpr bool is_before(T a, T b) {
  return a < b || (b != b && a == a);
}
/// How many elements of a sorted line are before x, or with `right` not behind it.
template <class T>
constexpr std::int64_t place_in(const T* sorted, std::int64_t n, std::int64_t step, T x,
                                bool right) {
  std::int64_t low = 0;
  while (n > 0) {
    const std::int64_t half = n / 2;
    const T middle = sorted[(low + half) * step];
    const bool behind = right ? !is_before(x, middle) : is_before(middle, x);
    low = behind ? low + half + 1 : low;
    n = behind ? n - half - 1 : half;
  }
  return low;
}
}  // namespace reel::REEL_FORMULAS
