// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cuda/queue.hpp"

namespace reel::gpu {
/// The row of element i, for rows of n elements, and its column.
struct InRow {
  std::int64_t row, k;
  __device__ InRow(std::int64_t i, std::int64_t n) {
    constexpr std::int64_t narrow = std::int64_t{1} << 32;  // 32-bit division is much faster
    row = i < narrow && n < narrow ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(n)
                                   : i / n;
    k = i - row * n;
  }
};

/// The data of a body; null for a null body.
template <class T>
T* elements(const Body* body) {
  return body ? body->as<T>() : nullptr;
}

/// *to = x, or *to = *to + x.
template <class T>
__device__ void give(T* to, T x, bool adds) {
  *to = adds ? *to + x : x;
}
}  // namespace reel::gpu
