// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>
#include <reel/optim/loss_scaler.hpp>
#include <reel/tape.hpp>

#include <utility>

#include "lib/nn/check.hpp"
#include "lib/optim/check.hpp"

namespace reel::optim {
namespace {
constexpr const char* const name = "LossScaler";
constexpr double largest_factor = 0x1p60;
}  // namespace

LossScaler::LossScaler(LossScalerOptions options, Caller caller)
    : factor("factor", tensor(static_cast<float>(options.scale), caller), caller),
      good_steps("good_steps", tensor(std::int64_t{0}, caller), caller),
      options_(options) {
  check_number(options.scale > 0 && options.scale <= largest_factor, name, "scale",
               "more than 0, at most 2^60", options.scale, caller);
  check_number(options.growth > 1, name, "growth", "more than 1", options.growth, caller);
  check_number(options.backoff > 0 && options.backoff < 1, name, "backoff", "a number in (0, 1)",
               options.backoff, caller);
  check_number(options.interval >= 1, name, "interval", "1 or more",
               static_cast<double>(options.interval), caller);
  check_positive(options.clip_norm, name, "clip_norm", caller);
}

Tensor LossScaler::scale(Operand loss) const {
  const CallerScope here(loss.caller(), name);
  return loss * cast(factor, loss.value().dtype());
}

bool LossScaler::step(Optimizer& optimizer, GradientTape& tape, Operand loss) {
  const CallerScope here(loss.caller(), name);
  const Tensor x = loss.value();
  if (x.size() != 1)
    fail<ShapeError>(loss.caller(), name, "loss", "one number", "shape " + to_text(x.shape()),
                     "Use its mean() or its sum().");
  const Tensor upstream = broadcast_to(cast(factor, x.dtype()), x.shape());
  return step(optimizer, tape.row_gradients(loss, optimizer.variables(), {.upstream = upstream}),
              loss.caller());
}

bool LossScaler::step(Optimizer& optimizer, GradientList gradients, Caller caller) try {
  const CallerScope here(caller, name);
  const Tensor inverse = 1 / factor;
  std::vector<RowGradient> unscaled;
  Tensor finite = tensor(true, caller);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& x = gradients.values(i);
    finite = logical_and(std::move(finite), all(isfinite(x)));
    unscaled.push_back(
        {x * cast(inverse, x.dtype()), gradients.rows(i) ? *gradients.rows(i) : Tensor()});
  }
  if (!optimizer.admit(unscaled, static_cast<bool>(finite), options_.clip_norm, caller)) {
    if (static_cast<bool>(factor <= 1))
      fail<Error>(caller, name, "gradients", "finite numbers at factor 1", "an infinity or a NaN",
                  "FiniteScope names the op that makes it.");
    factor.assign(maximum(factor * options_.backoff, 1));
    good_steps.assign(0);
    return false;
  }
  optimizer.step(unscaled, caller);
  const Tensor steps = good_steps + 1, grows = steps >= options_.interval;
  factor.assign(where(grows, minimum(factor * options_.growth, largest_factor), factor));
  good_steps.assign(where(grows, 0, steps));
  return true;
} catch (const std::bad_alloc&) {
  fail_memory(caller, name);
}
}  // namespace reel::optim
