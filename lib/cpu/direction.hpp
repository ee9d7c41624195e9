// SPDX-License-Identifier: BSD-3-Clause
// Chooses the end from which memory is read, if it is read many times.
#pragma once
#include <cstdint>

namespace reel::kernels::REEL_ISA {
/// Whether the memory at this address is read from its end this time. The answer mostly alternates;
/// a few addresses share one bit. If memory is slightly larger than a cache, an alternating
/// direction finds a part of it in the cache. A fixed direction finds nothing.
inline bool from_its_end(const void* place) {
  static thread_local bool backward[16];
  const auto at = reinterpret_cast<std::uintptr_t>(place);
  bool& was = backward[(at >> 6 ^ at >> 12 ^ at >> 18) % 16];
  return was = !was;
}
}  // namespace reel::kernels::REEL_ISA
