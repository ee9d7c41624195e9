// SPDX-License-Identifier: BSD-3-Clause
#include <reel/optim/sgd.hpp>

#include <cmath>
#include <cstddef>
#include <utility>

#include "lib/nn/check.hpp"
#include "lib/optim/check.hpp"

namespace reel::optim {
SGD::SGD(std::vector<Variable> variables, SGDOptions options, Caller caller)
    : variables_(std::move(variables)),
      learning_rate_(
          "learning_rate",
          on_device_of(variables_, tensor<double>(options.learning_rate, caller), caller), caller),
      options_{options.momentum, options.nesterov} {
  check_variables("SGD", variables_, caller);
  check_number(std::isfinite(options.learning_rate) && options.learning_rate >= 0, "SGD",
               "learning_rate", "0 or more", options.learning_rate, caller);
  check_number(options.momentum >= 0 && options.momentum < 1, "SGD", "momentum",
               "0 or more and below 1", options.momentum, caller);
  check_number(!options.nesterov || options.momentum > 0, "SGD", "momentum",
               "more than 0 with nesterov", options.momentum, caller);
  if (options.momentum > 0) velocities_ = zeros_for("velocity", variables_, caller);
}

void SGD::step(const std::vector<Tensor>& gradients, Caller caller) {
  const CallerScope here(caller, "SGD");
  check_gradients("SGD", variables_, gradients, caller);
  const Operand rate(learning_rate_, caller);
  if (velocities_.empty())
    sgd_update(variables_, gradients, rate);
  else
    momentum_update(variables_, velocities_, gradients, rate, options_);
}
}  // namespace reel::optim
