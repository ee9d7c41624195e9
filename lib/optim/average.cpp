// SPDX-License-Identifier: BSD-3-Clause
#include <reel/optim/average.hpp>

#include <reel/ops/arithmetic.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/ops/update.hpp>

#include <utility>

#include "lib/body/room.hpp"
#include "lib/optim/check.hpp"

namespace reel::optim {
namespace {
/// A float64 count where the Variables are.
Variable count_for(std::string_view name, const std::vector<Variable>& variables, Caller caller) {
  return Variable(name, on_device_of(variables, tensor<double>(0, caller), caller), caller);
}
}  // namespace

WeightAverage::WeightAverage(std::vector<Variable> variables, AverageOptions options,
                             Caller caller) try
    : variables_(std::move(variables)),
      updates_(count_for("updates", variables_, caller)),
      options_(options) {
  check_variables("WeightAverage", variables_, caller);
  check_fraction(options.decay, "WeightAverage", "decay", caller);
  for (const Variable& x : variables_) averages_.push_back(x.clone());
} catch (const std::bad_alloc&) {
  fail_memory(caller, "WeightAverage");
}

void WeightAverage::update(Caller caller) {
  const CallerScope here(caller, "WeightAverage");
  auto values = room_for<Tensor>(variables_.size(), caller, "WeightAverage");
  values.assign(variables_.begin(), variables_.end());
  const Tensor updates = updates_ + 1;
  if (options_.equal)
    average_update(averages_, values, {1 / updates, caller});
  else
    average_update(averages_, values, {1 - options_.decay, caller});
  updates_.assign(updates);
}

void WeightAverage::swap(Caller caller) {
  const CallerScope here(caller, "WeightAverage");
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const Tensor value = variables_[i];
    variables_[i].assign(averages_[i]);
    averages_[i].assign(value);
  }
}

GradientSum::GradientSum(std::vector<Variable> variables, Caller caller)
    : variables_(std::move(variables)),
      sums_(zeros_for("sum", variables_, caller)),
      count_(count_for("count", variables_, caller)) {
  check_variables("GradientSum", variables_, caller);
}

void GradientSum::add(const std::vector<Tensor>& gradients, Caller caller) {
  const CallerScope here(caller, "GradientSum");
  check_gradients("GradientSum", variables_, gradients, caller);
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].assign_add(gradients[i]);
  count_.assign_add(1);
}

std::vector<Tensor> GradientSum::take(Caller caller) {
  const CallerScope here(caller, "GradientSum");
  auto means = room_for<Tensor>(sums_.size(), caller, "GradientSum");
  for (Variable& sum : sums_) {
    means.push_back(sum / cast(count_, sum.dtype()));
    sum.assign(0);
  }
  count_.assign(0);
  return means;
}
}  // namespace reel::optim
