// SPDX-License-Identifier: BSD-3-Clause
// Options of optimizer steps, see reel/ops/update.hpp.
#pragma once

namespace reel {
/// Options of sgd_update().
struct SGDUpdateOptions {
  double weight_decay = 0;
  void fields(auto&& field) { field("weight_decay", weight_decay); }
  friend bool operator==(const SGDUpdateOptions&, const SGDUpdateOptions&) = default;
};
/// Options of momentum_update().
struct MomentumOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  void fields(auto&& field) {
    field("momentum", momentum);
    field("nesterov", nesterov);
    field("weight_decay", weight_decay);
  }
  friend bool operator==(const MomentumOptions&, const MomentumOptions&) = default;
};
/// Options of adam_update() and amsgrad_update().
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
/// Options of rmsprop_update().
struct RMSpropUpdateOptions {
  double decay = 0.99, epsilon = 1e-8, weight_decay = 0;
  double momentum = 0;  // of the form with a velocity
  void fields(auto&& field) {
    field("decay", decay);
    field("epsilon", epsilon);
    field("weight_decay", weight_decay);
    field("momentum", momentum);
  }
  friend bool operator==(const RMSpropUpdateOptions&, const RMSpropUpdateOptions&) = default;
};
/// Options of adagrad_update().
struct AdagradUpdateOptions {
  double epsilon = 1e-10, weight_decay = 0;
  void fields(auto&& field) {
    field("epsilon", epsilon);
    field("weight_decay", weight_decay);
  }
  friend bool operator==(const AdagradUpdateOptions&, const AdagradUpdateOptions&) = default;
};
}  // namespace reel
