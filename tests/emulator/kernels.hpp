// SPDX-License-Identifier: BSD-3-Clause
// Kernels of the emulator's tests. g++ and clang++ compile them against the emulator; nvcc compiles
// them for GPUs (kernels.cu). If a kernel has a parameter `fault` and it is true, the kernel is
// wrong.
#pragma once
#include "cuda/kernel.hpp"

#ifdef __CUDACC__
#pragma nv_diag_suppress 20050  // an inline kernel: it is defined in a header
#endif

namespace kernels {
constexpr unsigned all_lanes = 0xffffffffu;

__device__ inline int first_index() { return int(blockIdx.x * blockDim.x + threadIdx.x); }
__device__ inline int grid_step() { return int(gridDim.x * blockDim.x); }

__global__ inline void fill(int n, float value, float* x) {
  for (int i = first_index(); i < n; i += grid_step()) x[i] = value;
}

// With the fault it goes one element too far.
__global__ inline void scale(int n, float a, const float* x, float* y, bool fault) {
  for (int i = first_index(); i < n + int(fault); i += grid_step()) y[i] = a * x[i];
}

// Reads four floats at once. With the fault the address is not aligned to four floats.
__global__ inline void scale4(int n, float a, const float* x, float* y, bool fault) {
  const int offset = fault ? 1 : 0;
  for (int i = first_index(); i < n / 4 - offset; i += grid_step()) {
    float4 v = reinterpret_cast<const float4*>(x + offset)[i];
    v.x *= a, v.y *= a, v.z *= a, v.w *= a;
    reinterpret_cast<float4*>(y)[i] = v;
  }
}

__device__ inline float warp_sum(float v) {
  for (unsigned by = 16; by > 0; by /= 2) v += __shfl_down_sync(all_lanes, v, by);
  return v;
}

enum class SumFault {
  none,
  no_barrier,
  barrier_in_branch,
  out_of_shared,
  two_barriers,
  left_early
};

// One sum for each block; at most 8 warps.
__global__ inline void block_sums(int n, const float* x, float* y, SumFault fault) {
  REEL_SHARED(float, parts, 8);
  if (fault == SumFault::left_early && threadIdx.x >= 64) return;
  float v = 0;
  for (int i = first_index(); i < n; i += grid_step()) v += x[i];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32 + (fault == SumFault::out_of_shared)] = v;
  if (fault == SumFault::barrier_in_branch) {
    if (threadIdx.x < 64) __syncthreads();
  } else if (fault == SumFault::two_barriers && threadIdx.x >= 64) {
    __syncthreads();
  } else if (fault != SumFault::no_barrier) {
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
    v = warp_sum(v);
    if (threadIdx.x == 0) y[blockIdx.x] = v;
  }
}

// The block that counts last adds the sums of all blocks. With the fault a block does not check
// that it is the last.
__global__ inline void total(int n, const float* x, float* parts, unsigned* counter, float* y,
                             bool fault) {
  REEL_SHARED(float, sum, 1);
  REEL_SHARED(unsigned, before, 1);
  if (threadIdx.x == 0) sum[0] = 0;
  __syncthreads();
  float v = 0;
  for (int i = first_index(); i < n; i += grid_step()) v += x[i];
  atomicAdd(&sum[0], v);
  __syncthreads();
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum[0];
    before[0] = reel::gpu::count_arrival(counter);
  }
  __syncthreads();
  if (threadIdx.x == 0 && (fault || before[0] == gridDim.x - 1)) {
    float all = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) all += parts[i];
    y[0] = all;
  }
}

// Counts with atomics. With the fault it uses plain additions.
__global__ inline void histogram(int n, const int* x, int* counts, bool fault) {
  for (int i = first_index(); i < n; i += grid_step()) {
    if (fault)
      counts[x[i]] += 1;
    else
      atomicAdd(&counts[x[i]], 1);
  }
}

// Transposes through shared memory. With the fault, threads write outside of their tile.
__global__ inline void transpose(int rows, int columns, const float* x, float* y, bool fault) {
  REEL_DYNAMIC_SHARED(float, tile);
  const int side = int(blockDim.x);
  const int column = int(blockIdx.x) * side + int(threadIdx.x);
  const int row = int(blockIdx.y) * side + int(threadIdx.y);
  const int pitch = side + 1;
  if (row < rows && column < columns)
    tile[int(threadIdx.y) * pitch + int(threadIdx.x)] = x[row * columns + column];
  __syncthreads();
  const int to_row = int(blockIdx.x) * side + int(threadIdx.y);
  const int to_column = int(blockIdx.y) * side + int(threadIdx.x);
  if (to_row < columns && to_column < rows)
    y[to_row * rows + (fault ? 0 : to_column)] = tile[int(threadIdx.x) * pitch + int(threadIdx.y)];
}

// Prefix sums of one warp by shuffles. With the fault, half of the lanes do not take part.
__global__ inline void warp_scan(const int* x, int* y, bool fault) {
  const int lane = int(threadIdx.x);
  int v = x[lane];
  for (int by = 1; by < 32; by *= 2) {
    if (fault && lane >= 16) break;
    const int other = __shfl_up_sync(all_lanes, v, unsigned(by));
    if (lane >= by) v += other;
  }
  y[lane] = v;
}

// Passes values between lanes through shared memory. With the fault, __syncwarp() is missing.
__global__ inline void rotate_lanes(const int* x, int* y, bool fault) {
  REEL_SHARED(int, values, 32);
  const int lane = int(threadIdx.x);
  values[lane] = x[lane];
  if (!fault) __syncwarp();
  y[lane] = values[(lane + 1) % 32];
}

// Votes and sums of lanes, for each half of a warp.
__global__ inline void votes(int* y) {
  const int lane = int(threadIdx.x);
  const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  const unsigned odd = __ballot_sync(all_lanes, lane % 2);
  const int any = __any_sync(half, lane == 20);
  const int every = __all_sync(half, lane < 16);
  const int sum = int(__shfl_xor_sync(all_lanes, unsigned(lane), 1));
  const int count = __syncthreads_count(lane < 5);
  y[lane] = __popc(odd) + 100 * any + 1000 * every + 10000 * sum + 1000000 * count;
}

// A step of a chain of kernels: y = y + a.
__global__ inline void add(int n, float a, float* y) {
  for (int i = first_index(); i < n; i += grid_step()) y[i] += a;
}

__global__ inline void fail() { __trap(); }
}  // namespace kernels
