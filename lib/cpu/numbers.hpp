// SPDX-License-Identifier: BSD-3-Clause
// From a dtype at run time to the C++ type that a kernel is written for.
#pragma once
#include <cstdint>

#include <reel/dtype.hpp>

#include "lib/dispatch/kernel_call.hpp"

namespace reel::kernels::REEL_ISA {
template <class T>
struct Type {
  using type = T;
};
/// Calls f(Type<T>()) for the type in memory of all numbers of a dtype; bool counts as uint8.
template <class F>
auto with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::int32:
      return f(Type<std::int32_t>());
    case DType::int64:
      return f(Type<std::int64_t>());
    case DType::float32:
      return f(Type<float>());
    case DType::float64:
      return f(Type<double>());
    default:
      return f(Type<std::uint8_t>());
  }
}
/// Calls f(Type<T>()) for a floating dtype; the result of a kernel that cannot fail.
template <class F>
KernelResult with_floating(DType dtype, const F& f) {
  if (dtype == DType::float32)
    f(Type<float>());
  else
    f(Type<double>());
  return {};
}
/// Calls f(Type<T>()) for the dtype of positions, labels or lengths.
template <class F>
auto with_integers(DType dtype, const F& f) {
  if (dtype == DType::int64) return f(Type<std::int64_t>());
  return dtype == DType::int32 ? f(Type<std::int32_t>()) : f(Type<std::uint8_t>());
}
/// Element i of a tensor of positions, labels or lengths: uint8, int32 or int64.
inline std::int64_t integer_at(const Body& x, std::int64_t i) {
  return with_integers(x.dtype, [&]<class T>(Type<T>) -> std::int64_t { return x.as<T>()[i]; });
}
/// y + x; integers wrap around, and 1 + 1 = 1 for truth values.
template <class T>
T plus(T y, T x, bool truth) {
  if constexpr (sizeof(T) == 1)
    return static_cast<T>(truth ? y | x : y + x);
  else if constexpr (static_cast<T>(0.5) != T(0))
    return y + x;
  else
    return static_cast<T>(static_cast<std::uint64_t>(y) + static_cast<std::uint64_t>(x));
}
}  // namespace reel::kernels::REEL_ISA
