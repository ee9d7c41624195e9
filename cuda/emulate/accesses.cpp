// SPDX-License-Identifier: BSD-3-Clause
// Counts the bytes of device memory that kernels read and write. Kernels that are compiled with
// -fsanitize=thread call these functions; ThreadSanitizer itself is not linked. In a build with a
// sanitizer this file is not compiled.
#include <algorithm>
#include <cstdint>

#include "cuda/emulate/state.hpp"

namespace reel::emulate {
namespace {
bool is_device_memory(const void* at) {
  const auto& devices = state().devices;
  return std::any_of(devices.begin(), devices.end(),
                     [=](const auto& device) { return device->memory.contains(at); });
}
void note(const void* at, std::size_t bytes, std::uint64_t& total) {
  if (is_device_memory(at)) total += bytes;
}
}  // namespace
}  // namespace reel::emulate

using namespace reel::emulate;

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_read_range(void* at, std::size_t n) { note(at, n, state().counts.read_bytes); }
void __tsan_write_range(void* at, std::size_t n) { note(at, n, state().counts.written_bytes); }
#define REEL_ACCESS(n)                                                  \
  void __tsan_read##n(void* at) { __tsan_read_range(at, n); }           \
  void __tsan_write##n(void* at) { __tsan_write_range(at, n); }         \
  void __tsan_unaligned_read##n(void* at) { __tsan_read_range(at, n); } \
  void __tsan_unaligned_write##n(void* at) { __tsan_write_range(at, n); }
REEL_ACCESS(1)
REEL_ACCESS(2)
REEL_ACCESS(4)
REEL_ACCESS(8)
REEL_ACCESS(16)
#undef REEL_ACCESS
// Reports of kernels.
std::uint64_t __tsan_atomic64_load(const volatile std::uint64_t* at, int) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
int __tsan_atomic64_compare_exchange_strong(volatile std::uint64_t* at, std::uint64_t* expected,
                                            std::uint64_t value, int, int) {
  return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}
}
// NOLINTEND(bugprone-reserved-identifier)
