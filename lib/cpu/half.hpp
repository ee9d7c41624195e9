// SPDX-License-Identifier: BSD-3-Clause
// Rows of float16 and bfloat16 to float32 and back, in loops that become vectors. The loops give
// the bits of Float16 and BFloat16; a signalling NaN becomes a quiet one.
#pragma once
#include <cstdint>

#include "lib/cpu/simd.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
/// The bit of a pass whose elements are of this type.
template <class T>
constexpr unsigned pass_of_half = std::is_same_v<T, Float16> ? pass_float16 : pass_bfloat16;

namespace half {
inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline float from_bfloat16(std::uint16_t x) {
  return float_of(static_cast<std::uint32_t>(x) << 16);
}
inline std::uint16_t to_bfloat16(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const std::uint32_t quiet = bits >> 16 | 0x40;
  return static_cast<std::uint16_t>(x != x ? quiet : rounded);
}

// float16 has 5 bits of exponent and 10 of fraction, float32 8 and 23.
inline float from_float16(std::uint16_t x) {
  const std::uint32_t size = (x & 0x7fffu) << 13, sign = (x & 0x8000u) << 16;
  constexpr std::uint32_t exponents = 0x7c00u << 13, bias = (127 - 15) << 23;
  const std::uint32_t normal = size + bias;
  const std::uint32_t infinite = (normal + bias) | (size > exponents ? 1u << 22 : 0);
  // A subnormal number is its fraction times 2^-24: (1 + fraction) 2^-14 - 2^-14.
  const std::uint32_t small = bits_of(float_of(normal + (1u << 23)) - 0x1p-14f);
  return float_of(sign | (size >= exponents ? infinite : size < 1u << 23 ? small : normal));
}
inline std::uint16_t to_float16(float x) {
  const std::uint32_t bits = bits_of(x), size = bits & 0x7fff'ffffu;
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  constexpr std::uint32_t bias = (127 - 15) << 23, infinity = 0x7f80'0000u;
  // The addition rounds the fraction to the 10 bits that a subnormal result has.
  const std::uint32_t small = bits_of(float_of(size) + 0.5f) - bits_of(0.5f);
  const std::uint32_t normal = (size - bias + 0xfff + (size >> 13 & 1)) >> 13;
  const std::uint32_t nan = 0x7e00u | (size >> 13 & 0x3ffu);
  const std::uint32_t wide = size > infinity ? nan : 0x7c00u;
  return static_cast<std::uint16_t>(sign | (size >= 0x477f'f000u  ? wide
                                            : size < 0x3880'0000u ? small
                                                                  : normal));
}
}  // namespace half

/// n elements of 16 bits as float32; `how` has pass_float16 or pass_bfloat16.
[[gnu::noinline]] inline void widen(const std::uint16_t* from, float* to, std::int64_t n,
                                    unsigned how) {
  std::int64_t i = 0;
  if (how & pass_bfloat16) {
    REEL_INDEPENDENT
    for (; i < n; ++i) to[i] = half::from_bfloat16(from[i]);
    return;
  }
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(
        to + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
  n -= i;  // with bounds of i and n, g++ 12 warns of a loop without an end
  from += i;
  to += i;
  REEL_INDEPENDENT
  for (std::int64_t k = 0; k < n; ++k) to[k] = half::from_float16(from[k]);
}
/// n elements of float32, rounded to 16 bits.
[[gnu::noinline]] inline void narrow(const float* from, std::uint16_t* to, std::int64_t n,
                                     unsigned how) {
  std::int64_t i = 0;
  if (how & pass_bfloat16) {
    REEL_INDEPENDENT
    for (; i < n; ++i) to[i] = half::to_bfloat16(from[i]);
    return;
  }
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  REEL_INDEPENDENT
  for (; i < n; ++i) to[i] = half::to_float16(from[i]);
}
}  // namespace reel::kernels::REEL_ISA
