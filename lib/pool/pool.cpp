// SPDX-License-Identifier: BSD-3-Clause
// The pool of threads of the process. Its state needs no constructor and no allocated memory. So
// the child of a fork, which has no helper threads, can reset the state and begin again.
#include "lib/pool/pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <exception>

#include "lib/pool/thread_count.hpp"

namespace reel::kernels {
namespace {
void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// The blocks that a thread begins with. The counter has its own cache line.
struct alignas(64) Share {
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;
};
constexpr int most_shares = 16;  // more threads have some of them in common

/// The work of one call of run_blocks(), on the caller's stack.
struct Job {
  Block block;
  const void* work;
  int share_count = 1;
  Share shares[most_shares]{};
  std::atomic<bool> failed{false};
  std::exception_ptr error{};
  std::fenv_t arithmetic{};  // how the caller rounds, and whether it keeps subnormal numbers

  /// Before it is run: the same number of blocks for each of so many threads.
  void share_out(std::int64_t count, int threads) {
    share_count = std::min(threads, most_shares);
    std::int64_t first = 0;
    for (int i = 0; i < share_count; ++i) {
      shares[i].next = first;
      shares[i].end = first += count / share_count + (i < count % share_count);
    }
  }
  /// Thread `own` takes the blocks of its own share, then blocks that other threads have left. So a
  /// thread gets the same part of a matrix in each job, which may still be in its cache.
  void run(int own) {
    for (int k = 0; k < share_count; ++k) {
      Share& share = shares[(own + k) % share_count];
      std::int64_t i;
      while (!failed.load(std::memory_order_relaxed) &&
             (i = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end)
        try {
          block(work, i);
        } catch (...) {
          if (!failed.exchange(true)) error = std::current_exception();
        }
    }
  }
};

enum Order : int { nothing, help, stop };

/// A helper's own cache line.
struct alignas(64) Helper {
  std::atomic<int> order{nothing};
  pthread_t thread{};
};

constinit struct Pool {
  std::atomic<bool> busy{false};
  std::atomic<int> threads{0};  // 0: the environment has not been read
  std::atomic<int> working{0};  // helpers that have not ended the job
  bool ended = false;
  std::atomic<bool> spins{false};  // whether each thread has a processor
  int started = 0;
  Job* job = nullptr;
  Helper helpers[most_threads - 1];
} pool;

/// Jobs often follow each other quickly. Then a sleep would cost more than it saves.
constexpr auto spin_time = std::chrono::microseconds(20);

/// Waits until `word` is no longer `old`.
void wait_while(std::atomic<int>& word, int old) {
  if (pool.spins.load(std::memory_order_relaxed)) {
    const auto end = std::chrono::steady_clock::now() + spin_time;
    do
      for (int i = 0; i < 8; ++i) {
        if (word.load(std::memory_order_acquire) != old) return;
        pause_briefly();
      }
    while (std::chrono::steady_clock::now() < end);
  }
  word.wait(old, std::memory_order_acquire);
}

void* help_until_stopped(void* memory) {
  Helper& helper = *static_cast<Helper*>(memory);
  for (;;) {
    wait_while(helper.order, nothing);
    const int order = helper.order.exchange(nothing);
    if (order == stop) return nullptr;
    if (order == nothing) continue;  // the caller has taken it back
    std::fesetenv(&pool.job->arithmetic);
    pool.job->run(static_cast<int>(&helper - pool.helpers) + 1);
    if (pool.working.fetch_sub(1) == 1) pool.working.notify_one();
  }
}

/// Blocks all signals except those of faults and of profilers: the program's own threads handle the
/// others.
sigset_t signals_of_others() {
  sigset_t set;
  sigfillset(&set);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF}) sigdelset(&set, own);
  return set;
}

/// Starts at most `count` helpers; fewer if the system refuses more.
int start_helpers(int count) {
  if (count <= pool.started) return count;
  pool.spins = count < usable_processors();
  const sigset_t blocked = signals_of_others();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  for (; pool.started < count; ++pool.started) {
    Helper& helper = pool.helpers[pool.started];
    if (pthread_create(&helper.thread, nullptr, help_until_stopped, &helper)) break;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return std::min(count, pool.started);
}

void tell(Helper& helper, Order order) {
  helper.order.exchange(order);
  helper.order.notify_one();
}

/// The caller has the pool for itself. It does not wait for helpers that have not begun when all
/// blocks are taken.
void run_with_helpers(Job& job, std::int64_t count, int threads) {
  const int helpers = start_helpers(static_cast<int>(std::min<std::int64_t>(threads, count)) - 1);
  job.share_out(count, helpers + 1);
  pool.job = &job;
  pool.working = helpers;
  for (int i = 0; i < helpers; ++i) tell(pool.helpers[i], help);
  job.run(0);
  for (int i = 0; i < helpers; ++i)
    if (pool.helpers[i].order.exchange(nothing) == help) pool.working.fetch_sub(1);
  while (const int working = pool.working.load(std::memory_order_acquire))
    wait_while(pool.working, working);
}

/// Ends the helpers when the program ends or the library is unloaded.
struct End {
  ~End() {
    if (pool.busy.exchange(true)) return;  // another thread still computes; do not wait for it
    pool.ended = true;                     // from now on each thread does its own work
    for (int i = 0; i < pool.started; ++i) tell(pool.helpers[i], stop);
    for (int i = 0; i < pool.started; ++i) pthread_join(pool.helpers[i].thread, nullptr);
    pool.started = 0;
  }
} end;
}  // namespace

void forget_helpers() {
  for (int i = 0; i < pool.started; ++i) pool.helpers[i].order = nothing;
  pool.working = 0;
  pool.started = 0;
  pool.busy = pool.ended;
}

void run_blocks(std::int64_t count, Block block, const void* work) {
  const int threads = thread_count();
  if (threads == 1 || count < 2 || pool.busy.exchange(true, std::memory_order_acquire)) {
    for (std::int64_t i = 0; i < count; ++i) block(work, i);
    return;
  }
  Job job{block, work};
  std::fegetenv(&job.arithmetic);
  run_with_helpers(job, count, threads);
  pool.busy.store(false, std::memory_order_release);
  if (job.error) std::rethrow_exception(job.error);
}

int thread_count() {
  std::atomic<int>& threads = pool.threads;
  if (const int known = threads.load(std::memory_order_relaxed)) return known;
  int none = 0;
  threads.compare_exchange_strong(none, threads_of_environment());
  return threads;  // set_num_threads() may have come first
}
void set_thread_count(int count) { pool.threads = count; }
}  // namespace reel::kernels
