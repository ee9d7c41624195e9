// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/arithmetic.hpp>
#include <reel/optim/adam.hpp>

#include <cstdint>
#include <utility>

#include "lib/nn/check.hpp"
#include "lib/optim/check.hpp"

namespace reel::optim {
namespace {
AdamWOptions without_decay(const AdamOptions& options) {
  return {options.learning_rate, options.beta1, options.beta2, options.epsilon, 0, options.amsgrad};
}
std::vector<Group<AdamWOptions>> without_decay(const std::vector<Group<AdamOptions>>& groups,
                                               Caller caller) try {
  std::vector<Group<AdamWOptions>> all;
  for (const auto& [variables, options] : groups)
    all.push_back({variables, without_decay(options)});
  return all;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Adam");
}
}  // namespace

Adam::Adam(std::string_view name, const std::vector<Group<AdamWOptions>>& groups, Caller caller) try
    : Optimizer(name, groups, caller),
      m_(zeros_for("m", variables(), caller)),
      v_(zeros_for("v", variables(), caller)),
      steps_("steps", on_device_of(variables(), tensor(std::int64_t{0}, caller), caller), caller) {
  bool keeps_largest = false;
  for (const auto& [_, options] : groups) {
    for (double beta : {options.beta1, options.beta2}) check_fraction(beta, name, "beta", caller);
    check_positive(options.epsilon, name, "epsilon", caller);
    check_positive(options.weight_decay, name, "weight_decay", caller);
    append_options(options_, options);
    keeps_largest |= options.amsgrad;
  }
  if (keeps_largest) largest_ = zeros_for("largest", variables(), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, name);
}

Adam::Adam(std::vector<Variable> variables, AdamOptions options, Caller caller)
    : Adam("Adam", one_group("Adam", std::move(variables), without_decay(options), caller),
           caller) {}
Adam::Adam(const std::vector<Group<AdamOptions>>& groups, Caller caller)
    : Adam("Adam", without_decay(groups, caller), caller) {}
Adam::Adam(std::initializer_list<Group<AdamOptions>> groups, Caller caller)
    : Adam(std::vector(groups), caller) {}

AdamW::AdamW(std::vector<Variable> variables, AdamWOptions options, Caller caller)
    : AdamW(one_group("AdamW", std::move(variables), options, caller), caller) {}
AdamW::AdamW(const std::vector<Group<AdamWOptions>>& groups, Caller caller)
    : Adam("AdamW", groups, caller) {}
AdamW::AdamW(std::initializer_list<Group<AdamWOptions>> groups, Caller caller)
    : AdamW(std::vector(groups), caller) {}

std::string Adam::options_text() const {
  std::vector<AdamUpdateOptions> all;
  for (const AdamWOptions& of : options_)
    all.push_back({of.beta1, of.beta2, of.epsilon, of.weight_decay});
  return with_options(Optimizer::options_text(), all) + (largest_.empty() ? "" : "amsgrad\n");
}

void Adam::step(GradientList gradients, Caller caller) {
  const CallerScope here(caller, name());
  check_gradients(name(), variables(), gradients, caller);
  const Tensor steps = Operand(steps_, caller) + 1;
  update_groups(gradients, caller, [&](std::size_t g) {
    const AdamWOptions& of = options_[g];
    const AdamUpdateOptions options{of.beta1, of.beta2, of.epsilon, of.weight_decay};
    const Operand rate(learning_rate(g), caller), step(steps, caller);
    const auto x = part(variables(), g), m = part(m_, g), v = part(v_, g);
    if (of.amsgrad)
      amsgrad_update(x, m, v, part(largest_, g), part(gradients, g), rate, step, options);
    else
      adam_update(x, m, v, part(gradients, g), rate, step, options);
  });
  steps_.assign(steps);
}
}  // namespace reel::optim
