// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/control.hpp"

#include <cstdlib>
#include <random>
#include <utility>

#include "cuda/emulate/dice.hpp"
#include "cuda/emulate/queue.hpp"
#include "cuda/emulate/state.hpp"

namespace reel::emulate {
namespace {
std::mt19937_64& dice() {
  static std::mt19937_64 one = [] {
    const char* const seed = std::getenv("REEL_EMULATE_SEED");
    return std::mt19937_64(seed ? std::strtoull(seed, nullptr, 10) : 1);
  }();
  return one;
}
}  // namespace

std::size_t roll(std::size_t n) { return std::size_t(dice()() % n); }

void set_seed(std::uint64_t seed) {
  Entry entry;
  dice().seed(seed);
}
void set_device_count(int count) {
  Entry entry;
  state().device_count = count;
}
void set_device_memory(std::size_t bytes) {
  Entry entry;
  state().device_memory = bytes;
}
void set_launch_memory(std::size_t bytes) {
  Entry entry;
  state().launch_memory = bytes;
}
void set_driver_version(int version) {
  Entry entry;
  state().driver_version = version;
}
void set_memory_pools(bool exist) {
  Entry entry;
  state().has_pools = exist;
}
void refuse_epilogues(bool refused) {
  Entry entry;
  state().refuses_epilogues = refused;
}
void refuse_gaps(bool refused) {
  Entry entry;
  state().refuses_gaps = refused;
}
void refuse_halves(bool refused) {
  Entry entry;
  state().refuses_halves = refused;
}
void reshape_weights(bool reshaped) {
  Entry entry;
  state().reshapes_weights = reshaped;
}
void refuse_convolutions(Convolutions refused) {
  Entry entry;
  state().refused = refused;
}
void set_old_device(int device) {
  Entry entry;
  state().old_device = device;
}
void fail_captures(int count) {
  Entry entry;
  state().failing_captures = count;
}
void break_device(int device) {
  Entry entry;
  note_error(device, cudaErrorIllegalAddress);
}
bool has_context(int device) {
  Entry entry;
  return availability() == cudaSuccess && state().devices[std::size_t(device)]->has_context;
}
void after_next_wait(std::function<void()> function) {
  Entry entry;
  state().after_next_wait = std::move(function);
}
Counts counts() {
  Entry entry;
  return state().counts;
}
void reset_counts() {
  Entry entry;
  state().counts = {};
  state().largest_launches.clear();
}
std::map<const void*, Largest> largest_launches() {
  Entry entry;
  return state().largest_launches;
}
void check_memory() {
  Entry entry;
  for (auto& device : state().devices) device->memory.check();
}
}  // namespace reel::emulate
