// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/arithmetic.hpp>
#include <reel/optim/adam.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lib/nn/check.hpp"
#include "lib/optim/check.hpp"

namespace reel::optim {
Adam::Adam(std::string_view name, std::vector<Variable> variables, double learning_rate,
           AdamUpdateOptions options, Caller caller)
    : name_(name),
      variables_(std::move(variables)),
      m_(zeros_for("m", variables_, caller)),
      v_(zeros_for("v", variables_, caller)),
      learning_rate_("learning_rate",
                     on_device_of(variables_, tensor<double>(learning_rate, caller), caller),
                     caller),
      steps_("steps", on_device_of(variables_, tensor(std::int64_t{0}, caller), caller), caller),
      options_(options) {
  check_variables(name, variables_, caller);
  check_number(std::isfinite(learning_rate) && learning_rate >= 0, name, "learning_rate",
               "0 or more", learning_rate, caller);
  for (double beta : {options.beta1, options.beta2}) {
    check_number(beta >= 0 && beta < 1, name, "beta", "0 or more and below 1", beta, caller);
  }
  check_number(std::isfinite(options.epsilon) && options.epsilon >= 0, name, "epsilon", "0 or more",
               options.epsilon, caller);
  check_number(std::isfinite(options.weight_decay) && options.weight_decay >= 0, name,
               "weight_decay", "0 or more", options.weight_decay, caller);
}

Adam::Adam(std::vector<Variable> variables, AdamOptions options, Caller caller)
    : Adam("Adam", std::move(variables), options.learning_rate,
           {options.beta1, options.beta2, options.epsilon}, caller) {}

AdamW::AdamW(std::vector<Variable> variables, AdamWOptions options, Caller caller)
    : Adam("AdamW", std::move(variables), options.learning_rate,
           {options.beta1, options.beta2, options.epsilon, options.weight_decay}, caller) {}

void Adam::step(const std::vector<Tensor>& gradients, Caller caller) {
  const CallerScope here(caller, name_);
  check_gradients(name_, variables_, gradients, caller);
  const Tensor steps = Operand(steps_, caller) + 1;
  adam_update(variables_, m_, v_, gradients, {learning_rate_, caller}, {steps, caller}, options_);
  steps_.assign(steps);
}
}  // namespace reel::optim
