// SPDX-License-Identifier: BSD-3-Clause
// The part of an interval in which a number lies.
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
/// `bins` equal parts of [low, high]. A part has its lower edge; the last one has the upper edge
/// too.
struct Bins {
  std::int64_t bins;
  double low, high, step, inverse;
  Bins(std::int64_t count, double least, double most)
      : bins(count),
        low(least),
        high(most),
        step((most - least) / static_cast<double>(count)),
        inverse(static_cast<double>(count) / (most - least)) {}
  constexpr double edge(std::int64_t k) const { return low + static_cast<double>(k) * step; }
  /// -1 outside. A quotient is rounded, so that the edges decide.
  constexpr std::int64_t of(double x) const {
    if (!(x >= low && x <= high)) return -1;
    const double guess = (x - low) * inverse;
    std::int64_t k =
        guess < static_cast<double>(bins) ? static_cast<std::int64_t>(guess) : bins - 1;
    while (k > 0 && x < edge(k)) --k;
    while (k + 1 < bins && x >= edge(k + 1)) ++k;
    return k;
  }
};
}  // namespace reel::REEL_FORMULAS
