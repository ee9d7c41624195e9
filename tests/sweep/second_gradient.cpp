// SPDX-License-Identifier: BSD-3-Clause
// R2: gradients of gradients, computed by the formulas, compared with differences of first
// gradients.
#include "support/short.hpp"
#include "sweep/numeric.hpp"

namespace reel::tests {
namespace {
const std::size_t samples_each = is_short() ? 2 : 4;

std::vector<Tensor> first_gradients(const Sample& sample, const std::vector<Tensor>& inputs,
                                    const Tensor& upstream) {
  const std::vector<Tensor> sources = floating(inputs);
  GradientTape tape;
  for (const Tensor& x : sources) tape.watch(x);
  const Tensor y = sample.call(inputs);
  return tape.gradient(y, GradientSources(sources), {upstream, Unconnected::zero});
}

/// One number that depends on all first gradients.
Tensor mixed(const std::vector<Tensor>& gradients) {
  Tensor sum_of_all = zeros({}, {DType::float64});
  unsigned turn = 0;
  for (const Tensor& g : gradients) sum_of_all = sum_of_all + sum(g * weights_like(g, ++turn));
  return sum_of_all;
}

Tensor slope(const Sample& sample, const std::vector<Tensor>& at) {
  return mixed(first_gradients(sample, {at.begin(), at.end() - 1}, at.back()));
}

/// The upstream gradient is a source too, as the first gradient is linear in it. `on_cpu` is the
/// same sample on the CPU.
void check_sample(const Sample& sample, const Sample& on_cpu) {
  std::vector<Tensor> inputs = sample.inputs, cpu_inputs = on_cpu.inputs;
  inputs.push_back(weights_like(sample.call(inputs)));
  cpu_inputs.push_back(inputs.back().to(cpu()));
  const std::vector<Host> expected = numeric_gradients(
      cpu_inputs, [&](const std::vector<Tensor>& at) { return slope(on_cpu, at).item<double>(); });

  const std::vector<Tensor> sources = floating(inputs);
  GradientTape outer;
  for (const Tensor& x : sources) outer.watch(x);
  const Tensor target = slope(sample, inputs);
  const std::vector<Tensor> got =
      outer.gradient(target, GradientSources(sources), Unconnected::zero);
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("source " << i);
    CHECK(difference(host_of(got[i]), expected[i], second_order(expected[i])) == "");
  }
}
}  // namespace

TEST_CASE("every second gradient agrees with differences of the first") {
  for (const Op* op : ops_and_composites()) {
    if (!op->gradient.differentiable || op->updates) continue;
    if (op->name == "function_slope") continue;  // a derivative itself; apply() has two of them
    const std::vector<Sample> samples = samples_of(*op);
    std::vector<Sample> on_cpu;
    {
      const DeviceScope here(cpu());
      on_cpu = samples_of(*op);
    }
    std::vector<std::size_t> filled;
    for (std::size_t number = 0; number < samples.size(); ++number) {
      const std::vector<Tensor>& inputs = samples[number].inputs;
      bool elements = !inputs.empty();
      for (const Tensor& x : inputs) elements &= x.size() > 0;
      if (elements && !floating(inputs).empty()) filled.push_back(number);
    }
    // The chosen samples are spread over the list: early samples are small, late ones are strided
    // or have several axes.
    INFO(op->name);
    CHECK(filled.size() >= samples_each);
    const std::size_t step = std::max<std::size_t>(1, filled.size() / samples_each);
    for (std::size_t i = 0; i < filled.size(); i += step) {
      INFO(describe(*op, filled[i], samples[filled[i]]));
      check_sample(samples[filled[i]], on_cpu[filled[i]]);
    }
  }
}
}  // namespace reel::tests
