// SPDX-License-Identifier: BSD-3-Clause
// What every optimizer asks of its arguments.
#pragma once
#include <reel/variable.hpp>

#include <string_view>
#include <vector>

namespace reel::optim {
/// Throws Error if there are none or one twice, DTypeError unless all are floating.
void check_variables(std::string_view optimizer, const std::vector<Variable>& variables,
                     Caller caller);
/// Throws Error unless there is one gradient for each Variable, ShapeError or DTypeError unless it
/// fits.
void check_gradients(std::string_view optimizer, const std::vector<Variable>& variables,
                     const std::vector<Tensor>& gradients, Caller caller);
/// A rate or a count of steps where the Variables are.
Tensor on_device_of(const std::vector<Variable>& variables, const Tensor& number, Caller caller);
/// A Variable full of zeros for each.
std::vector<Variable> zeros_for(std::string_view name, const std::vector<Variable>& variables,
                                Caller caller);
}  // namespace reel::optim
