// SPDX-License-Identifier: BSD-3-Clause
// Philox in vectors.
#pragma once
#include "lib/cpu/simd.hpp"
#include "lib/formulas/philox.hpp"

namespace reel::kernels::REEL_ISA {
using PhiloxLanes = Vector<std::uint64_t>;
/// The products of the lower halves of lanes.
inline PhiloxLanes multiply_halves(const PhiloxLanes& x, const PhiloxLanes& y) {
#if defined(__AVX512F__)
  return _mm512_mul_epu32(x, y);
#elif defined(__AVX2__)
  return _mm256_mul_epu32(x, y);
#elif defined(__SSE2__)
  return _mm_mul_epu32(x, y);
#else
  const PhiloxLanes low(0xffffffff);
  return (x & low) * (y & low);
#endif
}

/// Philox over lanes of 64 bits, whose upper halves are not used. The counter of a lane is its
/// element of `counters`, the low word first, then `upper`. Of each block of four words, `first`
/// gets the first two, and `second` the others.
inline void draw_lanes(std::uint64_t seed, const std::uint64_t* counters, std::uint64_t upper,
                       std::uint64_t* first, std::uint64_t* second) {
  using Lanes = PhiloxLanes;
  const Lanes m0(formulas::philox_multipliers[0]), m1(formulas::philox_multipliers[1]),
      low(0xffffffff);
  const Lanes counter = load(counters);
  Lanes a = counter, b = counter >> 32, c(upper & 0xffffffff), d(upper >> 32);
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Lanes x = multiply_halves(m0, a), y = multiply_halves(m1, c);
    a = (y >> 32) ^ b ^ Lanes(key0);
    b = y;
    c = (x >> 32) ^ d ^ Lanes(key1);
    d = x;
    key0 += formulas::philox_weyl[0];
    key1 += formulas::philox_weyl[1];
  }
  store(first, (a & low) | (b << 32));
  store(second, (c & low) | (d << 32));
}
}  // namespace reel::kernels::REEL_ISA
