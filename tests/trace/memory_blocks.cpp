// SPDX-License-Identifier: BSD-3-Clause
// Compares what the watch of state finds out about blocks of malloc() with what malloc() reports.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <thread>

#include "trace/memory.hpp"

namespace reel::tests {
TEST_CASE("blocks of malloc() are as large as it says") {
  if (sanitized) return;
  const auto check = [] {
    for (const std::size_t bytes :
         {1u, 24u, 25u, 40u, 100u, 1000u, 5000u, 100'000u, 135'000u, 200'000u, 3'000'000u}) {
      const Block block(bytes);
      Memory memory;
      INFO(bytes << " bytes of " << block.usable());
      CHECK(tracing::heap_bytes(memory, address(block.first)) == block.usable());
      CHECK(tracing::heap_bytes(memory, address(block.first) + 8) == 0);
      // The same for a block of zeros.
      std::memset(block.first, 0, bytes);
      Memory again;
      CHECK(tracing::heap_bytes(again, address(block.first)) == block.usable());
    }
  };
  check();
  std::thread(check).join();  // with blocks of the thread's own arena
}

TEST_CASE("a block in use may begin with what looks like the address of a free block") {
  if (sanitized) return;
  for (const std::size_t bytes : {24u, 100u, 1000u}) {
    INFO(bytes << " bytes");
    const Block block(bytes), other(bytes), large(5000);
    const std::uintptr_t at = address(block.first);
    for (const std::uintptr_t next : {address(large.first) + 1600, address(other.first)}) {
      // the second word is the double 1
      const std::uintptr_t words[] = {next ^ at >> 12, 0x3ff0000000000000};
      std::memcpy(block.first, words, sizeof words);
      Memory memory;
      CHECK(tracing::heap_bytes(memory, at) == block.usable());
      CHECK(tracing::bytes_inside(memory, at) == std::min<std::size_t>(block.usable(), 64));
    }
  }
}

TEST_CASE("an object that begins with one of the standard streams is no free block") {
  for (std::FILE* const stream : {stdin, stdout, stderr}) {
    std::array<std::byte, 16> words = {};
    std::memcpy(words.data(), &stream, sizeof stream);
    Memory memory;
    CHECK_FALSE(tracing::is_waiting_block(memory, address(words.data()), words.data(), 16));
  }
}

TEST_CASE("blocks that were given back are none in use", "[cpu]") {
  if (sanitized) return;
  // malloc() does not change small free blocks
  for (const std::size_t bytes : {40u, 500u, 5000u}) {
    INFO(bytes << " bytes");
    auto first = std::make_unique<Block>(bytes);
    const Block between(5000);
    auto second = std::make_unique<Block>(bytes);
    const Block behind(5000);
    const std::array<std::uintptr_t, 2> freed = {address(first->first), address(second->first)};
    first.reset(), second.reset();
    Memory memory;
    for (const std::uintptr_t at : freed) {
      CHECK(tracing::heap_bytes(memory, at) == 0);
      CHECK(tracing::bytes_inside(memory, at + 16) == 0);
    }
    CHECK(tracing::heap_bytes(memory, address(between.first)) == between.usable());
  }
  // A free block that is in no list of a thread begins with the address of its list.
  auto block = std::make_unique<Block>(5000);
  const Block behind(5000);
  const std::uintptr_t at = address(block->first);
  std::array<std::byte, 16> words = {};
  block.reset();
  const bool read = tracing::read_memory(at, words.data(), 16);
  CHECK(read);
  Memory memory;
  CHECK(tracing::is_waiting_block(memory, at, words.data(), 16));
  REQUIRE(memory.block_around(at));
  CHECK(memory.block_around(at)->end == memory.block_around(at)->first);
}

TEST_CASE("words tell what looks like a block of malloc()") {
  if (sanitized) return;
  const Block buffer(8192);
  std::byte* const at = buffer.first + 5120;
  const std::uintptr_t here = address(at);
  /// The size that is found for a block with this size word, these first two words, and this size
  /// word of the next block.
  std::array<std::uintptr_t, 2> other = {here, 0};  // the address of one more word, and the word
  const auto bytes = [&](std::uintptr_t size, std::uintptr_t first, std::uintptr_t key,
                         std::uintptr_t behind) {
    std::memset(buffer.first, 0xff, 8192);
    std::memcpy(at + (other[0] - here), &other[1], 8);
    std::memcpy(at - 8, &size, 8);
    std::memcpy(at, &first, 8);
    std::memcpy(at + 8, &key, 8);
    std::memcpy(at + (size & ~std::uintptr_t{7}) - 8, &behind, 8);
    Memory memory;
    return tracing::heap_bytes(memory, here);
  };
  CHECK(bytes(65, 5, 0, 33) == 56);
  CHECK(bytes(1025, 5, 6, 33) == 1016);
  CHECK(bytes(64, 5, 0, 33) == 56);  // the previous block is free
  CHECK(bytes(33, 5, 0, 33) == 24);
  for (const std::uintptr_t size : {17, 25, 41, 73}) CHECK(bytes(size, 5, 0, 33) == 0);
  CHECK(bytes(65, 5, 0, 32) == 0);  // the next block says that this block is free
  CHECK(bytes(65, 5, 0, 17) == 0);  // no block is so small
  CHECK(bytes(65, 5, 0, 33) == 56);
  std::memmove(at, at - 8, 128);  // blocks begin at multiples of 16 only
  Memory shifted;
  CHECK(tracing::heap_bytes(shifted, here + 8) == 0);
  // A free block that malloc() keeps has the key. It leads to another free block with the same key
  // or size, or to none.
  const std::uintptr_t known = tracing::key_of_free();
  const auto leads_to = [&](std::uintptr_t next) { return next ^ here >> 12; };
  if (known) CHECK(bytes(1025, leads_to(0), known, 33) == 0);
  if (known) CHECK(bytes(1025, 5, known, 33) == 1016);  // the end of a thread left the key
  CHECK(bytes(65, leads_to(0), 9, 33) == 0);
  CHECK(bytes(1025, leads_to(0), 9, 33) == (known ? 1016 : 0));
  CHECK(bytes(65, leads_to(0), 0, 33) == 56);
  for (const std::uintptr_t next : {here + 80, here - 80}) {
    for (const std::uintptr_t there : {9u, 65u, 64u, 69u}) {
      other = {next + 8, there};
      CHECK(bytes(65, leads_to(next), 9, 33) == 0);
      CHECK(bytes(65, leads_to(next), 0, 33) == 56);
    }
    for (const std::uintptr_t there : {0u, 8u, 49u, 81u}) {
      other = {next + 8, there};
      CHECK(bytes(65, leads_to(next), 9, 33) == 56);
    }
  }
  for (const std::uintptr_t next : {here + 88, here - 84}) {  // not multiples of 16
    other = {next + 8, 9};
    CHECK(bytes(65, leads_to(next), 9, 33) == 56);
  }
  const std::uintptr_t far = std::uintptr_t{1} << 26;
  other = {here, 0};
  for (const std::uintptr_t next : {here + far + 16, here - far - 16, std::uintptr_t{1} << 46})
    CHECK(bytes(65, leads_to(next), 9, 33) == 56);
  // Addresses inside of the block.
  CHECK(bytes(1025, 5, 0, 33) == 1016);
  Memory memory;
  for (const std::size_t inside : {0u, 1u, 16u, 500u, 960u, 1000u, 1015u})
    CHECK(tracing::bytes_inside(memory, here + inside) == std::min<std::size_t>(64, 1016 - inside));
  for (const std::size_t inside : {1016u, 1017u, 1020u})  // these belong to the next block
    CHECK(tracing::bytes_inside(memory, here + inside) == 8 - inside % 8);
}

TEST_CASE("blocks with a mapping, or an arena, of their own") {
  if (sanitized) return;
  const Pages pages(4);
  const auto mapped = [&](std::size_t at, std::uintptr_t size) {
    std::memcpy(pages + (at - 8), &size, 8);
    Memory memory;
    return tracing::heap_bytes(memory, address(pages + at));
  };
  CHECK(mapped(16, 2 * page | 2) == 2 * page - 16);
  CHECK(mapped(page + 16, page | 2) == page - 16);
  CHECK(mapped(32, 2 * page | 2) == 0);
  CHECK(mapped(16, (std::uintptr_t{1} << 32) | 2) == 0);
  CHECK(mapped(16, ((std::uintptr_t{1} << 32) - page) | 2) ==
        (std::uintptr_t{1} << 32) - page - 16);

  constexpr std::size_t arena_bytes = std::size_t{64} << 20;
  auto* const reserved = static_cast<std::byte*>(mmap(
      nullptr, 2 * arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  std::byte* const arena = reserved + (arena_bytes - address(reserved) % arena_bytes) % arena_bytes;
  REQUIRE(mprotect(arena, page, PROT_READ | PROT_WRITE) == 0);
  const auto of_arena = [&](std::uintptr_t begins_with) {
    std::memset(arena, 0, page);
    const std::uintptr_t size = 64 | 4 | 1, behind = 33;
    std::memcpy(arena, &begins_with, 8);
    std::memcpy(arena + 504, &size, 8);
    std::memcpy(arena + 504 + 64, &behind, 8);
    Memory memory;
    return tracing::heap_bytes(memory, address(arena + 512));
  };
  CHECK(of_arena(address(pages + 0)) == 56);
  CHECK(of_arena(address(pages + 1)) == 0);
  CHECK(of_arena(0) == 0);
  CHECK(of_arena(address(arena + page)) == 0);  // the page cannot be read
  munmap(reserved, 2 * arena_bytes);
}

TEST_CASE("an address inside of a block has the rest of it, 64 bytes at most") {
  if (sanitized) return;
  const Block block(6000), small(100);
  std::memset(block.first, 0, 6000);  // old content may look like a block
  std::memset(small.first, 0, 100);
  Memory memory;
  for (const std::size_t inside : {0u, 1u, 8u, 100u, 1000u, 4000u, 4095u})
    CHECK(tracing::bytes_inside(memory, address(block.first) + inside) == 64);
  for (const std::size_t inside : {4201u, 4204u, 5000u})  // too far from the start of the block
    CHECK(tracing::bytes_inside(memory, address(block.first) + inside) == 8 - inside % 8);
  for (const std::size_t inside : {0u, 30u, 60u, 80u, 103u})
    CHECK(tracing::bytes_inside(memory, address(small.first) + inside) ==
          std::min<std::size_t>(64, small.usable() - inside));
}

TEST_CASE(
    "a block waits where it begins with a static of the C library, or one and another block") {
  const auto waits = [](std::uintptr_t first, std::uintptr_t second, std::size_t count) {
    const std::array<std::uintptr_t, 2> words = {first, second};
    Memory memory;
    return tracing::is_waiting_block(memory, address(words.data()),
                                     reinterpret_cast<const std::byte*>(words.data()), count);
  };
  alignas(16) static int written = 1;
  const std::uintptr_t list = address(stdout) + 8;
  CHECK(waits(list, 0, 16));
  CHECK(waits(address(&written), list, 16));
  CHECK(waits(list, list, 16));
  CHECK(waits(list, 0, 8));
  CHECK_FALSE(waits(0, list, 8));
  CHECK_FALSE(waits(0, list, 16));  // a number of the user, in front of an old content
  CHECK_FALSE(waits(160, list, 16));
  CHECK_FALSE(waits(address(&written) + 8, list, 16));
  CHECK_FALSE(waits(0, 0, 16));
  CHECK_FALSE(waits(1, address(&written), 16));
  CHECK_FALSE(waits(address(&list), ~std::uintptr_t{0}, 16));
}

TEST_CASE("a small object in a block that waited before is in use") {
  if (sanitized) return;
  const Block block(24), other(24);
  const std::uintptr_t words[] = {address(other.first), address(stdout) + 8};
  std::memcpy(block.first, words, sizeof words);
  Memory memory;
  CHECK_FALSE(tracing::is_waiting_block(memory, address(block.first), block.first, 16));
  CHECK(tracing::is_waiting_block(memory, address(block.first) + 16, block.first, 16));
}
}  // namespace reel::tests
