// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/own_memory.hpp"

#include <sys/mman.h>

#include <new>

// LeakSanitizer's, where the program has it. It looks for pointers in the heap and in statics only.

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" [[gnu::weak]] void __lsan_register_root_region(const void* first, std::size_t bytes);
extern "C" [[gnu::weak]] void __lsan_unregister_root_region(const void* first, std::size_t bytes);
// NOLINTEND(bugprone-reserved-identifier)

namespace reel::gpu {
namespace {
struct Mapped : std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t) override {
    void* const first =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (first == MAP_FAILED) throw std::bad_alloc();
    if (__lsan_register_root_region) __lsan_register_root_region(first, bytes);
    return first;
  }
  void do_deallocate(void* first, std::size_t bytes, std::size_t) override {
    if (__lsan_unregister_root_region) __lsan_unregister_root_region(first, bytes);
    munmap(first, bytes);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};
}  // namespace

std::pmr::memory_resource& own_memory() {
  static auto* const mapped = new Mapped;
  static auto* const pool = new std::pmr::synchronized_pool_resource(mapped);
  return *pool;
}
}  // namespace reel::gpu
