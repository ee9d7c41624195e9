// SPDX-License-Identifier: BSD-3-Clause
#include "lib/pool/thread_count.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <thread>

namespace reel::kernels {
namespace {
/// OMP_NUM_THREADS may be a list, a number for each level of nesting: the first counts. 0 if none.
int threads_in(const char* variable) {
  const char* const value = std::getenv(variable);
  if (!value || !*value) return 0;
  const std::string_view text = value;
  const char* const end = text.data() + std::min(text.find(','), text.size());
  int threads = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, threads);
  if (error == std::errc() && stop == end && threads >= 1 && threads <= most_threads)
    return threads;
  std::fprintf(stderr, "reel: %s: expected a whole number in [1, %d], got \"%.40s\"\n", variable,
               most_threads, value);
  return 0;
}

int processors_in_mask() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) return CPU_COUNT(&mask);
  return static_cast<int>(std::thread::hardware_concurrency());  // more than a mask has space for
}

/// "max 100000", or microseconds of processor time in so many; none is no limit.
int processors_in_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return most_threads;
  return static_cast<int>(std::min((quota + period - 1) / period, double{most_threads}));
}
}  // namespace

int usable_processors() {
  return std::clamp(std::min(processors_in_mask(), processors_in_quota()), 1, most_threads);
}

int threads_of_environment() {
  for (const char* variable : {"REEL_NUM_THREADS", "OMP_NUM_THREADS"})
    if (const int threads = threads_in(variable)) return threads;
  return usable_processors();
}
}  // namespace reel::kernels
