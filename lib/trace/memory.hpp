// SPDX-License-Identifier: BSD-3-Clause
// Reads memory of this process without a fault, and finds out about the blocks of glibc's malloc().
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <unordered_map>
#include <vector>

namespace reel::tracing {
constexpr std::uintptr_t page = 4096;
constexpr std::size_t word = sizeof(std::uintptr_t);
/// The number of bytes that are read of a static, and behind an address in the middle of an object.
constexpr std::size_t unknown_bytes = 64;

/// Copies memory of this process. Returns false, without a fault, if a part cannot be read.
bool read_memory(std::uintptr_t from, void* to, std::size_t bytes);

/// Memory outside of malloc(). If the watch used malloc(), a stale pointer of the function could
/// lead to the blocks of the watch. Their changes would look like changed state.
class MappedMemory : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* first, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

/// Memory of this process. Each page keeps the content that it had at its first read.
class Memory {
 public:
  bool read(std::uintptr_t from, void* to, std::size_t bytes);
  /// Whether the address is in a writable static of a program or a library.
  bool is_static(std::uintptr_t at);
  struct Block {
    std::uintptr_t first, end, size_word;  // empty if the block is not in use
  };
  /// The block of malloc() that contains this address. Empty if the address is not in the heap of
  /// brk().
  std::optional<Block> block_around(std::uintptr_t at);

 private:
  void find_blocks();
  bool blocks_known_ = false;
  MappedMemory mapped_;
  std::pmr::monotonic_buffer_resource own_{std::size_t{1} << 18, &mapped_};
  std::pmr::vector<std::uintptr_t> blocks_{&own_};  // all between heap_ and heap_end_
  std::uintptr_t heap_ = 0, heap_end_ = 0;
  std::pmr::unordered_map<std::uintptr_t, bool> static_{&own_};
  std::pmr::unordered_map<std::uintptr_t, std::byte*> pages_{&own_};  // null: not mapped
};

/// Says how long memory can be read without a system call and without a fault. Memory of other
/// kinds may be unmapped by free(), or by whoever mapped it.
enum class Mapped : std::uint8_t {
  no,
  stack,        // on the stack of this thread, which is not the main one: while the thread runs
  below_break,  // in the heap of brk(): while the break, which sbrk(0) returns, is not below it
  main_stack,   // on the stack of the main thread: always
  always        // a static; or the first memory of an arena of malloc(), which it never gives back
};
Mapped mapped(Memory& memory, std::uintptr_t first, std::size_t bytes);

/// The end of this thread's stack if `at` is in an active frame, else 0.
std::uintptr_t stack_end(std::uintptr_t at);
/// The key that free() writes into the second word of a small block; 0 if it is unknown. glibc has
/// one random key for the process. Older versions have an address for each thread, and another
/// malloc() may leave what was in the blocks: so two blocks of different sizes must get one key.
std::uintptr_t key_of_free();
/// Whether `bytes`, the content of the memory at `at`, looks like a free block in a list of
/// malloc(), or like one that has become a part of another block. Such a block begins with the
/// addresses of two blocks, or of the list. A small object in use may still hold the second
/// address.
bool is_waiting_block(Memory& memory, std::uintptr_t at, const std::byte* bytes, std::size_t count);
/// The size of the block of malloc() that starts here; 0 if no block in use starts here.
std::size_t heap_bytes(Memory& memory, std::uintptr_t at);
/// The number of bytes from an address inside of an object to the end of its block. If no block is
/// found nearby, the result is one word: the address may be on the stack of another thread, which
/// writes next to the object.
std::size_t bytes_inside(Memory& memory, std::uintptr_t at);
}  // namespace reel::tracing
