// SPDX-License-Identifier: BSD-3-Clause
// Optimizer steps. Each reads a gradient, and updates a Variable and its state in place. The form
// for several Variables is one op; threads share its work, whatever the size of each Variable.
// Gradient and state have the Variable's shape and floating dtype. `rate` and `step` are single
// numbers; a rate is finite and not negative. Arguments that do not fit throw Error, ShapeError,
// DTypeError or IndexError before anything is written. Tapes do not record these ops.
//
// In the formulas, g is the gradient + weight_decay x. Adam applies the weight decay to x instead.
//
// If the gradient of a Variable has rows, the step changes these rows of the Variable and of its
// state, and nothing of the others: their averages do not decay, and they get no weight decay. Rows
// that are neither -1 nor in the Variable throw IndexError. The time does not depend on the size of
// the Variable, unless something else holds its value, which forces a copy.
#pragma once  // defined in lib/ops
#include <span>

#include <reel/ops/update_options.hpp>
#include <reel/row_gradient.hpp>

namespace reel {
/// x -= rate gradient. The gradient has the shape and floating dtype of x; rate is one number >= 0.
REEL_API void sgd_update(Variable& x, Operand gradient, Operand rate,
                         SGDUpdateOptions options = {});
/// The update of several Variables, as one op.
REEL_API void sgd_update(std::span<const Variable> x, GradientList gradients, Operand rate,
                         SGDUpdateOptions options = {});

/// velocity = momentum velocity + gradient, then x -= rate velocity (Polyak 1964). With `nesterov`
/// the second step is x -= rate (gradient + momentum velocity). velocity and gradient have the
/// shape and floating dtype of x; rate is one number >= 0.
REEL_API void momentum_update(Variable& x, Variable& velocity, Operand gradient, Operand rate,
                              MomentumOptions options = {});
/// The update of several Variables, as one op.
REEL_API void momentum_update(std::span<const Variable> x, std::span<const Variable> velocity,
                              GradientList gradients, Operand rate, MomentumOptions options = {});

/// Adam (Kingma and Ba 2015) with the weight decay of Loshchilov and Hutter (2019). t is the number
/// of the step, from 1: x -= rate weight_decay x; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 -
/// beta2) g^2; x -= rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon). m, v and the
/// gradient have the shape and floating dtype of x; rate and step are one number each.
REEL_API void adam_update(Variable& x, Variable& m, Variable& v, Operand gradient, Operand rate,
                          Operand step, AdamUpdateOptions options = {});
/// The update of several Variables, as one op.
REEL_API void adam_update(std::span<const Variable> x, std::span<const Variable> m,
                          std::span<const Variable> v, GradientList gradients, Operand rate,
                          Operand step, AdamUpdateOptions options = {});

/// Adam that divides by the largest v so far (Reddi, Kale and Kumar 2018): largest = max(largest,
/// v), which takes the place of v in the step.
REEL_API void amsgrad_update(std::span<const Variable> x, std::span<const Variable> m,
                             std::span<const Variable> v, std::span<const Variable> largest,
                             GradientList gradients, Operand rate, Operand step,
                             AdamUpdateOptions options = {});

/// v = decay v + (1 - decay) g^2; x -= rate g / (sqrt(v) + epsilon) (Tieleman and Hinton 2012).
REEL_API void rmsprop_update(std::span<const Variable> x, std::span<const Variable> v,
                             GradientList gradients, Operand rate,
                             RMSpropUpdateOptions options = {});
/// RMSprop with momentum: v as above, velocity = momentum velocity + g / (sqrt(v) + epsilon);
/// x -= rate velocity.
REEL_API void rmsprop_update(std::span<const Variable> x, std::span<const Variable> v,
                             std::span<const Variable> velocity, GradientList gradients,
                             Operand rate, RMSpropUpdateOptions options = {});

/// sum += g^2; x -= rate g / (sqrt(sum) + epsilon) (Duchi, Hazan and Singer 2011).
REEL_API void adagrad_update(std::span<const Variable> x, std::span<const Variable> sum,
                             GradientList gradients, Operand rate,
                             AdagradUpdateOptions options = {});

/// Moves each average towards a value: x += rate (value - x). A rate of 1 / n makes x the mean of n
/// values. values[i] has the shape and floating dtype of x[i]; rate is one number.
REEL_API void average_update(std::span<const Variable> x, std::span<const Tensor> values,
                             Operand rate);

namespace detail {
/// Throws Error unless the rate is one for an update of these Variables.
REEL_API void check_rate(Operand rate, std::span<const Variable> x);
/// Throws IndexError unless all rows are in x or -1. They have passed an UpdateCheck.
REEL_API void check_rows(const Tensor& rows, const Variable& x, Caller caller);
/// While it lives, updates check shapes, dtypes and devices, and write nothing.
class REEL_API UpdateCheck {
 public:
  UpdateCheck();
  ~UpdateCheck();
  UpdateCheck(const UpdateCheck&) = delete;
  UpdateCheck& operator=(const UpdateCheck&) = delete;

 private:
  bool outermost_;
};
}  // namespace detail
}  // namespace reel
