// SPDX-License-Identifier: BSD-3-Clause
// What the samples of all ops ask of the CUDA runtime when they run a second time.
#include <algorithm>

#include "cuda/emulated.hpp"
#include "cuda/every_kernel.hpp"
#include "support/error_text.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
std::vector<Tensor> on_cuda(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> there;
  for (const Tensor& x : inputs) there.push_back(x.to(cuda(0)));
  return there;
}
/// The runtime calls of a second call on the same inputs.
emulate::Counts counts_again(const Sample& sample) {
  const std::vector<Tensor> inputs = on_cuda(sample.inputs);
  sample.call(inputs);
  synchronize(cuda(0));
  emulate::reset_counts();
  sample.call(inputs);
  return emulate::counts();
}
}  // namespace

TEST_CASE("no op allocates or waits when it runs a second time") {
  const DeviceScope scope(cuda(0));
  std::size_t ops = 0;
  for (const Op* op : library_ops()) {
    if (runs_on_host(*op)) continue;
    const std::vector<Sample> samples = samples_of(*op);
    ops += !samples.empty();
    const std::size_t step = std::max<std::size_t>(1, samples.size() / 10);
    for (std::size_t i = 0; i < samples.size(); i += step) {
      INFO(describe(*op, i, samples[i]));
      const emulate::Counts counts = counts_again(samples[i]);
      CHECK(counts.allocations == 0);
      CHECK(counts.synchronizations == 0);
    }
  }
  CHECK(ops > 130);
}

TEST_CASE("ops run on the device of their inputs, without a DeviceScope") {
  std::string failed;
  for (const Op* op : library_ops()) {
    const std::vector<Sample> samples = samples_of(*op);
    if (samples.empty() || samples[0].inputs.empty()) continue;
    const std::string text = error_text([&] { samples[0].call(on_cuda(samples[0].inputs)); });
    if (!text.empty()) failed += std::string(op->name) + ": " + text + "\n";
  }
  CHECK(failed == "");
  const Tensor x = ones({2, 3}).to(cuda(0));
  const nn::LSTM layers(3, 4, {.layers = 2, .dropout = 0.5});
  to(layers, cuda(0));
  CHECK(dropout(x, 0.5).device() == cuda(0));
  CHECK(nn::Dropout(0.5)(x).device() == cuda(0));
  CHECK(layers(expand_dims(x, 0)).outputs.device() == cuda(0));
  const DeviceScope scope(cuda(0));
  CHECK(dropout(ones({2}).to(cpu()), 0.5).device() == cpu());
}
}  // namespace reel::tests
