// SPDX-License-Identifier: BSD-3-Clause
// Memory of the host that devices read by themselves, for tensors.
#pragma once
#include <functional>
#include <mutex>

#include "cuda/own_memory.hpp"
#include "cuda/queue.hpp"

namespace reel::gpu {
/// Keeps released blocks. A block is used again when all streams have read what was copied from it.
class Pinned {
 public:
  /// Null in `block` if there is no such memory. `device` is one whose context is made anyway.
  cudaError_t take(int device, std::size_t bytes, std::byte*& block);
  void give(std::byte* block) noexcept;
  /// Frees what no tensor uses. Waits for the copies from it.
  void trim() noexcept;
  /// Queues a copy to the stream's device if `from` is in a block. Else `copied` stays false.
  cudaError_t upload(cudaStream_t stream, std::byte* to, const std::byte* from, std::size_t bytes,
                     bool& copied);

 private:
  struct Read {
    cudaStream_t stream;
    cudaEvent_t done;  // recorded after the last copy on this stream
  };
  struct Block {
    std::size_t bytes = 0;
    int device = 0;  // that was the current one when it was made
    bool used = true;
    OwnVector<Read> reads = {};
  };
  using Blocks = OwnMap<std::byte*, Block>;
  Blocks::iterator free_block(Blocks::iterator block) noexcept;

  std::mutex mutex_;
  Blocks blocks_;
};
}  // namespace reel::gpu
