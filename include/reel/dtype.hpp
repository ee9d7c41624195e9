// SPDX-License-Identifier: BSD-3-Clause
// Element types of tensors, and their C++ types.
#pragma once  // defined in lib/body, lib/tensor
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

#include <reel/export.hpp>
#include <reel/half.hpp>

namespace reel {
/// The type of a tensor's elements. docs/guide/dtypes.md has a table of promotion. Ops compute
/// float16 and bfloat16 in float32 and round the result once. int8 and int16 are for storage: ops
/// that only move elements and comparisons take them, and others want a cast() first.
enum class DType : std::uint8_t {
  boolean,
  uint8,
  int32,
  int64,
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  int16
};
using enum DType;  // float32, int64, ... by their names alone
/// How many dtypes there are.
inline constexpr int dtype_count = 10;

/// A C++ number: bool, an integer or a floating type; no enum, no pointer.
template <class T>
concept Number = std::is_arithmetic_v<T>;
/// An enum that converts to integers: it stands for its number.
template <class T>
concept UnscopedEnum = std::is_enum_v<T> && std::is_convertible_v<T, std::int64_t>;

/// A C++ type that a tensor can hold: bool, std::uint8_t, signed integers of 8 to 64 bits, float,
/// double, Float16, BFloat16.
template <class T>
concept Element = std::is_same_v<T, bool> || std::is_same_v<T, std::uint8_t> ||
    std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::int16_t> || std::is_same_v<T, float> ||
    std::is_same_v<T, double> || std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> ||
    (std::is_integral_v<T>&& std::is_signed_v<T> && sizeof(T) >= 4 && !std::is_same_v<T, wchar_t>);

/// The dtype of a C++ type. A number type that is not an Element, such as unsigned short, has the
/// dtype of the next larger type that is and in which ops compute.
template <class T>
requires Number<T> || Element<T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_same_v<T, Float16>)
    return DType::float16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bfloat16;
  else if constexpr (std::is_same_v<T, float>)
    return DType::float32;
  else if constexpr (std::is_floating_point_v<T>)
    return DType::float64;
  else if constexpr (std::is_unsigned_v<T> && sizeof(T) == 1)
    return DType::uint8;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return DType::int8;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return DType::int16;
  else if constexpr (sizeof(T) + std::is_unsigned_v<T> <= 4)
    return DType::int32;
  else
    return DType::int64;
}

namespace detail {
/// What a dtype is. A new dtype does not compile until it has a line in traits_of().
struct DTypeTraits {
  int size;         // bytes of one element; 0 for a number that is no DType
  bool floating;    // holds numbers with a fraction
  bool arithmetic;  // ops compute in it
};
[[gnu::always_inline]] constexpr DTypeTraits traits_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return {1, false, true};
    case DType::uint8:
      return {1, false, true};
    case DType::int32:
      return {4, false, true};
    case DType::int64:
      return {8, false, true};
    case DType::float32:
      return {4, true, true};
    case DType::float64:
      return {8, true, true};
    case DType::float16:
      return {2, true, true};
    case DType::bfloat16:
      return {2, true, true};
    case DType::int8:
      return {1, false, false};
    case DType::int16:
      return {2, false, false};
  }
  return {0, false, false};
}
constexpr bool counts_all_dtypes() {
  for (int i = 0; i < dtype_count; ++i)
    if (traits_of(static_cast<DType>(i)).size == 0) return false;
  return traits_of(static_cast<DType>(dtype_count)).size == 0;
}
static_assert(counts_all_dtypes(),
              "dtype_count is the number of dtypes that traits_of() describes");

/// One hexadecimal digit for the size of each dtype, the first last; 1 for a number that is no
/// DType.
constexpr std::uint64_t digits_of_sizes() {
  std::uint64_t digits = 0;
  for (int i = 0; i < 16; ++i) {
    const int size = traits_of(static_cast<DType>(i)).size;
    digits |= static_cast<std::uint64_t>(size ? size : 1) << 4 * i;
  }
  return digits;
}
static_assert(dtype_count <= 16, "size_of() has a digit for each dtype");
}  // namespace detail

/// Bytes of one element.
constexpr int size_of(DType dtype) {
  // A switch would become a table in memory.
  constexpr std::uint64_t digits = detail::digits_of_sizes();
  return static_cast<int>(digits >> 4 * static_cast<int>(dtype) & 15);
}
// Compilers make a single comparison of each of these.
/// Whether it holds numbers with a fraction.
constexpr bool is_floating(DType dtype) { return detail::traits_of(dtype).floating; }
/// Whether ops compute in it. False for a number that is no DType.
constexpr bool has_arithmetic(DType dtype) { return detail::traits_of(dtype).arithmetic; }
/// Whether it is float16 or bfloat16.
constexpr bool is_half(DType dtype) { return is_floating(dtype) && size_of(dtype) == 2; }
/// "float32", "bool", ...
REEL_API std::string_view name_of(DType dtype);
REEL_API std::ostream& operator<<(std::ostream& out, DType x);
}  // namespace reel
