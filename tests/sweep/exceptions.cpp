// SPDX-License-Identifier: BSD-3-Clause
// R14: every sample of every op, and its gradient, is stopped before and after each of its kernels.
#include "support/thread_state.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
void play(const Op& op, const Sample& sample) {
  const TrainScope train(true);
  GradientTape tape;
  std::vector<Tensor> sources;
  for (const Tensor& x : sample.inputs)
    if (op.gradient.differentiable && is_floating(x.dtype())) {
      tape.watch(x);
      sources.push_back(x);
    }
  const Tensor y = sample.call(sample.inputs);
  if (!sources.empty() && is_floating(y.dtype())) tape.gradient(y, sources, Unconnected::zero);
}

/// The number of runs that were stopped before a run completed.
int stopped(const Op& op, const Sample& sample, bool after) {
  for (int k = 0;; ++k) {
    const ThreadState before = state();
    bool thrown = false;
    {
      Bomb bomb(k, after);
      const InterceptorScope scope(bomb);
      try {
        play(op, sample);
      } catch (const std::runtime_error&) {
        thrown = true;
      }
    }
    INFO("kernel " << k << (after ? ", after it" : ", before it"));
    REQUIRE(state() == before);
    if (!thrown) return k;
  }
}
}  // namespace

TEST_CASE("an exception at any kernel of any op leaves the thread as it was") {
  const char* const library = std::getenv("REEL_CUDA_LIBRARY");
  if (library && std::string(library).find("emulated") != std::string::npos)
    SKIP("it makes too many launches for the emulator");
  int count = 0;
  for (const Op* op : ops_and_composites()) {
    std::size_t number = 0;
    for (const Sample& sample : samples_of(*op)) {
      INFO(describe(*op, number++, sample));
      play(*op, sample);
      count += stopped(*op, sample, false) + stopped(*op, sample, true);
    }
  }
  CHECK(count >= 5000);
}
}  // namespace reel::tests
