// SPDX-License-Identifier: BSD-3-Clause
// Memory offsets of the elements of strided and broadcast tensors.
#pragma once
#include "cuda/queue.hpp"

namespace reel::gpu {
/// A loop in row-major order over K operands of one shape. Adjacent axes are merged if one step
/// works for every operand. Steps are in elements. A step is 0 along an axis over which the operand
/// is broadcast.
template <int K>
struct Places {
  int rank = 0;
  bool narrow = true;  // fewer than 2^31 elements
  std::int64_t length[Shape::max_rank] = {}, step[K][Shape::max_rank] = {};

  /// Whether operand k is contiguous in row-major order.
  bool in_order(int k) const { return rank == 0 || (rank == 1 && step[k][0] == 1); }
  /// Whether operand k is a single element that is broadcast.
  bool single(int k) const {
    for (int i = 0; i < rank; ++i)
      if (step[k][i]) return false;
    return true;
  }
  /// The offset of element i in each operand.
  __device__ void find(std::int64_t i, std::int64_t (&at)[K]) const {
    if (narrow)
      find_by<std::uint32_t>(i, at);
    else
      find_by<std::uint64_t>(i, at);
  }
  /// find() with this type. Either Index can hold i, or there is one axis.
  template <class Index>
  __device__ void find_by(std::int64_t i, std::int64_t (&at)[K]) const {
    for (int k = 0; k < K; ++k) at[k] = 0;
    for (int axis = rank - 1; axis > 0; --axis) {
      const auto here = static_cast<Index>(i), n = static_cast<Index>(length[axis]);
      const Index rest = here / n;
      for (int k = 0; k < K; ++k)
        at[k] += static_cast<std::int64_t>(here - rest * n) * step[k][axis];
      i = static_cast<std::int64_t>(rest);
    }
    if (rank > 0)
      for (int k = 0; k < K; ++k) at[k] += i * step[k][0];
  }
};

/// The loop over `shape`. Each operand has this shape or broadcasts to it; it is null if it does
/// not exist. The last `left_out` axes are not part of the loop.
template <int K>
Places<K> places_of(const Shape& shape, const Body* const (&operands)[K], int left_out = 0) {
  Places<K> places;
  std::int64_t elements = 1;
  const int rank = static_cast<int>(shape.rank());
  for (int axis = 0; axis < rank - left_out; ++axis) {
    const std::int64_t length = shape.data()[axis];
    elements *= length;
    if (length == 1) continue;
    std::int64_t step[K] = {};
    for (int k = 0; k < K; ++k) {
      if (!operands[k]) continue;
      const int own = axis - rank + operands[k]->rank();
      if (own >= 0 && operands[k]->shape.data()[own] != 1) step[k] = operands[k]->strides[own];
    }
    int& last = places.rank;
    bool joins = last > 0;
    for (int k = 0; k < K; ++k) joins = joins && places.step[k][last - 1] == step[k] * length;
    if (joins)
      places.length[last - 1] *= length;
    else
      places.length[last++] = length;
    for (int k = 0; k < K; ++k) places.step[k][last - 1] = step[k];
  }
  places.narrow = elements < std::int64_t{1} << 31;
  return places;
}
/// The loop over one strided body in its own shape.
inline Places<1> places_of(const Body& x) { return places_of<1>(x.shape, {&x}); }
}  // namespace reel::gpu
