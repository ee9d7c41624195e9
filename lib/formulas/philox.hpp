// SPDX-License-Identifier: BSD-3-Clause
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011): four random words from a counter and a key.
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
inline constexpr std::uint32_t philox_multipliers[] = {0xD2511F53, 0xCD9E8D57};
inline constexpr std::uint32_t philox_weyl[] = {0x9E3779B9, 0xBB67AE85};

/// Replaces the counter by its random words.
constexpr void philox(std::uint32_t (&words)[4], std::uint32_t key0, std::uint32_t key1) {
  // Constants of its own: code for GPUs cannot read an array of the host.
  constexpr std::uint64_t multiplier0 = philox_multipliers[0], multiplier1 = philox_multipliers[1];
  constexpr std::uint32_t weyl0 = philox_weyl[0], weyl1 = philox_weyl[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = multiplier0 * words[0], b = multiplier1 * words[2];
    words[0] = static_cast<std::uint32_t>(b >> 32) ^ words[1] ^ key0;
    words[1] = static_cast<std::uint32_t>(b);
    words[2] = static_cast<std::uint32_t>(a >> 32) ^ words[3] ^ key1;
    words[3] = static_cast<std::uint32_t>(a);
    key0 += weyl0;
    key1 += weyl1;
  }
}
}  // namespace reel::REEL_FORMULAS
