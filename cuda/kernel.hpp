// SPDX-License-Identifier: BSD-3-Clause
// Every file with kernels includes this header. nvcc compiles the file for GPUs. Any other compiler
// compiles it as host C++ against the emulator (docs/cuda_emulator.md).
//
//     __global__ void scale(int n, float a, float* x) { ... }
//     reel::gpu::launch(scale, dim3(blocks), dim3(256), 0, stream, n, 2.0f, x);
#pragma once
#include <cuda_runtime.h>

#include <cstddef>

#ifdef __CUDACC__
/// A static array in shared memory. __shared__ declares a variable, and the emulator could not give
/// each block its own copy of that.
#define REEL_SHARED(T, name, n) __shared__ T name[n]
/// A pointer to dynamic shared memory, whose size the launch sets. Use it once in a kernel.
#define REEL_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char reel_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(reel_dynamic_shared)
#else
#include "cuda/emulate/launch.hpp"
#include "cuda/emulate/words.hpp"
#define REEL_SHARED(T, name, n) \
  static char name##_tag;       \
  T(&name)                      \
  [n] = *static_cast<T(*)[n]>(  \
      ::reel::emulate::shared_memory(&name##_tag, sizeof(T[n]), alignof(T), {__FILE__, __LINE__}))
#define REEL_DYNAMIC_SHARED(T, name) \
  T* const name =                    \
      static_cast<T*>(::reel::emulate::dynamic_shared_memory(alignof(T), {__FILE__, __LINE__}))
#endif

namespace reel::gpu {
/// Increments the counter and returns its old value. Earlier writes of every block that has counted
/// are visible to blocks that count later, so the last block may read the results of all others.
/// (CUDA needs a fence and an atomic; ThreadSanitizer does not know fences.)
__device__ inline unsigned count_arrival(unsigned* counter) {
#ifdef __CUDACC__
  __threadfence();
  const unsigned before = atomicAdd(counter, 1u);
  __threadfence();
  return before;
#else
  return __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL);
#endif
}

#ifdef __CUDACC__
/// Queues the kernel. Returns errors of the launch, not of the kernel.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}
#endif
}  // namespace reel::gpu
