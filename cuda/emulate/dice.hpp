// SPDX-License-Identifier: BSD-3-Clause
// The random orders of threads, blocks and streams.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace reel::emulate {
/// A random number below n, where n > 0.
std::size_t roll(std::size_t n);

template <class T>
void shuffle(std::vector<T>& items) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[roll(i)]);
}
}  // namespace reel::emulate
