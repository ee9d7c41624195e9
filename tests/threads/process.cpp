// SPDX-License-Identifier: BSD-3-Clause
// The pool across forks, at the end of a program, and as the environment says.
#include <sched.h>

#include <atomic>
#include <iostream>
#include <string>
#include <thread>

#include <reel/reel.hpp>

#include "lib/cpu/thread_count.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"
#include "threads/process.hpp"
#include "threads/threads.hpp"

bool reel::tests::in_child = false;
#ifdef __SANITIZE_ADDRESS__
// What the threads of its parent held, a child cannot reach: to the leak checker it is lost.
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off() {
  return reel::tests::in_child;
}
#endif

namespace reel::tests {
namespace {
[[maybe_unused]] Tensor work() {
  const Tensor x = arange(0.0f, 600'000.0f) * 1e-6f;
  return exp(x) + x;
}
[[maybe_unused]] bool same(const Tensor& x, const Tensor& y) { return all(x == y).item<bool>(); }

bool tells(const std::string& text, int threads) {
  return text.find("threads: " + std::to_string(threads) + "\n") != text.npos;
}
}  // namespace

TEST_CASE("tells its number of threads", "[.tells]") {
  std::cout << "threads: " << num_threads() << '\n';
}

TEST_CASE("the environment says how many threads there are") {
  const int processors = kernels::usable_processors();
  CHECK(tells(printed_under("[.tells]", ""), processors));
  CHECK(tells(printed_under("[.tells]", "REEL_NUM_THREADS="), processors));
  CHECK(tells(printed_under("[.tells]", "REEL_NUM_THREADS=3"), 3));
  CHECK(tells(printed_under("[.tells]", "OMP_NUM_THREADS=5"), 5));
  CHECK(tells(printed_under("[.tells]", "OMP_NUM_THREADS=4,2"), 4));
  CHECK(tells(printed_under("[.tells]", "REEL_NUM_THREADS=3 OMP_NUM_THREADS=5"), 3));
  for (const std::string bad : {"0", "-1", "257", "two", "2x", "99999999999999999999"}) {
    const std::string text =
        printed_under("[.tells]", "REEL_NUM_THREADS=" + bad + " OMP_NUM_THREADS=6");
    CHECK(tells(text, 6));
    CHECK(text.find("reel: REEL_NUM_THREADS: expected a whole number in [1, 256], got \"" + bad +
                    "\"") != text.npos);
  }
}

TEST_CASE("no more threads than the process may use") {
  CHECK(true_in_child([] {
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    return sched_setaffinity(0, sizeof mask, &mask) == 0 && kernels::usable_processors() == 1;
  }));
}

#ifndef __SANITIZE_THREAD__  // which allows no threads after a fork
TEST_CASE("a child of a fork has a pool of its own") {
  const KeepThreads keep;
  set_num_threads(3);
  const Tensor expected = work();
  const auto computes = [&] {
    for (int i = 0; i < 20; ++i)
      if (!same(work(), expected)) return false;
    return true;
  };
  CHECK(true_in_child(computes));
  CHECK(true_in_child([&] { return computes() && true_in_child(computes) && computes(); }));
  CHECK(computes());
}

TEST_CASE("a child may be forked while another thread computes") {
  const KeepThreads keep;
  set_num_threads(3);
  const Tensor expected = work();
  std::atomic<bool> done = false, wrong = false;
  std::thread other([&] {
    while (!done)
      if (!same(work(), expected)) wrong = true;
  });
  for (int i = 0; i < 50; ++i) CHECK(true_in_child([&] { return same(work(), expected); }));
  done = true;
  other.join();
  CHECK_FALSE(wrong);
}

TEST_CASE("a program ends while helpers sleep and while they work") {
  for (const bool at_work : {false, true})
    for (int i = 0; i < 10; ++i)
      CHECK(true_in_child([&] {
        set_num_threads(3);
        work();
        if (at_work)
          std::thread([] {
            for (;;) work();
          }).detach();
        std::exit(0);  // runs what a program's end runs
        return false;
      }));
}
#endif
}  // namespace reel::tests
