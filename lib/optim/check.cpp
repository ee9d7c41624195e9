// SPDX-License-Identifier: BSD-3-Clause
#include "lib/optim/check.hpp"

#include <reel/ops/create.hpp>

#include <cmath>
#include <cstddef>
#include <string>

namespace reel::optim {
void check_positive(double number, std::string_view name, std::string_view argument,
                    Caller caller) {
  check_number(std::isfinite(number) && number >= 0, name, argument, "0 or more", number, caller);
}
void check_fraction(double number, std::string_view name, std::string_view argument,
                    Caller caller) {
  check_number(number >= 0 && number < 1, name, argument, "0 or more and below 1", number, caller);
}

void check_variables(std::string_view optimizer, const std::vector<Variable>& variables,
                     Caller caller) {
  if (variables.empty())
    fail<Error>(caller, optimizer, "variables", "at least one Variable", "none",
                "parameters(model) are those of a model. It lists its members with REEL_FIELDS.");
  for (std::size_t i = 0; i < variables.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k)
      if (variables[i].same_cell(variables[k]))
        fail<Error>(caller, optimizer, error_text("variable {} ({})", i, variables[i].name()),
                    "a Variable of its own", error_text("variable {} again", k));
    if (is_floating(variables[i].dtype())) continue;
    fail<DTypeError>(caller, optimizer, error_text("variable {} ({})", i, variables[i].name()),
                     "a floating dtype", name_of(variables[i].dtype()));
  }
}

void check_not_moved(std::string_view optimizer, const std::vector<Variable>& variables,
                     Caller caller) {
  if (variables.empty())
    fail<Error>(caller, optimizer, "variables", "at least one Variable",
                "none: the optimizer was moved from");
}

namespace {
/// The shape of a gradient of these rows.
Shape shape_of_rows(std::string_view optimizer, const Variable& variable, std::size_t i,
                    const Tensor& rows, Caller caller) {
  Shape shape = variable.shape();
  const Text argument = error_text("rows of gradient {} ({})", i, variable.name());
  if (shape.rank() == 0)
    fail<ShapeError>(caller, optimizer, argument, "none for a Variable without axes", "some");
  if (rows.rank() != 1)
    fail<ShapeError>(caller, optimizer, argument, "one axis", to_string(rows.shape()));
  if (rows.dtype() != DType::int64)
    fail<DTypeError>(caller, optimizer, argument, "int64", name_of(rows.dtype()));
  shape.data()[0] = rows.size();
  return shape;
}
}  // namespace

void check_gradients(std::string_view optimizer, const std::vector<Variable>& variables,
                     const GradientList& gradients, Caller caller) {
  check_not_moved(optimizer, variables, caller);
  if (gradients.size() != variables.size()) {
    fail<Error>(caller, optimizer, "gradients", to_text(variables.size()),
                to_text(gradients.size()));
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Variable& variable = variables[i];
    const Tensor& gradient = gradients.values(i);
    const Tensor* const rows = gradients.rows(i);
    const Shape expected =
        rows ? shape_of_rows(optimizer, variable, i, *rows, caller) : variable.shape();
    if (gradient.defined() && gradient.shape() == expected &&
        gradient.dtype() == variable.dtype()) {
      continue;
    }
    const Text argument = error_text("gradient {} ({})", i, variable.name());
    if (!gradient.defined()) fail<Error>(caller, optimizer, argument, "a tensor", "nothing");
    if (gradient.shape() != expected) {
      fail<ShapeError>(caller, optimizer, argument, to_text(expected), to_text(gradient.shape()));
    }
    fail<DTypeError>(caller, optimizer, argument, name_of(variable.dtype()),
                     name_of(gradient.dtype()));
  }
}

Tensor on_device_of(const std::vector<Variable>& variables, const Tensor& number, Caller caller) {
  return variables.empty() ? number : number.to(variables[0].device(), caller);
}

std::vector<Variable> zeros_for(std::string_view name, const std::vector<Variable>& variables,
                                Caller caller) try {
  std::vector<Variable> zeros;
  zeros.reserve(variables.size());
  for (const Variable& x : variables)
    zeros.emplace_back(std::string(name) + '.' + x.name(), zeros_like({x, caller}), caller);
  return zeros;
} catch (const std::bad_alloc&) {
  fail_memory(caller, name);
}
}  // namespace reel::optim
