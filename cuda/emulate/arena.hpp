// SPDX-License-Identifier: BSD-3-Clause
// The memory of one device. No code can access its pages while no device work runs. Where the CPU
// has protection keys, the pages of live blocks have the key of the arena, and each thread opens
// and closes the key with one instruction. Otherwise each block is opened at its first access, and
// closed, by system calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cuda/emulate/sanitizers.hpp"

namespace reel::emulate {
/// One allocation. It has its own pages, with a closed page before and after them. The block ends
/// at the end of its last page, up to CUDA's alignment of 256 bytes. The remaining bytes are a
/// canary.
struct MemoryBlock {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  std::byte* pages = nullptr;
  std::size_t page_bytes = 0;
  bool live = false;     // false until the stream reaches an allocation in stream order
  bool keyed = false;    // its pages have the key of the arena
  bool open = false;     // the running work may access it; not used if it is keyed
  bool freeing = false;  // cudaFreeAsync was called
  bool of_graph = false;
  bool of_pool = false;
  bool kept = false;  // a launched graph allocated it, and the host has not freed it
  MemoryBlock* next_open = nullptr;

  bool holds(const void* address, std::size_t size) const {
    const auto* const from = static_cast<const std::byte*>(address);
    return from >= at && from <= at + bytes && size <= std::size_t(at + bytes - from);
  }
};

class Arena {
 public:
  /// Memory that the host also uses stays open.
  explicit Arena(bool always_open = false);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Filled with 0xFF, which is NaN. Null if all addresses are in use.
  MemoryBlock* allocate(std::size_t bytes);
  /// Call it when the stream reaches the allocation. The content becomes NaN again.
  void begin(MemoryBlock& block);
  /// Closes a block and keeps its addresses. Call begin() before the next use.
  void end(MemoryBlock& block);
  /// Checks the canaries, then closes the block.
  void release(MemoryBlock& block);
  bool contains(const void* address) const { return address >= base_ && address < end_; }
  /// The first address and the end.
  std::pair<const void*, const void*> range() const { return {base_, end_}; }
  /// The live block that contains the address, canaries included. Null if there is none.
  MemoryBlock* find(const void* address);
  /// The freed block that contained the address last. Null if it is not known.
  const MemoryBlock* find_freed(const void* address) const;

  /// Opens a block. If it is keyed, all keyed blocks are opened, for this thread only.
  void open(MemoryBlock& block);
  /// Opens all keyed blocks for this thread.
  void open_all() const;
  /// Closes all blocks that were opened. Keyed blocks are closed for this thread only.
  void close_all();
  /// Ends the program if a canary was overwritten.
  void check();
  std::size_t used() const { return used_; }
  std::size_t live_blocks() const { return blocks_.size(); }

 private:
  void protect(const MemoryBlock& block, bool open) const;
  void set_key(unsigned rights) const;
  void check(const MemoryBlock& block) const;

  const bool always_open_;
  int key_ = -1;  // -1: none
  std::byte* base_;
  std::byte* end_;
  std::byte* next_;
  std::map<const std::byte*, MemoryBlock> blocks_;  // key: the first page
  std::vector<MemoryBlock> freed_;                  // the most recent ones, for reports
  std::size_t freed_at_ = 0;
  MemoryBlock* first_open_ = nullptr;
  std::size_t used_ = 0;
};

/// Installs the handler for accesses to closed memory. It opens the block, or ends the program with
/// a report.
void catch_faults();
}  // namespace reel::emulate
