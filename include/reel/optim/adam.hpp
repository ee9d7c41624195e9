// SPDX-License-Identifier: BSD-3-Clause
// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019).
#pragma once  // defined in lib/optim
#include <string_view>
#include <vector>

#include <reel/ops/update.hpp>

namespace reel::optim {
/// Options of Adam.
struct AdamOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};
/// See adam_update(). Throws Error for a negative rate or epsilon, or a beta outside [0, 1).
class REEL_API Adam {
 public:
  explicit Adam(std::vector<Variable> variables, AdamOptions options = {},
                Caller caller = Caller::here());
  /// Updates the Variables. Takes one gradient for each of them, in their order. Throws Error,
  /// ShapeError or DTypeError before anything has changed.
  void step(const std::vector<Tensor>& gradients, Caller caller = Caller::here());
  /// The learning rate, a float64 number. Assign another one at any time.
  Variable& learning_rate() { return learning_rate_; }
  /// The number of steps so far, int64.
  const Variable& steps() const { return steps_; }
  /// What it updates.
  const std::vector<Variable>& variables() const { return variables_; }
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    field("learning_rate", learning_rate_);
    field("steps", steps_);
    field("m", m_);
    field("v", v_);
  }

 protected:
  Adam(std::string_view name, std::vector<Variable> variables, double learning_rate,
       AdamUpdateOptions options, Caller caller);

 private:
  std::string_view name_;
  std::vector<Variable> variables_, m_, v_;
  Variable learning_rate_, steps_;
  AdamUpdateOptions options_;
};

/// Options of AdamW.
struct AdamWOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 1e-2;
};
/// Adam with weight decay: each step also multiplies the weights by 1 - rate weight_decay.
class REEL_API AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Variable> variables, AdamWOptions options = {},
                 Caller caller = Caller::here());
};
}  // namespace reel::optim
