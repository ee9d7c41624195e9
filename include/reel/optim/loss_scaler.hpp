// SPDX-License-Identifier: BSD-3-Clause
// Loss scaling for float16 (Micikevicius et al. 2018, "Mixed Precision Training").
#pragma once  // defined in lib/optim
#include <reel/optim/optimizer.hpp>

namespace reel::optim {
/// Options of a LossScaler.
struct LossScalerOptions {
  double scale = 65536;          // the first factor
  double growth = 2;             // of the factor, after `interval` good steps in a row
  double backoff = 0.5;          // of the factor, after a step with an infinity or a NaN
  std::int64_t interval = 2000;  // good steps
  double clip_norm = 0;          // of the gradients without the factor; 0: they are not clipped
};
/// Keeps small gradients of float16 above zero: the loss is multiplied by a factor, and the
/// gradients are divided by it before the step. If a gradient is infinite or NaN, the step is left
/// out: Variables, the optimizer's state and its count of steps stay as they are, and the factor
/// becomes smaller. bfloat16 has float32's range, so that it needs no factor; a LossScaler does no
/// harm there.
///
///     Variable w("w", ones({2}));
///     optim::SGD sgd({w}, {.learning_rate = 0.5});
///     optim::LossScaler scaler;
///     GradientTape tape;
///     scaler.step(sgd, tape, sum(w * 2))  // true
///     w.value()                           // [0., 0.]
///
/// step() returns false if the step was left out, so that a schedule can wait. Save a LossScaler
/// beside the optimizer. Throws Error unless scale > 0, growth > 1, 0 < backoff < 1,
/// interval >= 1 and clip_norm >= 0.
class REEL_API LossScaler {
 public:
  explicit LossScaler(LossScalerOptions options = {}, Caller caller = Caller::here());
  /// loss times the factor. Call it while the tape records, for gradients of your own. The result
  /// has the shape and dtype of the loss.
  Tensor scale(Operand loss) const;
  /// The step of the optimizer with gradients of scale(loss). Returns false if the step was left
  /// out. Throws Error if gradients are not finite although the factor has come down to 1: then the
  /// model itself is at fault. Reads one truth value on the host.
  bool step(Optimizer& optimizer, GradientList gradients, Caller caller = Caller::here());
  /// A step with the gradients of a loss for the optimizer's Variables. The loss is not scaled
  /// before. Throws ShapeError unless the loss is one number.
  bool step(Optimizer& optimizer, GradientTape& tape, Operand loss);

  /// The factor, a float32 number.
  Variable factor;
  /// Good steps since the factor last changed, an int64 number.
  Variable good_steps;
  void fields(auto&& field) {
    field("factor", factor);
    field("good_steps", good_steps);
  }

 private:
  LossScalerOptions options_;
};
}  // namespace reel::optim
