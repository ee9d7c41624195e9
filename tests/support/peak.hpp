// SPDX-License-Identifier: BSD-3-Clause
// The memory that a function takes at most.
#pragma once
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>

#include "support/resident.hpp"

namespace reel::tests {
constexpr std::int64_t mebibyte = 1 << 20;

/// By how many bytes the memory of a child grows at most while it runs f; -1 if the child fails.
inline std::int64_t peak_of(const std::function<void()>& f) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    const std::int64_t before = resident_bytes();
    std::int64_t grown = -1;
    try {
      f();
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      grown = usage.ru_maxrss * 1024 - before;
    } catch (...) {
    }
    _exit(write(ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  std::int64_t grown = -1;
  if (read(ends[0], &grown, sizeof grown) != sizeof grown) grown = -1;
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  return grown;
}
}  // namespace reel::tests
