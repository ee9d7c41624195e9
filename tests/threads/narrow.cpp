// SPDX-License-Identifier: BSD-3-Clause
// How many threads there are: by default, in the child of a fork, and while a program ends.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <reel/reel.hpp>

#include "lib/pool/thread_count.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"
#include "threads/process.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
std::atomic<bool> lingers = false;
/// Runs after the objects of the library have ended.
[[gnu::destructor]] void linger() {
  if (lingers) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}
[[maybe_unused]] Tensor work() {
  const Tensor x = arange(0.0f, 600'000.0f) * 1e-6f;
  return exp(x) + x;
}
[[maybe_unused]] int threads_here() {
  int count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}
}  // namespace

TEST_CASE("without a quota there are as many threads as processors") {
  std::string quota;
  std::ifstream("/sys/fs/cgroup/cpu.max") >> quota;
  if (!quota.empty() && quota != "max") SKIP("this process has a quota");
  cpu_set_t mask;
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  CHECK(kernels::usable_processors() == std::min(CPU_COUNT(&mask), kernels::most_threads));
}

#ifndef __SANITIZE_THREAD__  // which allows no threads after a fork
TEST_CASE("a child of a fork starts as many threads as its parent had") {
  const KeepThreads keep;
  set_num_threads(3);
  work();
  CHECK(true_in_child([] {
    if (threads_here() != 1) return false;
    work();
    return threads_here() == 3;
  }));
}

TEST_CASE("several threads compute while a program ends") {
  if (sanitized) SKIP("a sanitizer waits for the threads");
  for (int i = 0; i < 5; ++i)
    CHECK(true_in_child([] {
      set_num_threads(3);
      const Tensor expected = work();
      for (int k = 0; k < 3; ++k)
        std::thread([expected] {
          for (;;)
            if (!all(work() == expected).item<bool>()) std::abort();
        }).detach();
      lingers = true;
      std::exit(0);  // runs everything that the end of a program runs
      return false;
    }));
}
#endif
}  // namespace reel::tests
