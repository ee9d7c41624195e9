// SPDX-License-Identifier: BSD-3-Clause
// Hashes that are the same on all machines and in all versions, because files keep them.
#pragma once
#include <cstdint>
#include <string_view>

namespace reel {
/// FNV-1a of 64 bits, of bytes one after the other. A step may also add a number above 255, which
/// no byte is.
inline constexpr std::uint64_t fnv1a_start = 14695981039346656037u;
constexpr std::uint64_t fnv1a_step(std::uint64_t hash, unsigned next) {
  return (hash ^ next) * 1099511628211u;
}
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = fnv1a_start) {
  for (const char byte : bytes) hash = fnv1a_step(hash, static_cast<unsigned char>(byte));
  return hash;
}
/// A number of which each bit depends on each bit of x. Different x give different numbers.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x ^= x >> 31;
  x *= 0x7fb5d329728ea185u;
  x ^= x >> 27;
  x *= 0x81dadef4bc2dd44du;
  return x ^ x >> 33;
}
}  // namespace reel
