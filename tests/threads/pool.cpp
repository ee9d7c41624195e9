// SPDX-License-Identifier: BSD-3-Clause
// The pool: each block runs once; exceptions; nested calls; several callers; a changing number of
// threads.
#include "lib/pool/pool.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
using kernels::parallel_for;

namespace {
/// How often each of `count` blocks ran.
std::vector<int> runs_of(int count) {
  std::vector<int> runs(static_cast<std::size_t>(count));  // each block writes only its own element
  parallel_for(count, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
  return runs;
}
}  // namespace

TEST_CASE("every block runs once, whatever the number of threads", "[threads]") {
  const KeepThreads keep;
  for (const int threads : {1, 2, 3, 8, 2}) {
    set_num_threads(threads);
    CHECK(num_threads() == threads);
    for (const int count : {0, 1, 2, 3, 7, 100, 5'000})
      for (int again = 0; again < 20; ++again)
        REQUIRE(runs_of(count) == std::vector<int>(static_cast<std::size_t>(count), 1));
  }
}

TEST_CASE("ranges cover what they are made of", "[threads]") {
  const KeepThreads keep;
  set_num_threads(3);
  for (const std::int64_t n : {0, 1, 9, 10, 19, 20, 21, 1000})
    for (const std::int64_t grain : {1, 10, 64}) {
      std::atomic<std::int64_t> sum = 0;
      kernels::parallel_ranges(n, grain, [&](std::int64_t first, std::int64_t end) {
        for (; first < end; ++first) sum += first + 1;
      });
      CHECK(sum == n * (n + 1) / 2);
    }
}

TEST_CASE("two threads take blocks at the same time", "[threads]") {
  const KeepThreads keep;
  set_num_threads(2);
  // Each block waits for the other block, so a single thread would never end.
  std::atomic<int> begun = 0;
  parallel_for(2, [&](std::int64_t) {
    ++begun;
    while (begun < 2) std::this_thread::yield();
  });
  CHECK(begun == 2);
}

TEST_CASE("what a block throws comes out of the call", "[threads]") {
  const KeepThreads keep;
  set_num_threads(3);
  for (int again = 0; again < 200; ++again) {
    std::atomic<int> ran = 0;
    const auto f = [&](std::int64_t i) {
      ++ran;
      if (i % 10 == 7) throw std::runtime_error("block");
    };
    CHECK_THROWS_WITH(parallel_for(1000, f), "block");
    CHECK(ran < 1000);
  }
  CHECK(runs_of(100) == std::vector<int>(100, 1));
}

TEST_CASE("a call from a block runs in that block's thread", "[threads]") {
  const KeepThreads keep;
  set_num_threads(2);
  std::atomic<int> inner = 0, strayed = 0;
  parallel_for(8, [&](std::int64_t) {
    const std::thread::id here = std::this_thread::get_id();
    parallel_for(10, [&](std::int64_t) {
      ++inner;
      strayed += std::this_thread::get_id() != here;
    });
  });
  CHECK(inner == 80);
  CHECK(strayed == 0);
}

TEST_CASE("several threads of a program share the pool", "[threads]") {
  const KeepThreads keep;
  set_num_threads(2);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> users;
  for (int u = 0; u < 4; ++u)
    users.emplace_back([&] {
      for (int again = 0; again < 300; ++again) wrong += runs_of(50) != std::vector<int>(50, 1);
    });
  for (std::thread& user : users) user.join();
  CHECK(wrong == 0);
}

TEST_CASE("the number of threads may change while others compute", "[threads]") {
  const KeepThreads keep;
  std::atomic<bool> done = false;
  std::thread changer([&] {
    for (int i = 0; !done; ++i) set_num_threads(1 + i % 4);
  });
  for (int again = 0; again < 500; ++again) REQUIRE(runs_of(40) == std::vector<int>(40, 1));
  done = true;
  changer.join();
}

TEST_CASE("helpers round as their caller does", "[threads]") {
  const KeepThreads keep;
  set_num_threads(2);
  std::fesetround(FE_UPWARD);
  std::atomic<int> upward = 0;
  parallel_for(64, [&](std::int64_t) { upward += std::fegetround() == FE_UPWARD; });
  std::fesetround(FE_TONEAREST);
  CHECK(upward == 64);
  std::atomic<int> nearest = 0;
  parallel_for(64, [&](std::int64_t) { nearest += std::fegetround() == FE_TONEAREST; });
  CHECK(nearest == 64);
}

TEST_CASE("a number of threads outside [1, 256] is refused") {
  const KeepThreads keep;
  set_num_threads(2);
  for (const int threads : {0, -1, 257, 1 << 30})
    check_refused<Error>([&] { set_num_threads(threads); },
                         "set_num_threads: threads: expected a whole number in [1, 256], got " +
                             std::to_string(threads));
  CHECK(num_threads() == 2);
}

/// The signals that the other threads of this process block.
std::vector<std::uint64_t> masks_of_others() {
  std::vector<std::uint64_t> masks;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream status(task.path() / "status");
    std::string word;
    while (status >> word && word != "SigBlk:") {
    }
    std::uint64_t blocked = 0;
    status >> std::hex >> blocked;
    masks.push_back(blocked);
  }
  return masks;
}
bool blocks(std::uint64_t mask, int signal) { return (mask >> (signal - 1) & 1) != 0; }

TEST_CASE("helpers leave signals to the program's threads, but for faults and profilers",
          "[threads]") {
  const auto own_mask = [] {
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, nullptr, &set);
    std::uint64_t mask = 0;
    for (int i = 1; i <= 64; ++i)
      if (sigismember(&set, i) == 1) mask |= std::uint64_t{1} << (i - 1);
    return mask;
  };
  const auto leaves_signals = [](std::uint64_t mask) {
    bool right = true;
    for (const int others : {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1, SIGUSR2})
      right &= blocks(mask, others);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF})
      right &= !blocks(mask, own);
    return right;
  };
  const std::uint64_t before = own_mask();
  const KeepThreads keep;
  set_num_threads(3);
  CHECK(equal(sum(ones({1 << 20})), tensor(1048576.0f)));
  CHECK(own_mask() == before);
  // A thread that starts blocks all signals for a short time. If the helpers never leave them, the
  // test program does not end.
  std::ptrdiff_t helpers = 0;
  while (helpers < 2) {
    const std::vector<std::uint64_t> masks = masks_of_others();
    helpers = std::count_if(masks.begin(), masks.end(), leaves_signals);
    std::this_thread::yield();
  }
}
}  // namespace reel::tests
