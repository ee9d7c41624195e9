// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/create.hpp>
#include <reel/optim/rmsprop.hpp>

#include <utility>

#include "lib/nn/check.hpp"
#include "lib/optim/check.hpp"

namespace reel::optim {
RMSprop::RMSprop(std::vector<Variable> variables, RMSpropOptions options, Caller caller)
    : RMSprop(one_group("RMSprop", std::move(variables), options, caller), caller) {}
RMSprop::RMSprop(std::initializer_list<Group<RMSpropOptions>> groups, Caller caller)
    : RMSprop(std::vector(groups), caller) {}

RMSprop::RMSprop(const std::vector<Group<RMSpropOptions>>& groups, Caller caller) try
    : Optimizer("RMSprop", groups, caller), v_(zeros_for("v", variables(), caller)) {
  bool moves = false;
  for (const auto& [_, options] : groups) {
    check_fraction(options.decay, "RMSprop", "decay", caller);
    check_fraction(options.momentum, "RMSprop", "momentum", caller);
    check_positive(options.epsilon, "RMSprop", "epsilon", caller);
    check_positive(options.weight_decay, "RMSprop", "weight_decay", caller);
    options_.push_back({options.decay, options.epsilon, options.weight_decay, options.momentum});
    moves |= options.momentum > 0;
  }
  if (moves) velocities_ = zeros_for("velocity", variables(), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "RMSprop");
}

std::string RMSprop::options_text() const {
  return with_options(Optimizer::options_text(), options_);
}

void RMSprop::step(GradientList gradients, Caller caller) {
  const CallerScope here(caller, name());
  check_gradients(name(), variables(), gradients, caller);
  update_groups(gradients, caller, [&](std::size_t g) {
    const Operand rate(learning_rate(g), caller);
    const auto x = part(variables(), g), v = part(v_, g);
    if (velocities_.empty())
      rmsprop_update(x, v, part(gradients, g), rate, options_[g]);
    else
      rmsprop_update(x, v, part(velocities_, g), part(gradients, g), rate, options_[g]);
  });
}

Adagrad::Adagrad(std::vector<Variable> variables, AdagradOptions options, Caller caller)
    : Adagrad(one_group("Adagrad", std::move(variables), options, caller), caller) {}
Adagrad::Adagrad(std::initializer_list<Group<AdagradOptions>> groups, Caller caller)
    : Adagrad(std::vector(groups), caller) {}

Adagrad::Adagrad(const std::vector<Group<AdagradOptions>>& groups, Caller caller) try
    : Optimizer("Adagrad", groups, caller) {
  for (const auto& [variables, options] : groups) {
    check_positive(options.epsilon, "Adagrad", "epsilon", caller);
    check_positive(options.weight_decay, "Adagrad", "weight_decay", caller);
    check_positive(options.first_sum, "Adagrad", "first_sum", caller);
    options_.push_back({options.epsilon, options.weight_decay});
    for (const Variable& x : variables)
      sums_.emplace_back("sum", full_like({x, caller}, options.first_sum), caller);
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Adagrad");
}

std::string Adagrad::options_text() const {
  return with_options(Optimizer::options_text(), options_);
}

void Adagrad::step(GradientList gradients, Caller caller) {
  const CallerScope here(caller, name());
  check_gradients(name(), variables(), gradients, caller);
  update_groups(gradients, caller, [&](std::size_t g) {
    adagrad_update(part(variables(), g), part(sums_, g), part(gradients, g),
                   {learning_rate(g), caller}, options_[g]);
  });
}
}  // namespace reel::optim
