// SPDX-License-Identifier: BSD-3-Clause
#include "lib/optim/check.hpp"

#include <reel/ops/create.hpp>

#include <cstddef>
#include <string>

#include "lib/nn/check.hpp"

namespace reel::optim {
void check_variables(std::string_view optimizer, const std::vector<Variable>& variables,
                     Caller caller) try {
  if (variables.empty())
    fail<Error>(caller, optimizer, "variables", "at least one Variable", "none",
                "A model names its own in fields().");
  for (std::size_t i = 0; i < variables.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k)
      if (variables[i].same_cell(variables[k]))
        fail<Error>(caller, optimizer, fmt::format("variable {} ({})", i, variables[i].name()),
                    "a Variable of its own", fmt::format("variable {} again", k));
    if (is_floating(variables[i].dtype())) continue;
    fail<DTypeError>(caller, optimizer, fmt::format("variable {} ({})", i, variables[i].name()),
                     "float32 or float64", name_of(variables[i].dtype()));
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, optimizer);
}

void check_gradients(std::string_view optimizer, const std::vector<Variable>& variables,
                     const std::vector<Tensor>& gradients, Caller caller) try {
  if (gradients.size() != variables.size()) {
    fail<Error>(caller, optimizer, "gradients", fmt::format("{}", variables.size()),
                fmt::format("{}", gradients.size()));
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Variable& variable = variables[i];
    const Tensor& gradient = gradients[i];
    if (gradient.defined() && gradient.shape() == variable.shape() &&
        gradient.dtype() == variable.dtype()) {
      continue;
    }
    const std::string argument = fmt::format("gradient {} ({})", i, variable.name());
    if (!gradient.defined()) fail<Error>(caller, optimizer, argument, "a tensor", "nothing");
    if (gradient.shape() != variable.shape()) {
      fail<ShapeError>(caller, optimizer, argument, to_string(variable.shape()),
                       to_string(gradient.shape()));
    }
    fail<DTypeError>(caller, optimizer, argument, name_of(variable.dtype()),
                     name_of(gradient.dtype()));
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, optimizer);
}

Tensor on_device_of(const std::vector<Variable>& variables, const Tensor& number, Caller caller) {
  return variables.empty() ? number : number.to(variables[0].device(), caller);
}

std::vector<Variable> zeros_for(std::string_view name, const std::vector<Variable>& variables,
                                Caller caller) try {
  std::vector<Variable> zeros;
  zeros.reserve(variables.size());
  for (const Variable& x : variables) zeros.emplace_back(name, zeros_like({x, caller}), caller);
  return zeros;
} catch (const std::bad_alloc&) {
  fail_memory(caller, name);
}
}  // namespace reel::optim
