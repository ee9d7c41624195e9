// SPDX-License-Identifier: BSD-3-Clause
// R1: the gradient of every op, by its fused kernel and by its formula, against differences.
#include "sweep/numeric.hpp"

namespace reel::tests {
namespace {
using Gradients = std::vector<Tensor>;

/// Nobody listens: fused kernels run.
Gradients fused(const Sample& sample, const std::vector<Tensor>& sources, const Tensor& upstream) {
  GradientTape tape;
  for (const Tensor& x : sources) tape.watch(x);
  const Tensor y = sample.call(sample.inputs);
  return tape.gradient(y, Sources(sources), {upstream, Unconnected::zero});
}

/// An outer tape listens: rules run as public ops.
Gradients by_formula(const Sample& sample, const std::vector<Tensor>& sources,
                     const Tensor& upstream) {
  GradientTape outer;
  for (const Tensor& x : sources) outer.watch(x);
  return fused(sample, sources, upstream);
}

/// Two uses of each source: the second gradient is added to the first.
Gradients accumulated(const Sample& sample, const std::vector<Tensor>& sources,
                      const Tensor& upstream) {
  GradientTape tape;
  for (const Tensor& x : sources) tape.watch(x);
  const Tensor y = sample.call(sample.inputs) + sample.call(sample.inputs);
  return tape.gradient(y, Sources(sources), {upstream, Unconnected::zero});
}

/// The same numbers, each axis but the last walked backward in memory.
Tensor turned(const Tensor& x) {
  if (x.rank() < 1) return x;
  return fresh(x[range({}, {}, -1)])[range({}, {}, -1)];
}

void check(const char* path, const Gradients& got, const std::vector<Host>& expected,
           double factor) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO(path << ", source " << i);
    Host wanted = expected[i];
    for (double& value : wanted.values) value *= factor;
    CHECK(difference(host_of(got[i]), wanted, first_order(wanted)) == "");
  }
}

void check_sample(const Sample& sample) {
  const std::vector<Tensor> sources = floating(sample.inputs);
  if (sources.empty()) return;
  const Tensor upstream = weights_like(sample.call(sample.inputs));
  const std::vector<Host> expected = numeric_gradients(
      sample.inputs,
      [&](const std::vector<Tensor>& inputs) { return weighted(sample.call(inputs), upstream); });
  check("fused", fused(sample, sources, upstream), expected, 1);
  check("fused, strided upstream", fused(sample, sources, turned(upstream)), expected, 1);
  check("formula", by_formula(sample, sources, upstream), expected, 1);
  check("accumulated", accumulated(sample, sources, upstream), expected, 2);
}
}  // namespace

TEST_CASE("every gradient agrees with differences") {
  for (const Op* op : library_ops()) {
    if (!op->differentiable || op->updates) continue;
    std::size_t number = 0;
    for (const Sample& sample : samples_of(*op)) {
      INFO(describe(*op, number++, sample));
      check_sample(sample);
    }
  }
}

TEST_CASE("every differentiable op has at least 12 samples, of every layout") {
  for (const Op* op : library_ops()) {
    if (!op->differentiable || op->updates || op->arity == 0) continue;
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
    if (op->name != "max" && op->name != "min") CHECK(empty);
  }
}
}  // namespace reel::tests
