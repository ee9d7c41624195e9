// SPDX-License-Identifier: BSD-3-Clause
// The functions behind the built-ins of CUDA C++: thread indices, barriers, exchanges between
// lanes, shared memory. They are defined in grid.cpp. Only threads of a launched kernel may call
// them.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace reel::emulate {
struct ThreadIndices {
  uint3 thread{}, block{};
  dim3 block_dim, grid_dim;
  unsigned lane = 0;
};
const ThreadIndices& thread_indices() noexcept;

/// A source line of the kernel. It identifies a barrier or an exchange: all participants must be on
/// the same line.
struct Caller {
  const char* file;
  int line;
};

/// The results of __syncthreads_count, _and and _or.
struct Votes {
  int count = 0, all = 1, any = 0;
};
Votes block_barrier(bool vote, Caller caller);

/// Exchanges values between the lanes of the mask. Returns the value of each lane; for lanes
/// outside of the mask all bits are 1. It does not order memory accesses. The result is valid until
/// the lane's second next exchange.
const std::uint64_t* exchange(unsigned mask, std::uint64_t value, Caller caller);
/// The lanes of the mask wait for each other. Their earlier writes are then visible to each other.
void warp_barrier(unsigned mask, Caller caller);
unsigned active_lanes();

/// The block's shared memory for the declaration with this tag. Initially all bits are 1.
void* shared_memory(const void* tag, std::size_t bytes, std::size_t alignment, Caller caller);
/// The dynamic shared memory of the launch.
void* dynamic_shared_memory(std::size_t alignment, Caller caller);

/// Ends the kernel with a sticky error of its device. For __trap() and assert().
[[noreturn]] void stop_kernel(cudaError_t error);
}  // namespace reel::emulate
