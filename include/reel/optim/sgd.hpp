// SPDX-License-Identifier: BSD-3-Clause
// Gradient descent.
#pragma once  // defined in lib/optim
#include <vector>

#include <reel/ops/update.hpp>

namespace reel::optim {
/// Options of SGD.
struct SGDOptions {
  double learning_rate = 1e-2, momentum = 0;
  bool nesterov = false;
};
/// x -= rate gradient; with momentum see momentum_update(). Throws Error for a negative rate, a
/// momentum outside [0, 1), or nesterov without momentum.
class REEL_API SGD {
 public:
  explicit SGD(std::vector<Variable> variables, SGDOptions options = {},
               Caller caller = Caller::here());
  /// Updates the Variables. Takes one gradient for each of them, in their order. Throws Error,
  /// ShapeError or DTypeError before anything has changed.
  void step(const std::vector<Tensor>& gradients, Caller caller = Caller::here());
  /// The learning rate, a float64 number. Assign another one at any time.
  Variable& learning_rate() { return learning_rate_; }
  /// What it updates.
  const std::vector<Variable>& variables() const { return variables_; }
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    field("learning_rate", learning_rate_);
    field("velocity", velocities_);
  }

 private:
  std::vector<Variable> variables_, velocities_;
  Variable learning_rate_;
  MomentumOptions options_;
};
}  // namespace reel::optim
