// SPDX-License-Identifier: BSD-3-Clause
// Live numbers: tensors of rank 0 that take part in promotion as C++ numbers do. A bit beside the
// kind of device marks live numbers.
#pragma once
#include "lib/body/body.hpp"

namespace reel {
inline constexpr std::uint8_t live_number = 0x80;  // of Body::device_kind

inline bool is_live(const Body& x) { return x.device_kind & live_number; }
inline Device device_of(const Body& x) {
  return {static_cast<Device::Kind>(x.device_kind & ~live_number), x.device_index};
}
inline bool on_cpu(const Body& x) { return !(x.device_kind & ~live_number); }
/// Whether fast paths take the body: it is row-major, in the host's memory, and not a live number.
inline bool is_plain(const Body& x) {
  static_assert(offsetof(Body, device_kind) == offsetof(Body, contiguous) + 1);
  std::uint16_t both;
  __builtin_memcpy(&both, &x.contiguous, sizeof both);
  return both == 1;
}
}  // namespace reel
