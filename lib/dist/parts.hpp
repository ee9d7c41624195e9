// SPDX-License-Identifier: BSD-3-Clause
// An optimizer of a model whose parts are on several ranks: they take a step together or not at
// all.
#pragma once
#include <vector>

#include <reel/dist/world.hpp>
#include <reel/optim/optimizer.hpp>

namespace reel::dist::detail {
class Parts final : public optim::Optimizer {
 public:
  /// `ranks` have the parts; `optimizer` updates that of this rank.
  Parts(const World& ranks, optim::Optimizer& optimizer)
      : Optimizer(optimizer), ranks_(ranks), optimizer_(optimizer) {}
  void step(GradientList gradients, Caller caller) override { optimizer_.step(gradients, caller); }
  /// By the gradients of all parts. All ranks call it, and get the same answer. A Variable that is
  /// no part counts once. Throws DistError if its gradient differs between ranks.
  bool admit(std::vector<RowGradient>& gradients, bool finite, double norm,
             Caller caller) const override;

 private:
  const World& ranks_;
  optim::Optimizer& optimizer_;
};
}  // namespace reel::dist::detail
