// SPDX-License-Identifier: BSD-3-Clause
// The interface to the sanitizer that a program was built with. The emulator is built without a
// sanitizer and looks for these functions at run time. So one library works with every build.
#pragma once
#include <cstddef>

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
#define REEL_WEAK __attribute__((weak))
REEL_WEAK void __sanitizer_start_switch_fiber(void** save, const void* bottom, std::size_t bytes);
REEL_WEAK void __sanitizer_finish_switch_fiber(void* saved, const void** bottom,
                                               std::size_t* bytes);
REEL_WEAK void __asan_poison_memory_region(const volatile void* at, std::size_t bytes);
REEL_WEAK void __asan_unpoison_memory_region(const volatile void* at, std::size_t bytes);
REEL_WEAK void* __asan_region_is_poisoned(void* at, std::size_t bytes);
REEL_WEAK void* __tsan_get_current_fiber();
REEL_WEAK void* __tsan_create_fiber(unsigned flags);
REEL_WEAK void __tsan_switch_to_fiber(void* fiber, unsigned flags);
REEL_WEAK void __tsan_acquire(void* clock);
REEL_WEAK void __tsan_release(void* clock);
REEL_WEAK void __tsan_read_range(void* at, std::size_t bytes);
REEL_WEAK void __tsan_write_range(void* at, std::size_t bytes);
REEL_WEAK void AnnotateIgnoreReadsBegin(const char* file, int line);
REEL_WEAK void AnnotateIgnoreWritesBegin(const char* file, int line);
#undef REEL_WEAK
}
// NOLINTEND(bugprone-reserved-identifier)

namespace reel::emulate {
inline bool address_sanitizer() { return __asan_poison_memory_region != nullptr; }
inline bool thread_sanitizer() { return __tsan_create_fiber != nullptr; }

inline void poison(const void* at, std::size_t bytes) {
  if (address_sanitizer() && bytes) __asan_poison_memory_region(at, bytes);
}
inline void unpoison(const void* at, std::size_t bytes) {
  if (address_sanitizer() && bytes) __asan_unpoison_memory_region(at, bytes);
}

/// A thread for ThreadSanitizer: a CUDA thread, a stream or a host thread. Only a Clock orders two
/// identities. Null without ThreadSanitizer.
using Identity = void*;
inline Identity identity() { return thread_sanitizer() ? __tsan_get_current_fiber() : nullptr; }
inline Identity new_identity() { return thread_sanitizer() ? __tsan_create_fiber(0) : nullptr; }
inline void become(Identity who) {
  constexpr unsigned no_order = 1;
  if (thread_sanitizer()) __tsan_switch_to_fiber(who, no_order);
}
/// The identity of the emulator's own code. Its accesses are ignored, and memory that it allocates
/// has no access history.
Identity emulator_identity();

/// Work before a release() is ordered before work after a later acquire().
struct Clock {
  char byte = 0;
  void acquire() {
    if (thread_sanitizer()) __tsan_acquire(&byte);
  }
  void release() {
    if (thread_sanitizer()) __tsan_release(&byte);
  }
};

/// Record accesses by uninstrumented code (copies, reference products) for the current identity.
/// They return the first byte that AddressSanitizer knows to be out of bounds, or null.
inline void* note_read(const void* at, std::size_t bytes) {
  void* const from = const_cast<void*>(at);
  if (thread_sanitizer() && bytes) __tsan_read_range(from, bytes);
  return address_sanitizer() && bytes ? __asan_region_is_poisoned(from, bytes) : nullptr;
}
inline void* note_write(void* at, std::size_t bytes) {
  if (thread_sanitizer() && bytes) __tsan_write_range(at, bytes);
  return address_sanitizer() && bytes ? __asan_region_is_poisoned(at, bytes) : nullptr;
}
}  // namespace reel::emulate
