// SPDX-License-Identifier: BSD-3-Clause
// From which end memory is read that is met again and again.
#pragma once
#include <cstdint>

namespace reel::kernels::REEL_ISA {
/// Whether what lies at this place is to be read from its end: mostly not if it was the last time
/// (a few places have one memory in common). Of what a cache just does not hold it finds a part
/// then, where reading from one end alone finds nothing.
inline bool from_its_end(const void* place) {
  static thread_local bool backward[16];
  const auto at = reinterpret_cast<std::uintptr_t>(place);
  bool& was = backward[(at >> 6 ^ at >> 12 ^ at >> 18) % 16];
  return was = !was;
}
}  // namespace reel::kernels::REEL_ISA
