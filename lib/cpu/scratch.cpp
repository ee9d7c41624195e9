// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/scratch.hpp"

#include <new>

namespace reel::kernels {
namespace {
constexpr std::align_val_t alignment{64};

struct Buffer {
  void* memory = nullptr;
  std::size_t bytes = 0;
  ~Buffer() { ::operator delete(memory, alignment); }
};
thread_local Buffer buffer;
}  // namespace

void* scratch(std::size_t bytes) {
  if (bytes <= buffer.bytes && buffer.memory) return buffer.memory;
  ::operator delete(buffer.memory, alignment);
  const std::size_t grown = bytes + bytes / 2 + 4096;
  buffer.memory = ::operator new(grown, alignment, std::nothrow);
  buffer.bytes = buffer.memory ? grown : 0;
  return buffer.memory;
}
}  // namespace reel::kernels
