// SPDX-License-Identifier: BSD-3-Clause
// Floating numbers of 16 bits. They are for storage: they convert to float for arithmetic.
#pragma once
#include <cstdint>

namespace reel {
namespace detail {
/// A floating number of 16 bits: a sign, `exponent_bits`, and the rest for the fraction (IEEE 754).
/// Conversions to it round to the nearest number, ties to even. Numbers that are too large become
/// infinite.
template <int exponent_bits>
class ShortFloat {
 public:
  ShortFloat() = default;
  // Inlined, as kernels are compiled for several instruction sets.
  [[gnu::always_inline]] explicit constexpr ShortFloat(double x)
      : bits_(rounded(__builtin_bit_cast(std::uint64_t, x))) {}
  [[gnu::always_inline]] constexpr operator float() const {
    const std::uint32_t sign = std::uint32_t{bits_} >> 15 << 31;
    const std::uint32_t exponent = bits_ >> fraction_bits & most_exponent;
    const std::uint32_t fraction = bits_ & ((1u << fraction_bits) - 1);
    if (exponent == 0 && exponent_bits < 8) {
      const float size = static_cast<float>(fraction) * smallest;
      return sign ? -size : size;
    }
    const std::uint32_t wide = exponent == most_exponent ? 255 : exponent + 127 - bias;
    return __builtin_bit_cast(float, sign | wide << 23 | fraction << (23 - fraction_bits));
  }
  [[gnu::always_inline]] static constexpr ShortFloat from_bits(std::uint16_t bits) {
    ShortFloat x;
    x.bits_ = bits;
    return x;
  }
  [[gnu::always_inline]] constexpr std::uint16_t bits() const { return bits_; }

 private:
  static constexpr int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint32_t most_exponent = (1u << exponent_bits) - 1;
  static constexpr float smallest = 0x1p-24f;  // of binary16; bfloat16 has float's exponents

  [[gnu::always_inline]] static constexpr std::uint16_t rounded(std::uint64_t x) {
    const auto sign = static_cast<std::uint64_t>(x >> 63 << 15);
    const int wide = static_cast<int>(x >> 52 & 0x7ff);
    const std::uint64_t fraction = x & ((std::uint64_t{1} << 52) - 1);
    const std::uint64_t infinite = std::uint64_t{most_exponent} << fraction_bits;
    if (wide == 0x7ff) {
      const std::uint64_t quiet = std::uint64_t{1} << (fraction_bits - 1);
      return static_cast<std::uint16_t>(sign | infinite |
                                        (fraction ? quiet | fraction >> (52 - fraction_bits) : 0));
    }
    int exponent = wide - 1023 + bias;
    if (exponent >= static_cast<int>(most_exponent))
      return static_cast<std::uint16_t>(sign | infinite);
    // Below the smallest exponent the fraction loses bits instead.
    const int lost = 52 - fraction_bits + (exponent < 1 ? 1 - exponent : 0);
    if (lost > 53) return static_cast<std::uint16_t>(sign);
    if (exponent < 1) exponent = 1;
    const std::uint64_t whole = fraction | std::uint64_t{1} << 52;
    std::uint64_t kept = whole >> lost;
    const std::uint64_t rest = whole & ((std::uint64_t{1} << lost) - 1);
    const std::uint64_t half = std::uint64_t{1} << (lost - 1);
    kept += rest > half || (rest == half && kept & 1);
    // The bit in front of the fraction, and a carry, go into the exponent.
    return static_cast<std::uint16_t>(
        sign | (kept + (static_cast<std::uint64_t>(exponent - 1) << fraction_bits)));
  }
  std::uint16_t bits_;
};
}  // namespace detail

/// IEEE 754 binary16: 11 significant bits, up to 65504.
using Float16 = detail::ShortFloat<5>;
/// bfloat16: 8 significant bits, float32's range.
using BFloat16 = detail::ShortFloat<8>;
}  // namespace reel
