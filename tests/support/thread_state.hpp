// SPDX-License-Identifier: BSD-3-Clause
// The state that an exception must not change, and an interceptor that throws one.
#pragma once
#include <cstdint>
#include <stdexcept>

#include "lib/flow/interceptor.hpp"

namespace reel::tests {
/// Throws before or after the k-th kernel.
class Bomb : public Interceptor {
 public:
  Bomb(int k, bool after) : left_(k), after_(after) {}
  bool before(const GateCall&) override {
    if (!after_ && left_-- == 0) throw std::runtime_error("bomb");
    return true;
  }
  void after(const GateCall&) override {
    if (after_ && left_-- == 0) throw std::runtime_error("bomb");
  }

 private:
  int left_;
  bool after_;
};

struct ThreadState {
  std::uint8_t mode;
  bool training;
  Device device;
  const char* caller;
  std::string_view name, function;
  const void *interceptors, *observers, *generator, *device_scopes;
  std::uint64_t alive, active;
  std::int64_t tensors, records, bytes;
  friend bool operator==(const ThreadState&, const ThreadState&) = default;
};
inline ThreadState state() {
  const Context& context = Context::here();
  const MemoryStatistics memory = memory_statistics();
  return {
      context.mode,        context.training,      context.device,       context.outer_caller.file,
      context.layer_name,  context.function,      context.interceptors, context.observers,
      context.generator,   context.device_scopes, context.reel->alive,  context.reel->active,
      memory.live_tensors, memory.live_records,   memory.live_bytes};
}
}  // namespace reel::tests
