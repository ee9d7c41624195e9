// SPDX-License-Identifier: BSD-3-Clause
// Memory with known content and known ends.
#pragma once
#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "lib/trace/memory.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
using tracing::Memory;
using tracing::page;

inline std::uintptr_t address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

/// Readable and writable pages, followed by one that cannot be read.
class Pages {
 public:
  explicit Pages(std::size_t count) : bytes_((count + 1) * page) {
    first_ = static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    mprotect(first_ + count * page, page, PROT_NONE);
    for (std::size_t i = 0; i < count * page; ++i) first_[i] = static_cast<std::byte>(i * 31 >> 3);
  }
  ~Pages() { munmap(first_, bytes_); }
  std::byte* operator+(std::size_t at) const { return first_ + at; }

 private:
  std::byte* first_;
  std::size_t bytes_;
};

/// A block of malloc(), filled with words that no block begins with.
struct Block {
  explicit Block(std::size_t bytes) : first(static_cast<std::byte*>(std::malloc(bytes))) {
    std::memset(first, 0xff, bytes);
  }
  ~Block() { std::free(first); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  std::size_t usable() const { return malloc_usable_size(first); }
  std::byte* const first;
};

}  // namespace reel::tests
