// SPDX-License-Identifier: BSD-3-Clause
#include <reel/optim/sgd.hpp>

#include <utility>

#include "lib/nn/check.hpp"
#include "lib/optim/check.hpp"

namespace reel::optim {
SGD::SGD(std::vector<Variable> variables, SGDOptions options, Caller caller)
    : SGD(one_group("SGD", std::move(variables), options, caller), caller) {}
SGD::SGD(std::initializer_list<Group<SGDOptions>> groups, Caller caller)
    : SGD(std::vector(groups), caller) {}

SGD::SGD(const std::vector<Group<SGDOptions>>& groups, Caller caller) try
    : Optimizer("SGD", groups, caller) {
  bool moves = false;
  for (const auto& [_, options] : groups) {
    check_fraction(options.momentum, "SGD", "momentum", caller);
    check_number(!options.nesterov || options.momentum > 0, "SGD", "momentum",
                 "more than 0 with nesterov", options.momentum, caller);
    check_positive(options.weight_decay, "SGD", "weight_decay", caller);
    append_options(options_, {options.momentum, options.nesterov, options.weight_decay});
    moves |= options.momentum > 0;
  }
  if (moves) velocities_ = zeros_for("velocity", variables(), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "SGD");
}

std::string SGD::options_text() const { return with_options(Optimizer::options_text(), options_); }

void SGD::step(GradientList gradients, Caller caller) {
  const CallerScope here(caller, name());
  check_gradients(name(), variables(), gradients, caller);
  update_groups(gradients, caller, [&](std::size_t g) {
    const Operand rate(learning_rate(g), caller);
    if (velocities_.empty())
      sgd_update(part(variables(), g), part(gradients, g), rate, {options_[g].weight_decay});
    else
      momentum_update(part(variables(), g), part(velocities_, g), part(gradients, g), rate,
                      options_[g]);
  });
}
}  // namespace reel::optim
