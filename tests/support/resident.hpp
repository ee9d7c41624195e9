// SPDX-License-Identifier: BSD-3-Clause
// How much memory this process holds.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace reel::tests {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;  // a sanitizer does not give freed memory back at once
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

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
