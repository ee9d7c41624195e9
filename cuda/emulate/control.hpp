// SPDX-License-Identifier: BSD-3-Clause
// Settings and counts for tests: the seed of all random orders, devices, memory, counts of calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

namespace reel::emulate {
/// Sets the seed of the random orders of threads, blocks and streams. The initial seed is
/// REEL_EMULATE_SEED.
void set_seed(std::uint64_t seed);
/// Sets the number of devices, at most 8, initially 2. Call it before the first call of the
/// runtime.
void set_device_count(int count);
/// Sets the memory of each device in bytes. Initially 8 GiB. Existing blocks are kept.
void set_device_memory(std::size_t bytes);
/// Sets how much memory of its device must be free at the launch of a kernel, as for the kernel's
/// code and stack. Initially none.
void set_launch_memory(std::size_t bytes);
/// Sets the CUDA version that the driver supports. Initially the version of the toolkit.
void set_driver_version(int version);
/// Whether cuBLASLt has no algorithm for a product with an epilogue. Initially it has one.
void refuse_epilogues(bool refused);
/// Whether cuBLASLt has no algorithm for matrices that have gaps between their columns or are not
/// aligned to 16 bytes. Initially it has one.
void refuse_gaps(bool refused);
/// Whether cuBLASLt has no algorithm for matrices of 16 bits. Initially it has one.
void refuse_halves(bool refused);
/// Whether cuDNN has the weights of recurrent layers in a form of rank 3 that is not [1, rows,
/// columns]. Initially it has not.
void reshape_weights(bool reshaped);
/// What cuDNN refuses of each convolution: to name engines, to make their plans, or to run a plan.
/// Initially nothing.
enum class Convolutions { computed, without_engines, without_plans, without_runs };
void refuse_convolutions(Convolutions refused);
/// Whether devices have memory pools, which cudaMallocAsync() needs. Initially they have. Call it
/// before the first call of the runtime.
void set_memory_pools(bool exist);
/// Gives a device the compute capability 7.5, for which the kernels have no code. Initially no
/// device has it.
void set_old_device(int device);
/// Whether communicators of NCCL report an error of another rank. Initially they do not.
void fail_collectives(bool fails);
/// Lets the next captures fail at their end, so many of them.
void fail_captures(int count);
/// Sets the sticky error of a device, as a kernel with an illegal access does.
void break_device(int device);
/// Whether the device has a context. A call that needs a device makes one on the current device.
bool has_context(int device);
/// The next call of cudaStreamSynchronize() calls the function once, after its wait.
void after_next_wait(std::function<void()> function);

/// Counts of the program's runtime calls since the last reset_counts().
struct Counts {
  std::uint64_t launches = 0;  // of kernels; one that is captured counts at its capture only
  std::uint64_t graph_launches = 0;
  std::uint64_t captures = 0;
  // First uses, on their device, of kernels and of handles of cuBLASLt and cuDNN within a capture.
  // There the real ones may do what a capture forbids: they load code and take memory.
  std::uint64_t first_uses_in_captures = 0;
  std::uint64_t synchronizations = 0;  // calls that wait: streams, events, devices, cudaFree
  std::uint64_t allocations = 0;       // cudaMalloc, cudaMallocAsync, cudaMallocHost
  std::uint64_t copies = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t staged_copies = 0;    // from memory of another device, without access to it
  std::uint64_t pageable_copies = 0;  // asynchronous ones for which CUDA may wait all the same
  std::uint64_t products = 0;         // cublasLtMatmul
  std::uint64_t recurrences = 0;      // cudnnRNNForward and the two backward calls
  std::uint64_t plans = 0;            // of cuDNN, for convolutions
  std::uint64_t convolutions = 0;     // cudnnBackendExecute
  std::uint64_t blurred = 0;          // those of an engine that rounds more, or in any order
  std::uint64_t handles = 0;          // of cuBLASLt
  // Of device memory, by kernels, in a build without a sanitizer.
  std::uint64_t read_bytes = 0, written_bytes = 0;
};
Counts counts();
void reset_counts();
/// The most blocks of a launch of a kernel, and the most threads of a block.
struct Largest {
  std::uint64_t blocks = 0, threads = 0;
  // Found in launches with three blocks at least, from each thread's number of accesses to device
  // memory, which a build without a sanitizer counts.
  // Whether the last thread of a block had fewer than that of the block before it, other threads of
  // the block had as many, and none had more.
  bool ragged = false;
  // Of launches where that last thread had, in addition, at least as many as it had fewer, because
  // it had elements before: the most blocks of one, and the most threads of all its blocks.
  std::uint64_t repeating_blocks = 0, repeating_threads = 0;
};
/// The kernels that were launched since the last reset_counts().
std::map<const void*, Largest> largest_launches();

/// Ends the program with a message if a canary of a live block was overwritten. Every wait for a
/// whole device and every free makes this check too.
void check_memory();
}  // namespace reel::emulate
