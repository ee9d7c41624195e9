// SPDX-License-Identifier: BSD-3-Clause
// R1: the gradient of every op, by its fused kernel and by its formula, compared with differences.
#include "sweep/gradient_case.hpp"

namespace reel::tests {
TEST_CASE("every gradient agrees with differences") {
  for (const Op* op : ops_and_composites()) {
    if (!op->gradient.differentiable || op->updates) continue;
    const std::vector<Sample> samples = some_samples_of(*op, 5);
    std::vector<Sample> on_cpu;
    {
      const DeviceScope here(cpu());
      on_cpu = some_samples_of(*op, 5);
    }
    for (std::size_t number = 0; number < samples.size(); ++number) {
      INFO(describe(*op, number, samples[number]));
      CHECK(GradientCase(samples[number], on_cpu[number]).problem() == "");
    }
  }
}

TEST_CASE("every differentiable op has at least 12 samples, of every layout") {
  for (const Op* op : library_ops()) {
    if (!op->gradient.differentiable || op->updates || op->arity == 0) continue;
    const std::vector<Sample> samples = samples_of(*op);
    bool empty = false, strided = false;
    for (const Sample& sample : samples)
      for (const Tensor& x : sample.inputs) {
        empty |= x.size() == 0;
        strided |= !Access::body(x)->contiguous;
      }
    INFO(op->name);
    CHECK(samples.size() >= 12);
    CHECK(strided);
    CHECK(empty != op->needs_elements);
  }
}
}  // namespace reel::tests
