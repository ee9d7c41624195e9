// SPDX-License-Identifier: BSD-3-Clause
// Tensors of indices, labels or lengths.
#pragma once
#include "cuda/queue.hpp"

namespace reel::gpu {
/// The elements of a tensor of indices, labels or lengths: uint8, int32 or int64.
struct Integers {
  const void* data = nullptr;
  DType dtype = DType::int64;
  Integers() = default;
  explicit Integers(const Body& x) : data(x.data), dtype(x.dtype) {}
  __device__ std::int64_t operator[](std::int64_t i) const {
    return with_integers(
        dtype, [&]<class T>(Type<T>) -> std::int64_t { return static_cast<const T*>(data)[i]; });
  }
};
/// The position that element `at` of the indices names along an axis. Negative indices count from
/// the end. If the index is out of range, it is reported and the result is -1.
__device__ inline std::int64_t position(const Integers& indices, std::int64_t at,
                                        std::int64_t limit, Fault* fault) {
  const std::int64_t index = indices[at], place = index < 0 ? index + limit : index;
  if (place >= 0 && place < limit) return place;
  report(fault, at, index);
  return -1;
}
/// Checks all indices. For outputs without elements.
template <class = void>
__global__ void check_positions(std::int64_t n, std::int64_t limit, Integers indices,
                                Fault* fault) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) position(indices, i, limit, fault);
}
}  // namespace reel::gpu
