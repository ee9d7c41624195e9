// SPDX-License-Identifier: BSD-3-Clause
// From a dtype at run time to the C++ type that a kernel is written for.
#pragma once
#include <cstdint>
#include <type_traits>

#include "lib/body/dtypes.hpp"
#include "lib/table/kernel_call.hpp"

// Each file that is compiled for an instruction set has its own copies of these, as of formulas.
#ifdef REEL_ISA
#define REEL_NUMBERS kernels::REEL_ISA
#else
#define REEL_NUMBERS kernels
#endif

namespace reel::REEL_NUMBERS {
/// The type in memory of an element: bool counts as uint8.
template <class T>
struct InMemory {
  using type = T;
};
template <>
struct InMemory<bool> {
  using type = std::uint8_t;
};
template <class T>
using in_memory = typename InMemory<T>::type;

template <class T>
inline constexpr bool is_short_float = false;
template <>
inline constexpr bool is_short_float<Float16> = true;
template <>
inline constexpr bool is_short_float<BFloat16> = true;
template <class T>
inline constexpr bool is_real = std::is_floating_point_v<T> || is_short_float<T>;

/// Calls f(Type<T>()) for the type in memory of the elements of a dtype that is not only stored.
template <class F>
constexpr auto with_type(DType dtype, const F& f) {
  return with_element(dtype, [&]<class T>(Type<T>) {
    if constexpr (only_stored<T>)
      __builtin_trap();
    else
      return f(Type<in_memory<T>>());
  });
}
// The gate refuses dtypes without arithmetic, and shape rules what is no integer or no
// floating dtype where ops want one. So the last lines of what follows are never reached.
/// with_type() for dtypes in which kernels compute. Kernels get 16 bits as float32, unless their op
/// only moves elements.
template <class F>
constexpr auto with_arithmetic(DType dtype, const F& f) {
  return with_type(dtype, [&]<class T>(Type<T> type) {
    if constexpr (is_short_float<T>)
      __builtin_trap();
    else
      return f(type);
  });
}
/// Calls f(Type<T>()) for float32 or float64. Returns f's KernelResult, or success if f returns
/// nothing.
template <class F>
KernelResult with_floating(DType dtype, const F& f) {
  const auto call = [&](auto type) -> KernelResult {
    if constexpr (!std::is_void_v<decltype(f(type))>) {
      return f(type);
    } else {
      f(type);
      return {};
    }
  };
  switch (dtype) {
    case DType::float32:
      return call(Type<float>());
    case DType::float64:
      return call(Type<double>());
    case DType::boolean:
    case DType::uint8:
    case DType::int32:
    case DType::int64:
    case DType::float16:
    case DType::bfloat16:
    case DType::int8:
    case DType::int16:
      break;
  }
  __builtin_trap();
}
/// Calls f(Type<T>()) for the dtype of positions, labels or lengths.
template <class F>
constexpr auto with_integers(DType dtype, const F& f) {
  switch (dtype) {
    case DType::uint8:
      return f(Type<std::uint8_t>());
    case DType::int32:
      return f(Type<std::int32_t>());
    case DType::int64:
      return f(Type<std::int64_t>());
    case DType::boolean:
    case DType::float32:
    case DType::float64:
    case DType::float16:
    case DType::bfloat16:
    case DType::int8:
    case DType::int16:
      break;
  }
  __builtin_trap();
}
/// Element i of a tensor of positions, labels or lengths: uint8, int32 or int64.
constexpr std::int64_t integer_at(const Body& x, std::int64_t i) {
  return with_integers(x.dtype, [&]<class T>(Type<T>) -> std::int64_t { return x.as<T>()[i]; });
}
/// y + x; integers wrap around, and 1 + 1 = 1 for truth values.
template <class T>
constexpr T plus(T y, T x, bool truth) {
  if constexpr (sizeof(T) == 1)
    return static_cast<T>(truth ? y | x : y + x);
  else if constexpr (static_cast<T>(0.5) != T(0))
    return static_cast<T>(y + x);
  else
    return static_cast<T>(static_cast<std::uint64_t>(y) + static_cast<std::uint64_t>(x));
}
}  // namespace reel::REEL_NUMBERS
