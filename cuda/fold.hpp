// SPDX-License-Identifier: BSD-3-Clause
// Reductions over the values of several threads, such as sums and maxima. The order is a tree that
// depends on the number of threads only. A fold F has join(a, b) and its neutral element none().
#pragma once
#include "cuda/pack.hpp"

namespace reel::gpu {
inline constexpr unsigned all_lanes = 0xffffffffu;

/// Two values that are reduced together.
template <class T>
struct Two {
  T first, second;
};

/// The value of lane (own lane XOR by).
template <class T>
__device__ T other_lane(T value, int by) {
  return __shfl_xor_sync(all_lanes, value, by);
}
template <class T>
__device__ Two<T> other_lane(const Two<T>& value, int by) {
  return {other_lane(value.first, by), other_lane(value.second, by)};
}

template <class T>
struct Sum {
  static __device__ T none() { return T(0); }
  static __device__ T join(T a, T b) { return plus(a, b, false); }
};
template <class T>
struct TwoSums {
  static __device__ Two<T> none() { return {T(0), T(0)}; }
  static __device__ Two<T> join(const Two<T>& a, const Two<T>& b) {
    return {a.first + b.first, a.second + b.second};
  }
};

/// Reduces the values of each group of `lanes` adjacent threads. All of them get the result. A
/// group has 1, 2, 4, 8, 16 or 32 threads, or it is the whole block; then the block size is a
/// multiple of 32. All threads of the block must call it. The next call may follow without a
/// barrier.
template <class F, class A>
__device__ A fold_lanes(A value, int lanes) {
  for (int by = (lanes < 32 ? lanes : 32) / 2; by > 0; by /= 2)
    value = F::join(value, other_lane(value, by));
  if (lanes <= 32) return value;
  REEL_SHARED(A, of_warps, 32);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  value = lane < blockDim.x / 32 ? of_warps[lane] : F::none();
  for (int by = 16; by > 0; by /= 2) value = F::join(value, other_lane(value, by));
  __syncthreads();
  return value;
}

/// Reduces the values of threads whose indices are equal modulo `width`. The width and the block
/// size are powers of two. All threads get the result. `shared` has space for one value of each
/// thread.
template <class F, class A>
__device__ A fold_slots(A value, int width, A* shared) {
  const int thread = static_cast<int>(threadIdx.x);
  shared[thread] = value;
  for (int half = static_cast<int>(blockDim.x) / 2; half >= width; half /= 2) {
    __syncthreads();
    if (thread < half) shared[thread] = F::join(shared[thread], shared[thread + half]);
  }
  __syncthreads();
  value = shared[thread % width];
  __syncthreads();
  return value;
}

/// The smallest power of two that is at least n, but not above `most`, which is a power of two.
constexpr int power_of_two(std::int64_t n, int most) {
  int power = 1;
  while (power < n && power < most) power *= 2;
  return power;
}
}  // namespace reel::gpu
