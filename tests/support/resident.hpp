// SPDX-License-Identifier: BSD-3-Clause
// How much memory this process holds.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <cstdio>

/// Functions of the sanitizers' runtimes, null in a program without a sanitizer. The CUDA emulator
/// has a __tsan_init() too.
extern "C" [[gnu::weak]] void __asan_init();
extern "C" [[gnu::weak]] void* __tsan_get_current_fiber();

namespace reel::tests {
/// Whether the program runs under AddressSanitizer or ThreadSanitizer. The library alone may be
/// compiled for it.
inline const bool under_asan = __asan_init, under_tsan = __tsan_get_current_fiber;
inline const bool sanitized = under_asan || under_tsan;  // freed memory is not given back at once

/// Number i of /proc/self/statm, which counts pages, in bytes.
inline std::int64_t memory_number(int i) {
  long pages[2] = {};
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (!file) return 0;
  if (std::fscanf(file, "%ld %ld", pages, pages + 1) != 2) pages[i] = 0;
  std::fclose(file);
  return pages[i] * sysconf(_SC_PAGESIZE);
}
inline std::int64_t mapped_bytes() { return memory_number(0); }
inline std::int64_t resident_bytes() { return memory_number(1); }
}  // namespace reel::tests
