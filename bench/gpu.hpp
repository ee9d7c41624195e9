// SPDX-License-Identifier: BSD-3-Clause
// CUDA by itself, with which gpu.cpp compares reel. Its work runs in a stream of its own.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bare {
/// Copies n floats from one block of the device to another.
void copy(std::size_t n);
/// A product of two n x n matrices of float32 or bfloat16 by cuBLASLt, with the algorithm that it
/// recommends.
void product(std::int64_t n, bool bfloat16);
/// Launches a kernel that does nothing.
void launch();
/// Waits for all that was started here.
void wait();
/// Whether device 0 has the memory pools that cudaMallocAsync needs.
bool memory_pools();
}  // namespace bare
