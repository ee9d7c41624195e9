// SPDX-License-Identifier: BSD-3-Clause
// Passes over the rows of a tensor, shared among threads where they are many.
#pragma once
#include <algorithm>

#include "lib/cpu/pool.hpp"

namespace reel {
inline constexpr std::int64_t shared_elements = 1 << 18, elements_in_block = 1 << 16;

/// f(first, end) over the elements / n rows; one long row is for its pass to share.
template <class F>
void parallel_rows(std::int64_t elements, std::int64_t n, const F& f) {
  if (elements < shared_elements || n >= shared_elements) return f(std::int64_t{0}, elements / n);
  kernels::parallel_ranges(elements / n, std::max<std::int64_t>(1, elements_in_block / n), f);
}
}  // namespace reel
