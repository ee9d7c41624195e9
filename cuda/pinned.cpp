// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/pinned.hpp"

#include <algorithm>

#include "cuda/gpu.hpp"

namespace reel::gpu {
cudaError_t Pinned::take(int device, std::size_t bytes, std::byte*& block) {
  const std::size_t size = rounded(std::max<std::size_t>(bytes, 1));
  const std::lock_guard held(mutex_);
  block = nullptr;
  for (auto& [first, each] : blocks_) {
    if (each.used || each.bytes != size) continue;
    cudaError_t error = cudaSuccess;
    for (const Read& read : each.reads)
      if (error == cudaSuccess) error = cudaEventQuery(read.done);
    if (error == cudaErrorNotReady) {
      cudaGetLastError();
      continue;
    }
    if (error != cudaSuccess) return error;
    each.used = true;
    block = first;
    return cudaSuccess;
  }
  const Current current(device);
  void* made = nullptr;
  const cudaError_t error = cudaMallocHost(&made, size);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return cudaSuccess;
  }
  if (error != cudaSuccess) return error;
  block = static_cast<std::byte*>(made);
  Block& one = blocks_[block];
  one.bytes = size;
  one.device = device;
  return cudaSuccess;
}
void Pinned::give(std::byte* block) noexcept {
  const std::lock_guard held(mutex_);
  const auto found = blocks_.find(block);
  found->second.used = false;
  if (!keeps_memory) free_block(found);
}
void Pinned::trim() noexcept {
  const std::lock_guard held(mutex_);
  for (auto each = blocks_.begin(); each != blocks_.end();)
    each = each->second.used ? std::next(each) : free_block(each);
}
Pinned::Blocks::iterator Pinned::free_block(Blocks::iterator block) noexcept {
  const Current current(block->second.device);
  for (const Read& read : block->second.reads) {
    cudaEventSynchronize(read.done);
    cudaEventDestroy(read.done);
  }
  cudaFreeHost(block->first);
  return blocks_.erase(block);
}
cudaError_t Pinned::upload(cudaStream_t stream, std::byte* to, const std::byte* from,
                           std::size_t bytes, bool& copied) {
  const std::lock_guard held(mutex_);
  auto found = blocks_.upper_bound(const_cast<std::byte*>(from));
  if (found == blocks_.begin()) return cudaSuccess;
  auto& [first, block] = *--found;
  if (!std::less<>()(from, first + block.bytes)) return cudaSuccess;
  auto read = std::find_if(block.reads.begin(), block.reads.end(),
                           [&](const Read& each) { return each.stream == stream; });
  if (read == block.reads.end()) {
    cudaEvent_t done = nullptr;
    if (const cudaError_t error = cudaEventCreateWithFlags(&done, cudaEventDisableTiming))
      return error;
    read = block.reads.insert(read, {stream, done});
  }
  if (const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream))
    return error;
  copied = true;
  return cudaEventRecord(read->done, stream);
}
}  // namespace reel::gpu
