// SPDX-License-Identifier: BSD-3-Clause
// Optimizer steps. Each reads a gradient and updates a Variable and its state in place, in one
// pass. The form for several Variables is one op, whose work is shared by threads whatever the size
// of each Variable. Floating dtypes: gradient and state have the Variable's shape and dtype; `rate`
// and `step` are single numbers. Tapes do not record these ops. They throw Error, ShapeError or
// DTypeError for arguments that do not fit, before anything is written.
#pragma once  // defined in lib/ops
#include <span>

#include <reel/variable.hpp>

namespace reel {
/// x -= rate gradient.
REEL_API void sgd_update(Variable& x, Operand gradient, Operand rate);
REEL_API void sgd_update(std::span<const Variable> x, std::span<const Tensor> gradients,
                         Operand rate);

/// Options of momentum_update().
struct MomentumOptions {
  double momentum = 0.9;
  bool nesterov = false;
  void fields(auto&& field) {
    field("momentum", momentum);
    field("nesterov", nesterov);
  }
  friend bool operator==(const MomentumOptions&, const MomentumOptions&) = default;
};
/// velocity = momentum velocity + gradient, then x -= rate velocity (Polyak 1964). With `nesterov`
/// the second step is x -= rate (gradient + momentum velocity).
REEL_API void momentum_update(Variable& x, Variable& velocity, Operand gradient, Operand rate,
                              MomentumOptions options = {});
REEL_API void momentum_update(std::span<const Variable> x, std::span<const Variable> velocity,
                              std::span<const Tensor> gradients, Operand rate,
                              MomentumOptions options = {});

/// Options of adam_update().
struct AdamUpdateOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // added to the step, not to the gradient, as in AdamW
  void fields(auto&& field) {
    field("beta1", beta1);
    field("beta2", beta2);
    field("epsilon", epsilon);
    field("weight_decay", weight_decay);
  }
  friend bool operator==(const AdamUpdateOptions&, const AdamUpdateOptions&) = default;
};
/// Adam (Kingma and Ba 2015) with the weight decay of Loshchilov and Hutter (2019). t is the number
/// of the step, from 1: x -= rate weight_decay x; m = beta1 m + (1 - beta1) g;
/// v = beta2 v + (1 - beta2) g^2; x -= rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) +
/// epsilon).
REEL_API void adam_update(Variable& x, Variable& m, Variable& v, Operand gradient, Operand rate,
                          Operand step, AdamUpdateOptions options = {});
REEL_API void adam_update(std::span<const Variable> x, std::span<const Variable> m,
                          std::span<const Variable> v, std::span<const Tensor> gradients,
                          Operand rate, Operand step, AdamUpdateOptions options = {});
}  // namespace reel
