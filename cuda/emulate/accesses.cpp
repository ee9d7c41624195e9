// SPDX-License-Identifier: BSD-3-Clause
// Counts the bytes of device memory that kernels read and write. Kernels that are compiled with
// -fsanitize=thread call these functions; ThreadSanitizer itself is not linked. In a build with a
// sanitizer this file is not compiled.
#include <algorithm>
#include <cstdint>

#include "cuda/emulate/block.hpp"
#include "cuda/emulate/state.hpp"

namespace reel::emulate {
namespace {
/// From the first to the last address of all devices, and whether other memory is between two.
struct {
  std::uintptr_t first = 0, bytes = 0;
  bool has_gaps = false;
  Counts* counts = nullptr;
} range;
void find_range() {
  std::uintptr_t first = UINTPTR_MAX, end = 0, sum = 0;
  for (const auto& device : state().devices) {
    const auto from = reinterpret_cast<std::uintptr_t>(device->memory.range().first),
               to = reinterpret_cast<std::uintptr_t>(device->memory.range().second);
    first = std::min(first, from);
    end = std::max(end, to);
    sum += to - from;
  }
  if (end) range = {first, end - first, end - first != sum, &state().counts};
}
bool is_device_memory(const void* at) {
  const auto& devices = state().devices;
  return std::any_of(devices.begin(), devices.end(),
                     [=](const auto& device) { return device->memory.contains(at); });
}
/// Most accesses are to the stack of a fiber. The first comparison excludes them.
void note(const void* at, std::size_t n, std::uint64_t Counts::*total) {
  if (range.bytes == 0) [[unlikely]]
    find_range();
  if (reinterpret_cast<std::uintptr_t>(at) - range.first < range.bytes &&
      (!range.has_gaps || is_device_memory(at))) {
    range.counts->*total += n;
    ++*thread_accesses;
  }
}
void count_read(const volatile void* at, std::size_t n) {
  note(const_cast<const void*>(at), n, &Counts::read_bytes);
}
void count_write(const volatile void* at, std::size_t n) {
  note(const_cast<const void*>(at), n, &Counts::written_bytes);
}
}  // namespace
}  // namespace reel::emulate

using namespace reel::emulate;

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* at, std::size_t n) { count_read(at, n); }
void __tsan_write_range(void* at, std::size_t n) { count_write(at, n); }
#define REEL_ACCESS(n)                                           \
  void __tsan_read##n(void* at) { count_read(at, n); }           \
  void __tsan_write##n(void* at) { count_write(at, n); }         \
  void __tsan_unaligned_read##n(void* at) { count_read(at, n); } \
  void __tsan_unaligned_write##n(void* at) { count_write(at, n); }
REEL_ACCESS(1)
REEL_ACCESS(2)
REEL_ACCESS(4)
REEL_ACCESS(8)
REEL_ACCESS(16)
#undef REEL_ACCESS
// One thread runs kernels at a time, so that the order of memory may always be the strictest.
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#define REEL_ATOMIC(bits, T)                                                                    \
  T __tsan_atomic##bits##_load(const volatile T* at, int) {                                     \
    count_read(at, sizeof(T));                                                                  \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                               \
  }                                                                                             \
  void __tsan_atomic##bits##_store(volatile T* at, T value, int) {                              \
    count_write(at, sizeof(T));                                                                 \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                              \
  }                                                                                             \
  T __tsan_atomic##bits##_fetch_add(volatile T* at, T value, int) {                             \
    count_read(at, sizeof(T)), count_write(at, sizeof(T));                                      \
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);                                     \
  }                                                                                             \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* at, T* expected, T value, int,  \
                                                    int) {                                      \
    count_read(at, sizeof(T)), count_write(at, sizeof(T));                                      \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,            \
                                       __ATOMIC_SEQ_CST);                                       \
  }                                                                                             \
  /* Of clang++. */                                                                             \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* at, T expected, T value, int, int) { \
    __tsan_atomic##bits##_compare_exchange_strong(at, &expected, value, 0, 0);                  \
    return expected;                                                                            \
  }
REEL_ATOMIC(8, std::uint8_t)
REEL_ATOMIC(16, std::uint16_t)
REEL_ATOMIC(32, std::uint32_t)
REEL_ATOMIC(64, std::uint64_t)
#undef REEL_ATOMIC
}
// NOLINTEND(bugprone-reserved-identifier)
