// SPDX-License-Identifier: BSD-3-Clause
// Stochastic gradient descent.
#pragma once  // defined in lib/optim
#include <reel/ops/update.hpp>
#include <reel/optim/optimizer.hpp>

namespace reel::optim {
/// Options of SGD.
struct SGDOptions {
  double learning_rate = 1e-2, momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;  // adds weight_decay x to the gradient
};
/// x -= rate gradient; with momentum see momentum_update(). Throws Error for a negative rate or
/// weight decay, a momentum outside [0, 1), or nesterov without momentum.
class REEL_API SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Variable> variables, SGDOptions options = {},
               Caller caller = Caller::here());
  explicit SGD(const std::vector<Group<SGDOptions>>& groups, Caller caller = Caller::here());
  explicit SGD(std::initializer_list<Group<SGDOptions>> groups, Caller caller = Caller::here());
  using Optimizer::step;
  void step(GradientList gradients, Caller caller = Caller::here()) override;
  std::string options_text() const override;
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    Optimizer::fields(field);
    field("velocity", velocities_);
  }

 private:
  std::vector<Variable> velocities_;
  std::vector<MomentumOptions> options_;  // of each group
};
}  // namespace reel::optim
