// SPDX-License-Identifier: BSD-3-Clause
// The gradient of one sample, computed in every way that the tape has, compared with differences.
#pragma once
#include "sweep/numeric.hpp"

namespace reel::tests {
class GradientCase {
 public:
  /// `on_cpu` is the same sample on the CPU.
  GradientCase(Sample sample, const Sample& on_cpu)
      : sample_(std::move(sample)), sources_(floating(sample_.inputs)) {
    if (sources_.empty()) return;
    upstream_ = weights_like(sample_.call(sample_.inputs));
    const Host weights = host_of(upstream_);
    expected_ = numeric_gradients(on_cpu.inputs, [&](const std::vector<Tensor>& inputs) {
      return weighted(on_cpu.call(inputs), weights);
    });
  }

  /// Empty if all ways give the same gradient.
  std::string problem() const {
    if (sources_.empty()) return {};
    std::string found = wrong("fused", fused(upstream_), 1);
    if (found.empty()) found = wrong("strided upstream", fused(strided(upstream_)), 1);
    if (found.empty()) found = wrong("accumulated", accumulated(), 2);
    if (found.empty()) found = wrong("formula", by_formula(), 1);
    return found;
  }

 private:
  using Gradients = std::vector<Tensor>;
  void watch(GradientTape& tape) const {
    for (const Tensor& x : sources_) tape.watch(x);
  }
  GradientOptions options(const Tensor& upstream) const { return {upstream, Unconnected::zero}; }

  /// No outer tape records, so fused kernels run.
  Gradients fused(const Tensor& upstream) const {
    GradientTape tape;
    watch(tape);
    const Tensor y = sample_.call(sample_.inputs);
    return tape.gradient(y, GradientSources(sources_), options(upstream));
  }
  /// An outer tape records, so gradient rules run as public ops.
  Gradients by_formula() const {
    GradientTape outer;
    watch(outer);
    return fused(upstream_);
  }
  /// Each source is used twice: the second gradient is added to the first.
  Gradients accumulated() const {
    GradientTape tape;
    watch(tape);
    const Tensor y = sample_.call(sample_.inputs) + sample_.call(sample_.inputs);
    return tape.gradient(y, GradientSources(sources_), options(upstream_));
  }
  /// The numbers of x, with the first axis stored backward.
  static Tensor strided(const Tensor& x) {
    return x.rank() ? fresh(x[range({}, {}, -1)])[range({}, {}, -1)] : x;
  }

  std::string wrong(const char* way, const Gradients& got, double factor) const {
    for (std::size_t i = 0; i < got.size(); ++i) {
      Host wanted = expected_[i];
      for (double& value : wanted.values) value *= factor;
      const std::string found = difference(host_of(got[i]), wanted, first_order(wanted));
      if (!found.empty()) return way + (", source " + std::to_string(i)) + ": " + found;
    }
    return {};
  }

  Sample sample_;
  Gradients sources_;
  Tensor upstream_;
  std::vector<Host> expected_;
};
}  // namespace reel::tests
