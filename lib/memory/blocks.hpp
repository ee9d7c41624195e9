// SPDX-License-Identifier: BSD-3-Clause
// Memory of bodies: blocks that each thread keeps, and those that all threads share.
#pragma once
#include <cstddef>
#include <cstdint>

#include <reel/memory.hpp>

#include "lib/body/body.hpp"
#include "lib/memory/device_memory.hpp"

namespace reel {
/// Blocks of one size that wait to be used again, newest first.
struct FreeBlock {
  FreeBlock* next;
};
struct FreeList {
  FreeBlock* first = nullptr;
  std::uint32_t count = 0;
};
/// Blocks of n * 64 bytes are of class n; what needs more gets a large block beside its header.
inline constexpr std::size_t block_unit = 64;
inline constexpr std::size_t small_classes = 131;  // header and nearly 8 KiB of elements
inline constexpr std::size_t small_bytes = (small_classes - 1) * block_unit - body_bytes;
/// Classes of which each thread keeps blocks: small ones, and large ones of 8 to 128 KiB.
inline constexpr std::size_t kept_classes = small_classes + 33;

/// The blocks that a thread keeps, and the number of bodies that it has made minus the number that
/// it has freed. Only the sum of these numbers over all threads has a meaning.
struct ThreadMemory {
  FreeList blocks[kept_classes];
  std::size_t list_bytes = 256 << 10;  // of blocks of one size: at most
  std::int64_t live_tensors = 0, live_bytes = 0;
};
/// This thread's; null until it has made a tensor, and when its end has begun.
[[gnu::visibility("hidden")]] extern constinit thread_local ThreadMemory* current_memory;

/// A new body with memory for its elements, row-major. `elements` is shape.elements().
Body* allocate(ThreadMemory& memory, DType dtype, const Shape& shape, std::int64_t elements);
/// A new body in the shape of a row-major body.
Body* allocate_like(ThreadMemory& memory, DType dtype, const Body& like);
/// A new body on any device.
Body* allocate_on(ThreadMemory& memory, Device device, DType dtype, const Shape& shape,
                  std::int64_t elements);
/// The function that a borrowed body calls when nothing uses its elements any more.
struct Keeper {
  void (*release)(void* what) noexcept;
  void* what;
};
/// A new body over `bytes` bytes that the library did not allocate, with a keeper that does
/// nothing. Tensors over this memory are views of it, as a view is never written in place.
Body* allocate_borrowed(ThreadMemory& memory, const void* data, std::int64_t bytes);
/// Called on the thread that releases the body.
Keeper& keeper_of(Body& borrowed);
/// A new body that views `base`'s memory; the same view until the caller sets another.
Body* allocate_view(ThreadMemory& memory, Body* base);

void release(Body* body) noexcept;

/// Is told of each block of elements beside its header, that is of more than small_bytes, on the
/// thread that takes or gives it back. No lock of this module is held.
struct BlockWatch {
  void (*taken)(const void* block, std::int64_t bytes) noexcept;
  void (*given)(const void* block, std::int64_t bytes) noexcept;
};
/// Null: nobody is told. Atomic.
extern constinit const BlockWatch* block_watch;

/// When a thread ends: its blocks go to the others.
void retire_blocks(ThreadMemory& memory);
void return_blocks_to_system();
/// Subtracts the tensors and bytes that threads without a cache of their own have freed.
void subtract_freed(MemoryStatistics& statistics);
/// Adds the cached bytes, and how many large blocks the system was asked for.
void add_shared(MemoryStatistics& statistics);
}  // namespace reel
