// SPDX-License-Identifier: BSD-3-Clause
#include "lib/pool/scratch.hpp"

#include <new>
#include <utility>

#include "lib/pool/process.hpp"

namespace reel::kernels {
namespace {
constexpr std::align_val_t alignment{64};

struct Buffer : ThreadEnd {
  void* memory = nullptr;
  std::size_t bytes = 0;
  constexpr Buffer() : ThreadEnd{[](ThreadEnd& end) { static_cast<Buffer&>(end).clear(); }} {}
  void clear() {
    bytes = 0;
    ::operator delete(std::exchange(memory, nullptr), alignment);
  }
};
constinit thread_local Buffer passing, lasting;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool spare = false;  // the sanitizer reports accesses beyond the end
#else
constexpr bool spare = true;
#endif

void* memory_of(Buffer& buffer, std::size_t bytes) {
  if (spare && bytes <= buffer.bytes && buffer.memory) return buffer.memory;
  buffer.clear();
  const std::size_t grown = spare ? bytes + bytes / 2 + 4096 : bytes;
  buffer.memory = ::operator new(grown, alignment, std::nothrow);
  if (!buffer.memory) throw NoScratch{grown};
  buffer.bytes = grown;
  at_thread_end(buffer);
  return buffer.memory;
}
}  // namespace

void* scratch(std::size_t bytes) { return memory_of(passing, bytes); }
void* lasting_scratch(std::size_t bytes) { return memory_of(lasting, bytes); }
}  // namespace reel::kernels
