// SPDX-License-Identifier: BSD-3-Clause
// The gradient of an input does not depend on which other inputs a tape watches.
#include <algorithm>

#include "support/short.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
const std::size_t samples_each = is_short() ? 2 : 5;
using Chosen = std::vector<std::size_t>;

/// The gradients of these inputs if only they are watched. If an outer tape records, public ops
/// compute them.
std::vector<Host> gradients_of(const Sample& sample, const Chosen& chosen, bool listened) {
  std::vector<Tensor> sources;
  for (const std::size_t i : chosen) sources.push_back(sample.inputs[i]);
  GradientTape outer;
  if (listened)
    for (const Tensor& x : sources) outer.watch(x);
  GradientTape tape;
  for (const Tensor& x : sources) tape.watch(x);
  const Tensor y = sample.call(sample.inputs);
  std::vector<Host> hosts;
  for (const Tensor& g :
       tape.gradient(y, GradientSources(sources), {weights_like(y), Unconnected::zero}))
    hosts.push_back(host_of(g));
  return hosts;
}
}  // namespace

TEST_CASE("each input has the same gradient alone, beside others, and under an outer tape") {
  const Near near{1e-10, 1e-11};
  for (const Op* op : ops_and_composites()) {
    if (!op->gradient.differentiable || op->updates) continue;
    const std::vector<Sample> samples = samples_of(*op);
    const std::size_t step = std::max<std::size_t>(1, samples.size() / samples_each);
    for (std::size_t number = 0; number < samples.size(); number += step) {
      const Sample& sample = samples[number];
      Chosen all;
      for (std::size_t i = 0; i < sample.inputs.size(); ++i)
        if (is_floating(sample.inputs[i].dtype())) all.push_back(i);
      if (all.empty() || !is_floating(sample.call(sample.inputs).dtype())) continue;
      INFO(describe(*op, number, sample));
      const std::vector<Host> expected = gradients_of(sample, all, false);
      const auto check = [&](const Chosen& chosen, bool listened) {
        const std::vector<Host> got = gradients_of(sample, chosen, listened);
        for (std::size_t k = 0; k < chosen.size(); ++k) {
          const auto place =
              static_cast<std::size_t>(std::find(all.begin(), all.end(), chosen[k]) - all.begin());
          INFO("input " << chosen[k] << " of " << chosen.size() << ", under an outer tape "
                        << listened);
          CHECK(difference(got[k], expected[place], near) == "");
        }
      };
      check(all, true);
      if (all.size() == 1) continue;
      for (const std::size_t one : all) {
        Chosen others = all;
        others.erase(std::find(others.begin(), others.end(), one));
        for (const bool listened : {false, true}) {
          check({one}, listened);
          if (others.size() > 1) check(others, listened);
        }
      }
    }
  }
}
}  // namespace reel::tests
