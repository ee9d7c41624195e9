// SPDX-License-Identifier: BSD-3-Clause
// Operations on the bytes of memory, in blocks that threads share.
#pragma once
#include <cstddef>
#include <cstdint>

#include "lib/pool/pool.hpp"

namespace reel::kernels::REEL_ISA {
inline constexpr std::int64_t shared_bytes = 1 << 20;

inline void copy_bytes(const std::byte* from, std::byte* to, std::int64_t count) {
  parallel_ranges(count, shared_bytes, [=](std::int64_t first, std::int64_t end) {
    __builtin_memcpy(to + first, from + first, static_cast<std::size_t>(end - first));
  });
}
inline void clear_bytes(std::byte* to, std::int64_t count) {
  parallel_ranges(count, shared_bytes, [=](std::int64_t first, std::int64_t end) {
    __builtin_memset(to + first, 0, static_cast<std::size_t>(end - first));
  });
}
}  // namespace reel::kernels::REEL_ISA
