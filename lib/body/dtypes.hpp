// SPDX-License-Identifier: BSD-3-Clause
// From a dtype at run time to the C++ type of its elements. A new dtype does not compile until
// with_element() has a case for it. Files that are compiled for each instruction set include this
// header, so it must not use std functions with bodies.
#pragma once
#include <cstdint>

#include "lib/body/body.hpp"

namespace reel {
template <class T>
struct Type {
  using type = T;
};

/// Calls f(Type<T>()) for the type of a dtype's elements.
template <class F>
constexpr decltype(auto) with_element(DType dtype, const F& f) {
  switch (dtype) {
    case DType::boolean:
      return f(Type<bool>());
    case DType::uint8:
      return f(Type<std::uint8_t>());
    case DType::int32:
      return f(Type<std::int32_t>());
    case DType::int64:
      return f(Type<std::int64_t>());
    case DType::float32:
      return f(Type<float>());
    case DType::float64:
      return f(Type<double>());
    case DType::float16:
      return f(Type<Float16>());
    case DType::bfloat16:
      return f(Type<BFloat16>());
    case DType::int8:
      return f(Type<std::int8_t>());
    case DType::int16:
      return f(Type<std::int16_t>());
  }
  __builtin_trap();
}

/// Whether elements of type T are stored and moved, and no op computes in them.
template <class T>
inline constexpr bool only_stored = !has_arithmetic(dtype_of<T>());

/// The results of f(Type<T>()) for the element type of each dtype, in the order of DType.
template <class V>
struct ByDType {
  V of[dtype_count];
  constexpr const V& operator[](DType dtype) const { return of[static_cast<int>(dtype)]; }
};
template <class V, class F>
constexpr ByDType<V> by_dtype(const F& f) {
  ByDType<V> values{};
  for (int i = 0; i < dtype_count; ++i)
    values.of[i] = with_element(static_cast<DType>(i), [&](auto type) -> V { return f(type); });
  return values;
}
static_assert(
    [] {
      constexpr ByDType<int> sizes = by_dtype<int>([]<class T>(Type<T>) { return int{sizeof(T)}; });
      constexpr ByDType<DType> same =
          by_dtype<DType>([]<class T>(Type<T>) { return dtype_of<T>(); });
      for (int i = 0; i < dtype_count; ++i)
        if (const auto dtype = static_cast<DType>(i);
            sizes[dtype] != size_of(dtype) || same[dtype] != dtype)
          return false;
      return true;
    }(),
    "with_element(), size_of() and dtype_of() agree");

/// is_floating() as the test of one bit, for the paths whose instructions are counted.
constexpr bool has_floating_bit(DType dtype) { return (static_cast<unsigned>(dtype) & 4) != 0; }
static_assert(
    [] {
      for (int i = 0; i < dtype_count; ++i)
        if (const auto dtype = static_cast<DType>(i); has_floating_bit(dtype) != is_floating(dtype))
          return false;
      return true;
    }(),
    "floating dtypes have bit 2, and others do not");

/// Calls f(Type<Unit>()) for the unsigned type of 1, 2, 4 or 8 bytes. Kernels that only move
/// elements compute with it instead of each dtype of its size.
template <class F>
constexpr decltype(auto) with_unit(int bytes, const F& f) {
  switch (bytes) {
    case 1:
      return f(Type<std::uint8_t>());
    case 2:
      return f(Type<std::uint16_t>());
    case 4:
      return f(Type<std::uint32_t>());
    case 8:
      return f(Type<std::uint64_t>());
  }
  __builtin_trap();
}
static_assert(
    [] {
      for (int i = 0; i < dtype_count; ++i) {
        const int bytes = size_of(static_cast<DType>(i));
        if (bytes != with_unit(bytes, []<class T>(Type<T>) { return int{sizeof(T)}; }))
          return false;
      }
      return true;
    }(),
    "with_unit() has a unit for the elements of each dtype");

/// The dtype in which ops compute what has this dtype.
constexpr DType computed(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

/// Whether one element is true.
inline bool truth_of(const Body& x) {
  return with_element(x.dtype, [&]<class T>(Type<T>) {
    if constexpr (std::is_same_v<T, bool>)
      return x.data[0] != std::byte{0};
    else
      return *x.as<T>() != T(0);
  });
}
}  // namespace reel
