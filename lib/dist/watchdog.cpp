// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dist/watchdog.hpp"

#include <algorithm>
#include <ctime>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/dist/state.hpp"
#include "lib/flow/observer.hpp"

namespace reel::dist::detail {
namespace {
constinit std::mutex lock;
constinit std::vector<Lane*>* lanes =
    nullptr;  // never freed: the thread lives as long as the process
}  // namespace

void Watchdog::add(Lane& lane) {
  const std::lock_guard held(lock);
  const bool first = !lanes;
  if (first) lanes = new std::vector<Lane*>;
  lanes->push_back(&lane);
  if (!first) return;
  listen_to_stops(stop);
  std::thread(watch).detach();
}
void Watchdog::remove(Lane& lane) {
  const std::lock_guard held(lock);
  if (lanes) lanes->erase(std::remove(lanes->begin(), lanes->end(), &lane), lanes->end());
}
void Watchdog::watch() {
  for (;;) {
    constexpr timespec tenth{0, 100'000'000};
    ::nanosleep(&tenth, nullptr);
    const std::lock_guard held(lock);
    for (Lane* const lane : *lanes) look(*lane);
  }
}

void Watchdog::stop(bool stopped) {
  const std::lock_guard held(lock);
  for (Lane* const lane : *lanes) {
    WorldState& world = lane->world_;
    // A process has one rank, or ranks are threads.
    if (lane->number_ != 0 ||
        !(world.engine.run || ::pthread_equal(world.thread, ::pthread_self())))
      continue;
    __atomic_store_n(&world.is_stopped, stopped, __ATOMIC_RELAXED);
    world.board.stop(world.engine.rank, stopped);
  }
}

void Watchdog::look(Lane& lane) {
  if (lane.number_ == 0 && __atomic_load_n(&lane.world_.is_stopped, __ATOMIC_RELAXED))
    lane.world_.board.touch(lane.world_.engine.rank, 0);
  const CallName* name = __atomic_load_n(&lane.inside_, __ATOMIC_ACQUIRE);
  if (!name) return;
  const std::int64_t call = __atomic_load_n(&lane.calls_, __ATOMIC_RELAXED);
  const double now = seconds_now();
  if (std::exchange(lane.watched_, call) != call) lane.deadline_ = now + lane.world_.timeout;
  lane.world_.board.touch(lane.world_.engine.rank, lane.number_);
  if (!lane.is_late(*name, now, lane.deadline_)) return;
  // Whoever takes the name decides: run() returns, or this thread ends the process.
  if (!__atomic_compare_exchange_n(&lane.inside_, &name, nullptr, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    return;
  lane.ends_ = true;
  try {
    lane.fail_late(*name, lane.caller_);
  } catch (const std::exception& error) {
    lane.world_.end_all(error.what());
  }
}
}  // namespace reel::dist::detail
