// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/state.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>

#include "cuda/emulate/graph.hpp"
#include "cuda/emulate/queue.hpp"

namespace reel::emulate {
namespace {
// A lock that ThreadSanitizer does not see, because the lock of the runtime must not order host
// threads.
std::atomic<bool> taken{false};
Identity from = nullptr;

void make_devices(State& it) {
  for (int i = 0; i < std::min(it.device_count, most_devices); ++i) {
    it.devices.push_back(std::make_unique<Device>());
    Device& device = *it.devices.back();
    device.number = std::size_t(i);
    it.streams.push_back(std::make_unique<CUstream_st>());
    it.streams.back()->device = i;
    device.legacy = it.streams.back().get();
  }
}
}  // namespace

State::State() = default;
State::~State() = default;

State& state() {
  static State* const one = [] {
    catch_faults();
    return new State;  // never destroyed: work may be queued when the process ends
  }();
  return *one;
}

HostThread& host_thread() {
  thread_local HostThread one;
  return one;
}

Entry::Entry() {
  const Identity who = identity();
  while (taken.exchange(true, std::memory_order_acquire)) sched_yield();
  become(emulator_identity());
  from = who;
  (void)state();
}

Entry::~Entry() {
  const Identity who = from;
  become(who);
  taken.store(false, std::memory_order_release);
}

void give_way() {
  const Identity who = from;
  become(who);
  taken.store(false, std::memory_order_release);
  do sched_yield();
  while (taken.exchange(true, std::memory_order_acquire));
  become(emulator_identity());
  from = who;
}

Identity caller() { return from; }

void release_to(Clock& clock) {
  become(from);
  clock.release();
  become(emulator_identity());
}
void acquire_for_caller(Clock& clock) {
  become(from);
  clock.acquire();
  become(emulator_identity());
}

cudaError_t availability() {
  State& it = state();
  if (it.driver_version / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
  if (it.devices.empty()) make_devices(it);
  return it.devices.empty() ? cudaErrorNoDevice : cudaSuccess;
}

Device& current_device() {
  State& it = state();
  if (it.devices.empty()) make_devices(it);
  return *it.devices[std::size_t(host_thread().device)];
}

void note_use(const void* what, const CUstream_st& stream) {
  const bool is_first = state().used.insert({stream.device, what}).second;
  if (is_first && stream.capture) ++state().counts.first_uses_in_captures;
}

bool may_touch(int device, const Device& other) {
  const int number = int(other.number);
  return device == number || state().devices[std::size_t(device)]->peers.count(number) > 0;
}
}  // namespace reel::emulate
