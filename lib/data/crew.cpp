// SPDX-License-Identifier: BSD-3-Clause
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <thread>

#include <reel/data/join.hpp>

#include "lib/body/text.hpp"

namespace reel::data::detail {
int process_number() { return static_cast<int>(::getpid()); }

// Note [Locks of pipelines]
// A fork may copy these locks locked. The child never uses them: a pipeline and an OwnLock notice
// that the process is another one and make new ones.
struct Crew::State {
  Work& work;
  std::size_t slots;
  std::string name;
  Caller caller;
  int process = process_number();
  std::mutex turn;   // of the thread that pulls; locked before `mutex`
  std::mutex mutex;  // of all below
  std::condition_variable free, ready;
  std::vector<char> done;
  std::int64_t pulled = 0, taken = 0;  // slots since the start
  bool holds = false;                  // the consumer has slot number taken - 1
  bool ended = false, stopped = false, reported = false;
  std::vector<std::thread> threads;

  State(Work& jobs, std::size_t count, const Notes& notes)
      : work(jobs), slots(count), name(notes.text), caller(notes.caller), done(count) {}

  void loop() {
    while (true) {
      std::size_t slot;
      {
        const std::lock_guard pulling(turn);
        {
          std::unique_lock lock(mutex);
          free.wait(lock, [&] {
            const std::int64_t given = taken - (holds ? 1 : 0);
            return stopped || ended || pulled - given < static_cast<std::int64_t>(slots);
          });
          if (stopped || ended) return;
          slot = static_cast<std::size_t>(pulled) % slots;
        }
        const bool more = work.pull(slot);
        const std::lock_guard lock(mutex);
        if (more)
          ++pulled;
        else
          ended = true;
        if (!more) {
          ready.notify_all();
          free.notify_all();
          return;
        }
      }
      work.run(slot);
      const std::lock_guard lock(mutex);
      done[slot] = 1;
      ready.notify_one();
    }
  }
  std::ptrdiff_t take() {
    std::unique_lock lock(mutex);
    if (holds) {
      holds = false;
      free.notify_one();
    }
    const auto slot = static_cast<std::size_t>(taken) % slots;
    const auto can_go = [&] { return stopped || done[slot] || (ended && taken == pulled); };
    while (!ready.wait_for(lock, std::chrono::seconds(60), can_go))
      if (!std::exchange(reported, true))
        std::fprintf(stderr,
                     "reel: data: the loop has waited for 60 s for elements of '%s' (%s:%u)\n",
                     name.c_str(), caller.file ? caller.file : "", caller.line);
    if (stopped || !done[slot]) return -1;
    done[slot] = 0;
    ++taken;
    holds = true;
    return static_cast<std::ptrdiff_t>(slot);
  }
};

Crew::Crew(Work& work, int threads, std::size_t slots, const Notes& notes)
    : state_(new State(work, slots, notes)) {
  try {
    for (int i = 0; i < threads; ++i) state_->threads.emplace_back([this] { state_->loop(); });
  } catch (const std::system_error& error) {
    if (state_->threads.empty()) {
      delete state_;
      fail<Error>(notes.caller, notes.text, "threads", "a new thread", error.what());
    }  // fewer threads do the same work
  }
}
Crew::~Crew() {
  if (state_->process != process_number()) return;  // Note [Locks of pipelines]
  stop();
  for (std::thread& thread : state_->threads) thread.join();
  delete state_;
}
std::ptrdiff_t Crew::take() { return state_->take(); }
void Crew::stop() noexcept {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
    state_->free.notify_all();
    state_->ready.notify_all();
  }
  state_->work.wake();
}

struct OwnLock::State {
  std::mutex mutex;
  int process = process_number();
};
OwnLock::OwnLock() : state_(new State) {}
OwnLock::~OwnLock() {
  if (state_->process == process_number()) delete state_;
}
bool OwnLock::lock() {
  const bool same = state_->process == process_number();
  if (!same) state_ = new State;
  state_->mutex.lock();
  return same;
}
void OwnLock::unlock() { state_->mutex.unlock(); }
}  // namespace reel::data::detail
