// SPDX-License-Identifier: BSD-3-Clause
// R2: gradients of gradients, computed by the formulas, compared with differences of first
// gradients.
#include "sweep/numeric.hpp"

namespace reel::tests {
namespace {
constexpr std::size_t samples_each = 4;

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

/// The upstream gradient is a source too, as the first gradient is linear in it.
void check_sample(const Sample& sample) {
  std::vector<Tensor> inputs = sample.inputs;
  inputs.push_back(weights_like(sample.call(inputs)));
  const auto slope = [&](const std::vector<Tensor>& at) {
    return mixed(first_gradients(sample, {at.begin(), at.end() - 1}, at.back()));
  };
  const std::vector<Host> expected = numeric_gradients(
      inputs, [&](const std::vector<Tensor>& at) { return slope(at).item<double>(); });

  const std::vector<Tensor> sources = floating(inputs);
  GradientTape outer;
  for (const Tensor& x : sources) outer.watch(x);
  const Tensor target = slope(inputs);
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
    std::vector<std::pair<std::size_t, Sample>> filled;
    std::size_t number = 0;
    for (Sample& sample : samples_of(*op)) {
      bool elements = !sample.inputs.empty();
      for (const Tensor& x : sample.inputs) elements &= x.size() > 0;
      if (elements && !floating(sample.inputs).empty()) filled.emplace_back(number, sample);
      ++number;
    }
    // The chosen samples are spread over the list: early samples are small, late ones are strided
    // or have several axes.
    INFO(op->name);
    CHECK(filled.size() >= samples_each);
    const std::size_t step = std::max<std::size_t>(1, filled.size() / samples_each);
    for (std::size_t i = 0; i < filled.size(); i += step) {
      INFO(describe(*op, filled[i].first, filled[i].second));
      check_sample(filled[i].second);
    }
  }
}
}  // namespace reel::tests
