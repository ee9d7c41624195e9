// SPDX-License-Identifier: BSD-3-Clause
// Reference counts that are atomic once a second thread was made.
#pragma once
#include <cstdint>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define REEL_SINGLE_THREADED __libc_single_threaded
#else
#define REEL_SINGLE_THREADED false
#endif

namespace reel::detail {
/// Relaxed order suffices, because the caller holds a reference.
inline void add_reference(std::uint32_t& count) {
  if (REEL_SINGLE_THREADED)
    ++count;
  else
    __atomic_fetch_add(&count, 1u, __ATOMIC_RELAXED);
}
/// Whether this was the last one.
inline bool drop_reference(std::uint32_t& count) {
  if (REEL_SINGLE_THREADED) return --count == 0;
  return __atomic_fetch_sub(&count, 1u, __ATOMIC_ACQ_REL) == 1;
}
}  // namespace reel::detail

#undef REEL_SINGLE_THREADED
