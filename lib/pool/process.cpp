// SPDX-License-Identifier: BSD-3-Clause
#include "lib/pool/process.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <thread>

#include "lib/pool/pool.hpp"

namespace reel {
namespace {
constinit std::mutex mutexes[static_cast<std::size_t>(Lock::count)];
constinit std::atomic<bool> forking = false;
constinit std::atomic<int> delays = 0;
constinit thread_local int begun = 0;  // how often before_fork() has run for this fork

void before_fork() {
  if (begun++) return;
  for (std::mutex& mutex : mutexes) mutex.lock();
  forking = true;
  while (delays > 0) std::this_thread::yield();
}
void after_fork() {
  if (--begun) return;
  forking = false;
  for (std::size_t i = std::size(mutexes); i > 0; --i) mutexes[i - 1].unlock();
}
void in_child() {
  delays = 0;  // a thread that the child does not have may have counted itself before it waited
  after_fork();
  if (!begun) kernels::forget_helpers();
}

constinit thread_local ThreadEnd* ends = nullptr;
void run_ends(void*) {
  while (ThreadEnd* const end = ends) {
    ends = end->next;
    end->listed = false;
    end->run(*end);
  }
}

constinit pthread_key_t key = 0;
constinit bool has_key = false;
/// Runs before any static object can use the library.
[[gnu::constructor(101)]] void at_load() {
  has_key = !pthread_key_create(&key, run_ends);
  begin_forks();
}

/// Keeps the code of `run_ends` loaded, because threads may end after dlclose(). A thread_local
/// object with a destructor would do the same, but glibc ends the process if it has no memory to
/// register the destructor.
void stay_loaded() {
  static constinit bool stays = false;
  Dl_info place;
  if (__atomic_exchange_n(&stays, true, __ATOMIC_RELAXED)) return;
  if (dladdr(reinterpret_cast<void*>(&run_ends), &place) && place.dli_fname)
    dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
}  // namespace

void begin_forks() { pthread_atfork(before_fork, after_fork, in_child); }

Locked::Locked(Lock which) : mutex_(mutexes[static_cast<std::size_t>(which)]) { mutex_.lock(); }
Locked::~Locked() { mutex_.unlock(); }

ForkDelay::ForkDelay() {
  while (++delays, forking) {
    --delays;
    const Locked until_forked(Lock::blas);
  }
}
ForkDelay::~ForkDelay() { --delays; }

void at_thread_end(ThreadEnd& end) noexcept {
  if (end.listed) return;
  end.listed = true;
  end.next = ends;
  ends = &end;
  stay_loaded();
  if (has_key) pthread_setspecific(key, &ends);
}
}  // namespace reel
