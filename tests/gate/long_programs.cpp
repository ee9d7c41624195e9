// SPDX-License-Identifier: BSD-3-Clause
// R12 and R20: the depth and memory of programs of millions of ops and of long training.
#include <pthread.h>

#include <cstdlib>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
constexpr int chain_length = 4'000'000;

struct Chain {
  float slope = 0;
  std::int64_t bytes = 0;
};
void* run_chain(void* result) {
  auto& chain = *static_cast<Chain*>(result);
  Variable w("w", tensor(1.0f));
  const std::int64_t before = resident_bytes();
  GradientTape tape;
  Tensor x = w * 1.0f;
  for (int i = 0; i < chain_length; ++i) x = x + w;
  chain.bytes = resident_bytes() - before;
  chain.slope = tape.gradient(x, w).item<float>();
  return nullptr;
}
}  // namespace

TEST_CASE("four million ops are recorded, played and freed on a stack of 256 kB") {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t thread;
  Chain chain;
  REQUIRE(pthread_create(&thread, &attributes, run_chain, &chain) == 0);
  pthread_join(thread, nullptr);
  CHECK(chain.slope == chain_length + 1);
  if (!sanitized) CHECK(chain.bytes / chain_length <= 300);
}

TEST_CASE("training holds as much memory after many steps as after a few") {
  nn::LSTMCell cell(8, 8);
  const std::vector<Variable> variables = parameters(cell);
  optim::Adam adam(variables);
  const Tensor x = random::normal({4, 8});
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i) {
      GradientTape tape;
      auto state = cell(x, cell.initial_state(4));
      state = cell(x, state);
      const Tensor loss = sum(state.h * state.h);
      adam.step(tape.gradient(loss, variables));
    }
  };
  steps(1000);
  const std::int64_t tensors = memory_statistics().live_tensors, bytes = resident_bytes();
  steps(sanitized ? 100 : std::getenv("REEL_TEST_LONG") ? 100'000 : 10'000);
  CHECK(memory_statistics().live_tensors == tensors);
  CHECK(memory_statistics().live_records == 0);
  if (!sanitized) CHECK(resident_bytes() - bytes < (1 << 20));
}
}  // namespace reel::tests
