// SPDX-License-Identifier: BSD-3-Clause
// The device as a kernel call sees it. Files with kernels include this header.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cuda/kernel.hpp"
#include "lib/formulas/functions.hpp"
#include "lib/table/kernel_call.hpp"
#include "lib/table/numbers.hpp"

namespace reel {
struct DeviceCall;
}
namespace reel::gpu {
using namespace kernels;

class Gpu;
struct Scratch;

/// Kernels report the first wrong element here. The upper half of each word is the element's
/// position. The lower halves are the two halves of its value. All bits are 1 if nothing was
/// reported.
struct Fault {
  unsigned long long high, low;
};
/// Reports an element of an input: an integer, or the bits of a float64. The lowest position of all
/// reports stays.
__device__ inline void report(Fault* fault, std::int64_t position, std::int64_t value) {
  const auto at = static_cast<unsigned long long>(position < 0xffffffff ? position : 0xfffffffe)
                  << 32;
  const auto bits = static_cast<unsigned long long>(value);
  atomicMin(&fault->high, at | bits >> 32);
  atomicMin(&fault->low, at | (bits & 0xffffffff));
}

/// The random numbers that are next: the key and the Philox counter.
struct Draws {
  std::uint64_t seed = 0, position = 0;
  friend bool operator==(const Draws&, const Draws&) = default;
};
/// Writes them to the memory of the device, and adds blocks to them there. In random.cu.
cudaError_t set_draws(cudaStream_t stream, Draws* draws, Draws next);
cudaError_t advance_draws(cudaStream_t stream, Draws* draws, std::uint64_t blocks);
/// Loads the kernels of these two, which are first launched for a capture.
cudaError_t load_draws();

/// The stream of a device, during one call.
struct Queue {
  Gpu* gpu;
  const DeviceCall* call;
  Scratch* held;  // what the call uses until it ends, such as the memory of scratch()
  cudaStream_t stream;
  int processors;

  /// Scratch memory for the kernels of this call. Throws MemoryError if the device is out of
  /// memory.
  void* scratch(std::size_t bytes) const;
  template <class T>
  T* scratch_of(std::int64_t n) const {
    return static_cast<T*>(scratch(static_cast<std::size_t>(n) * sizeof(T)));
  }
  /// The target of report(). If a kernel reports, the next wait throws this result as an error; the
  /// reported value is its `got`.
  Fault* fault(const KernelResult& result) const;
  /// In a graph: where the device has the random numbers that the graph begins with. The options of
  /// a call count from there. Null outside of graphs.
  const Draws* draws() const;
  /// Throws DeviceError unless the result is cudaSuccess.
  void check(cudaError_t error) const {
    if (error != cudaSuccess) [[unlikely]]
      fail(error);
  }
  [[noreturn]] void fail(cudaError_t error) const;
  /// Frees the graphs and the memory of the cache. A launch may need memory of the device, for the
  /// code of a kernel or for its stack.
  void make_room() const;
  /// Throws DeviceError for a call that the kernel does not support. `advice` says what to do
  /// instead.
  [[noreturn]] void refuse(const char* expected, const char* got, const char* advice) const;

  template <class... Parameters, class... Arguments>
  void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
              const Arguments&... arguments) const {
    const auto launched = [&] {
      return gpu::launch(kernel, grid, block, shared_bytes, stream, arguments...);
    };
    cudaError_t error = launched();
    if (error == cudaErrorMemoryAllocation) [[unlikely]] {
      make_room();
      error = launched();
    }
    check(error);
  }
  /// Launches threads for n items, in blocks of up to 256. There are at most most_blocks() blocks,
  /// so a kernel must be a grid-stride loop with grid_step(). If n is 0, nothing is launched.
  template <class... Parameters, class... Arguments>
  void launch_for(std::int64_t n, void (*kernel)(Parameters...), Arguments&&... arguments) const {
    if (n == 0) return;
    const std::int64_t threads = std::min<std::int64_t>(256, (n + 31) / 32 * 32);
    const std::int64_t blocks = std::min((n + threads - 1) / threads, most_blocks());
    launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), 0,
           std::forward<Arguments>(arguments)...);
  }
  /// Blocks of 256 threads that fill the device.
  std::int64_t most_blocks() const { return std::int64_t{processors} * 8; }
};
using Call = KernelCallOn<Queue>;
using GradientCall = GradientKernelCallOn<Queue>;
using Kernel = KernelOn<Queue>;

/// Writes a number to n elements. In create.cu.
void fill_with(const Queue& queue, DType dtype, void* to, std::int64_t n, double number);
/// Copies a matrix [columns, rows] to its transpose [rows, columns]; both are row-major. Elements
/// have so many bytes. In copy.cu.
void copy_transposed(const Queue& queue, int size, std::int64_t rows, std::int64_t columns,
                     const void* from, void* to);
/// An error if the kernels have no code for the current device. In create.cu.
cudaError_t find_code();

/// The start and the step of a grid-stride loop.
__device__ inline std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_step() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// The failure of a kernel that does not compute a call of 16 bits after all: the backend calls it
/// again with copies of float32.
inline constexpr char declined[] = "declined";
/// A kernel's name (see Part) and its function.
struct NamedKernel {
  const char* name;
  Kernel kernel;
  TakesHalves takes_halves = nullptr;  // null: never
};
}  // namespace reel::gpu
