// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <cstdint>

namespace reel {
/// What C++ asks of a tensor's elements.
enum class HostRead : std::uint8_t { truth, values };
}  // namespace reel
