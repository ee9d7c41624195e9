// SPDX-License-Identifier: BSD-3-Clause
// Where the small blocks of malloc() lie.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "lib/trace/memory.hpp"

namespace reel::tests {
/// Replays compare what lies in the main heap, not in the heap of another thread. A block that
/// another thread has allocated and this one has freed may be the next one that this thread gets.
/// This object takes such blocks, so that small blocks of this thread come from the main heap.
class MainHeap {
 public:
  MainHeap() {
    constexpr std::size_t least = 24, most = 1032, kept_free = 7;  // of one size, by glibc
    for (std::size_t bytes = least; bytes <= most; bytes += 16) {
      void* own[kept_free];
      std::size_t count = 0;
      for (std::size_t i = 0; i < kept_free; ++i) {
        void* const block = std::malloc(bytes);
        const bool is_main = tracing::mapped(reinterpret_cast<std::uintptr_t>(block),
                                             tracing::word) == tracing::Mapped::below_break;
        (is_main ? own[count++] : taken_.emplace_back()) = block;
      }
      while (count) std::free(own[--count]);
    }
  }
  ~MainHeap() {
    for (void* const block : taken_) std::free(block);
  }
  MainHeap(const MainHeap&) = delete;
  MainHeap& operator=(const MainHeap&) = delete;

 private:
  std::vector<void*> taken_;
};
}  // namespace reel::tests
