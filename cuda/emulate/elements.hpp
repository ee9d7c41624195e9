// SPDX-License-Identifier: BSD-3-Clause
// The elements of matrices and tensors of the vendor's libraries, by their type.
#pragma once
#include <library_types.h>

#include <cstddef>

#include "include/reel/half.hpp"

namespace reel::emulate {
/// Calls f with a null pointer to the type of an element. 0 without a call for other types.
template <class F>
auto with_type(cudaDataType type, F f) {
  using Result = decltype(f(static_cast<float*>(nullptr)));
  switch (type) {
    case CUDA_R_64F:
      return f(static_cast<double*>(nullptr));
    case CUDA_R_32F:
      return f(static_cast<float*>(nullptr));
    case CUDA_R_16F:
      return f(static_cast<Float16*>(nullptr));
    case CUDA_R_16BF:
      return f(static_cast<BFloat16*>(nullptr));
    default:
      return Result();
  }
}
/// The bytes of an element, or 0 for a type that is not emulated.
inline std::size_t bytes_of(cudaDataType type) {
  return with_type(type, []<class T>(T*) { return sizeof(T); });
}
inline double load(cudaDataType type, const void* at, std::size_t i) {
  return with_type(type, [&]<class T>(T*) {
    const T x = static_cast<const T*>(at)[i];
    if constexpr (sizeof(T) == 2)
      return double(float(x));
    else
      return double(x);
  });
}
/// Rounds once.
inline void store(cudaDataType type, void* at, std::size_t i, double value) {
  with_type(type, [&]<class T>(T*) { static_cast<T*>(at)[i] = T(value); });
}
}  // namespace reel::emulate
