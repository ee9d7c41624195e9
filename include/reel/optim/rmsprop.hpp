// SPDX-License-Identifier: BSD-3-Clause
// Optimizers that divide a step by the size of the gradients: RMSprop by that of recent gradients
// (Tieleman and Hinton 2012), Adagrad by that of all gradients (Duchi, Hazan and Singer 2011).
#pragma once  // defined in lib/optim
#include <reel/ops/update.hpp>
#include <reel/optim/optimizer.hpp>

namespace reel::optim {
/// Options of RMSprop.
struct RMSpropOptions {
  double learning_rate = 1e-2, decay = 0.99, epsilon = 1e-8, momentum = 0;
  double weight_decay = 0;  // adds weight_decay x to the gradient
};
/// RMSprop; rmsprop_update() has the formula. Throws Error for a negative rate, epsilon or weight
/// decay, or a decay or momentum outside [0, 1).
class REEL_API RMSprop : public Optimizer {
 public:
  explicit RMSprop(std::vector<Variable> variables, RMSpropOptions options = {},
                   Caller caller = Caller::here());
  explicit RMSprop(const std::vector<Group<RMSpropOptions>>& groups,
                   Caller caller = Caller::here());
  explicit RMSprop(std::initializer_list<Group<RMSpropOptions>> groups,
                   Caller caller = Caller::here());
  using Optimizer::step;
  void step(GradientList gradients, Caller caller = Caller::here()) override;
  std::string options_text() const override;
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    Optimizer::fields(field);
    field("v", v_);
    field("velocity", velocities_);
  }

 private:
  std::vector<Variable> v_, velocities_;       // no velocities unless a group has momentum
  std::vector<RMSpropUpdateOptions> options_;  // of each group
};

/// Options of Adagrad.
struct AdagradOptions {
  double learning_rate = 1e-2, epsilon = 1e-10;
  double weight_decay = 0;  // adds weight_decay x to the gradient
  double first_sum = 0;     // where the sums of squares start
};
/// Adagrad; adagrad_update() has the formula. Throws Error for a negative rate, epsilon, weight
/// decay or first sum.
class REEL_API Adagrad : public Optimizer {
 public:
  explicit Adagrad(std::vector<Variable> variables, AdagradOptions options = {},
                   Caller caller = Caller::here());
  explicit Adagrad(const std::vector<Group<AdagradOptions>>& groups,
                   Caller caller = Caller::here());
  explicit Adagrad(std::initializer_list<Group<AdagradOptions>> groups,
                   Caller caller = Caller::here());
  using Optimizer::step;
  void step(GradientList gradients, Caller caller = Caller::here()) override;
  std::string options_text() const override;
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    Optimizer::fields(field);
    field("sum", sums_);
  }

 private:
  std::vector<Variable> sums_;
  std::vector<AdagradUpdateOptions> options_;  // of each group
};
}  // namespace reel::optim
