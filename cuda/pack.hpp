// SPDX-License-Identifier: BSD-3-Clause
// Loads and stores several adjacent elements at once: 16 bytes if they are aligned.
#pragma once
#include "cuda/queue.hpp"

// Unrolled iterations let several loads run at the same time.
#ifdef __CUDACC__
#define REEL_UNROLL _Pragma("unroll 4")
#define REEL_UNROLL_ALL _Pragma("unroll")
#define REEL_NO_UNROLL _Pragma("unroll 1")
#else
#define REEL_UNROLL
#define REEL_UNROLL_ALL
#define REEL_NO_UNROLL
#endif

namespace reel::gpu {
/// Adjacent elements that are read or written in one access.
template <class T, int n>
struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Pack {
  T of[n];
};
/// Writes a pack. nvcc may divide an assignment of 16 bytes into stores of elements.
template <class T, int n>
__device__ void store(T* to, const Pack<T, n>& pack) {
#ifdef __CUDACC__
  if constexpr (sizeof(pack) == 16) {
    __stwb(reinterpret_cast<uint4*>(to), __builtin_bit_cast(uint4, pack));
    return;
  }
#endif
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
}
/// The number of elements that take at most 16 bytes in every type.
template <class... X>
inline constexpr int pack_size = static_cast<int>(16 / std::max({sizeof(X)...}));

/// Whether memory may be read and written in packs of n.
template <int n, class T>
__host__ __device__ bool is_aligned(const T* at) {
  return reinterpret_cast<std::uintptr_t>(at) % alignof(Pack<T, n>) == 0;
}
/// Whether each of the pointers, which may be null, is aligned to 16 bytes.
template <class... P>
bool aligned(const P*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}
}  // namespace reel::gpu
