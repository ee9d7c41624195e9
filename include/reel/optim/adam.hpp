// SPDX-License-Identifier: BSD-3-Clause
// Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019) and AMSGrad (Reddi et al. 2018).
#pragma once  // defined in lib/optim
#include <reel/ops/update.hpp>
#include <reel/optim/optimizer.hpp>

namespace reel::optim {
/// Options of Adam.
struct AdamOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool amsgrad = false;  // divides by the largest second moment so far, see amsgrad_update()
};
/// Options of AdamW.
struct AdamWOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 1e-2;
  bool amsgrad = false;
};
/// Adam; adam_update() has the formula. Throws Error for a negative rate or epsilon, or a beta
/// outside [0, 1).
class REEL_API Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Variable> variables, AdamOptions options = {},
                Caller caller = Caller::here());
  explicit Adam(const std::vector<Group<AdamOptions>>& groups, Caller caller = Caller::here());
  explicit Adam(std::initializer_list<Group<AdamOptions>> groups, Caller caller = Caller::here());
  using Optimizer::step;
  void step(GradientList gradients, Caller caller = Caller::here()) override;
  std::string options_text() const override;
  /// The number of steps so far, int64.
  const Variable& steps() const { return steps_; }
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    Optimizer::fields(field);
    field("steps", steps_);
    field("m", m_);
    field("v", v_);
    field("largest", largest_);
  }

 protected:
  Adam(std::string_view name, const std::vector<Group<AdamWOptions>>& groups, Caller caller);

 private:
  std::vector<Variable> m_, v_, largest_;  // largest_ is empty unless a group has amsgrad
  Variable steps_;
  std::vector<AdamWOptions> options_;  // of each group
};

/// Adam with weight decay: each step first multiplies the weights by 1 - rate weight_decay.
class REEL_API AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Variable> variables, AdamWOptions options = {},
                 Caller caller = Caller::here());
  explicit AdamW(const std::vector<Group<AdamWOptions>>& groups, Caller caller = Caller::here());
  explicit AdamW(std::initializer_list<Group<AdamWOptions>> groups, Caller caller = Caller::here());
};
}  // namespace reel::optim
