// SPDX-License-Identifier: BSD-3-Clause
// Memory of this process that is read without a fault, and what glibc says of its blocks.
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
/// So much is read of a static, and of what an address leads into the middle of.
constexpr std::size_t unknown_bytes = 64;

/// Copies memory of this process; false, without a fault, if some of it cannot be read.
bool read_memory(std::uintptr_t from, void* to, std::size_t bytes);

/// Memory of its own, outside of malloc()'s: blocks that the watch itself takes and gives back
/// would look like state of the function where a stale pointer leads to them.
class MappedMemory : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* first, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

/// Memory of this process as it was when it was read first.
class Memory {
 public:
  bool read(std::uintptr_t from, void* to, std::size_t bytes);
  /// Whether it is a static, of a program or a library, that can be written.
  bool is_static(std::uintptr_t at);
  struct Block {
    std::uintptr_t first, end, size_word;  // empty if nobody uses it
  };
  /// The block of malloc() that an address is in; none outside of the memory behind the program.
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

/// Whether memory can be read without a system call, and without a fault, for as long as a trace
/// may live. Others is given back to the system by free(), or by whoever mapped it.
enum class Mapped : std::uint8_t {
  no,
  stack,        // of this thread, which is not the main one: as long as it runs
  below_break,  // behind the program: as long as the break, which sbrk(0) tells, is not below it
  main_stack,   // of the main thread: always
  always        // a static; or the first memory of an arena of malloc(), which it never gives back
};
Mapped mapped(Memory& memory, std::uintptr_t first, std::size_t bytes);

/// The end of this thread's stack if `at` is in a frame that is in use, else 0.
std::uintptr_t stack_end(std::uintptr_t at);
/// Whether the memory at `at`, of which this is a copy, looks like a block that waits in a list of
/// malloc(), or did so before it became a part of another: it begins with the addresses of two
/// blocks, or of the list. A small object in use may have left the second of them as it was.
bool is_waiting_block(Memory& memory, std::uintptr_t at, const std::byte* bytes, std::size_t count);
/// How much there is in the block of malloc() that starts here; 0 if none in use does.
std::size_t heap_bytes(Memory& memory, std::uintptr_t at);
/// The rest of the block that an address inside of an object is in. Where none is near, it may be
/// on the stack of another thread, which writes what is beside the object: one word.
std::size_t bytes_inside(Memory& memory, std::uintptr_t at);
}  // namespace reel::tracing
