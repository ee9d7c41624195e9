// SPDX-License-Identifier: BSD-3-Clause
// Some of a model's parameters: those that are trained, or those with options of their own.
#pragma once  // defined in lib/nn
#include <string_view>
#include <utility>
#include <vector>

#include <reel/fields.hpp>

namespace reel {
/// The parameters for which keep(path, variable) is true.
///
///     auto weights = parameters(model, [](std::string_view path, const Variable&) {
///       return path.ends_with("weight");
///     });
template <class Model, class Keep>
std::vector<Variable> parameters(const Model& model, const Keep& keep) try {
  detail::require_fields("", model);
  std::vector<Variable> found;
  for (auto& [path, variable] : named_parameters(model))
    if (keep(std::string_view(path), std::as_const(variable))) found.push_back(variable);
  return found;
} catch (const std::bad_alloc&) {
  fail_memory({}, "parameters");
}
/// The Variables of the list `all` that are not in the list `frozen`. It freezes a part of a model:
///
///     optim::Adam adam(without(parameters(model), parameters(model.hidden)));
///     adam.step(tape.gradient(loss, adam.variables()));
REEL_API std::vector<Variable> without(const std::vector<Variable>& all,
                                       const std::vector<Variable>& frozen);
}  // namespace reel
