// SPDX-License-Identifier: BSD-3-Clause
// R16 for every op and its gradient.
#include <cstdlib>

#include "exhaustion/programs.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
struct OfSample : Program {
  const Op& op;
  const Sample& sample;
  std::vector<Tensor> sources;
  GradientOptions options{.unconnected = Unconnected::zero};
  OfSample(const Op& op, const Sample& sample)
      : op(op), sample(sample), sources(floating(sample.inputs)) {
    const Tensor y = sample.call(sample.inputs);
    if (!op.gradient.differentiable || !is_floating(y.dtype())) sources.clear();
    if (!sources.empty()) options.upstream = weights_like(y);
  }
  void run(Results& results) override {
    results.add(sample.call(sample.inputs));
    if (sources.empty()) return;
    GradientTape tape;
    for (const Tensor& x : sources) tape.watch(x);
    const Tensor y = sample.call(sample.inputs);
    for (const Tensor& g : tape.gradient(y, GradientSources(sources), options)) results.add(g);
  }
};
}  // namespace

TEST_CASE("every op that runs out of memory throws MemoryError and changes nothing") {
  if (sanitized) SKIP("AddressSanitizer keeps its own malloc, which cannot be made to fail");
  const int threads = num_threads();
  set_num_threads(1);
  int points = 0;
  for (const Op* op : ops_and_composites()) {
    if (op->updates || op->random) continue;
    std::size_t number = 0;
    for (const Sample& sample : some_samples_of(*op, 2)) {
      OfSample program(*op, sample);
      const std::string name = describe(*op, number++, sample);
      Results once;
      program.run(once);
      if (!(once == once)) continue;  // NaN
      for (const Failing failing : {Failing::one, Failing::all_from})
        points += exhaust(name, program, failing, 1);
    }
  }
  set_num_threads(threads);
  CHECK(points > 5'000);
}
}  // namespace reel::tests
