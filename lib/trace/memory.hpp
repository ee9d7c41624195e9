// SPDX-License-Identifier: BSD-3-Clause
// Reads memory of this process without a fault.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace reel::tracing {
constexpr std::uintptr_t page = 4096;
constexpr std::size_t word = sizeof(std::uintptr_t);
/// How many bytes are read behind a pointer. The size of the object there is unknown.
constexpr std::size_t window_bytes = 64;

/// Memory to copy, and how many of its first bytes could be read.
struct Piece {
  std::uintptr_t from;
  void* to;
  std::size_t bytes, read = 0;
};
/// Copies memory of this process. Memory that is not mapped is no error.
void read_memory(std::span<Piece> pieces);
/// Returns false if a part cannot be read.
bool read_memory(std::uintptr_t from, void* to, std::size_t bytes);

/// Says how long memory can be read without a system call and without a fault. Memory of other
/// kinds may be unmapped by free(), or by whoever mapped it.
enum class Mapped : std::uint8_t {
  no,
  constant,     // of a program or a library; nothing writes it
  stack,        // on the stack of this thread, which is not the main one: while the thread runs
  below_break,  // in the heap of brk(): while the break, which sbrk(0) returns, is not below it
  always        // a static, or the used part of the main thread's stack
};
/// For memory that can be read now.
Mapped mapped(std::uintptr_t first, std::size_t bytes);
/// How many of so many bytes behind a pointer belong to its object for certain. What lies behind
/// them may belong to something else, which changes them. glibc's malloc() keeps the size of a
/// block in the word in front of it. A pointer into a block has the rest of the word that it points
/// to, and one to the size of the next block, as the end of a list, has nothing. With another
/// malloc(), a pointer to a multiple of 16 has 16 bytes, as each block begins at one.
std::size_t certain_bytes(std::uintptr_t at, Mapped where, std::size_t bytes);

/// Whether the address is on this stack, below an object of the caller: calls change the memory.
bool is_unused_stack(std::uintptr_t at, std::uintptr_t object);
}  // namespace reel::tracing
