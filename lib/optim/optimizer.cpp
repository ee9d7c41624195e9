// SPDX-License-Identifier: BSD-3-Clause
#include <reel/optim/clip.hpp>
#include <reel/optim/optimizer.hpp>
#include <reel/tape.hpp>

#include <cmath>
#include <utility>

#include "lib/nn/check.hpp"
#include "lib/optim/check.hpp"

namespace reel::optim {
void Optimizer::add_group(const std::vector<Variable>& variables, double rate, Caller caller) try {
  check_positive(rate, name_, "learning_rate", caller);
  variables_.insert(variables_.end(), variables.begin(), variables.end());
  ends_.push_back(variables_.size());
  rates_.emplace_back("learning_rate",
                      on_device_of(variables_, tensor<double>(rate, caller), caller), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, name_);
}

std::vector<RowGradient> Optimizer::gradients_of(GradientTape& tape, const Operand& loss) const {
  const CallerScope here(loss.caller(), name_);
  check_not_moved(name_, variables_, loss.caller());
  if (const Tensor x = loss.value(); x.defined() && x.size() != 1)
    fail<ShapeError>(loss.caller(), name_, "loss", "one number", "shape " + to_text(x.shape()),
                     "Use its mean() or its sum().");
  return tape.row_gradients(loss, variables_);
}

void Optimizer::keep(const std::vector<bool>& kept) {
  std::vector<Variable> left;
  std::size_t i = 0;
  for (std::size_t& end : ends_) {
    for (; i < end; ++i)
      if (kept[i]) left.push_back(variables_[i]);
    end = left.size();
  }
  variables_ = std::move(left);
}

bool Optimizer::admit(std::vector<RowGradient>& gradients, bool finite, double norm,
                      Caller caller) const {
  if (finite && norm > 0) gradients = clip_by_global_norm(std::move(gradients), norm, caller);
  return finite;
}

void Optimizer::check_numbers(const GradientList& gradients, Caller caller) const {
  for (std::size_t g = 0; g < ends_.size(); ++g)
    reel::detail::check_rate({rates_[g], caller}, part(variables_, g));
  for (std::size_t i = 0; i < variables_.size(); ++i)
    if (const Tensor* const rows = gradients.rows(i))
      reel::detail::check_rows(*rows, variables_[i], caller);
}
void Optimizer::check(Caller caller) const { check_variables(name_, variables_, caller); }

std::string Optimizer::options_text() const {
  std::string text(name_);
  for (std::size_t g = 0; g < ends_.size(); ++g) {
    const Tensor rate = rates_[g].value().to(cpu());
    text += "\ngroup " + std::to_string(g) + ": " + std::to_string(ends_[g]) +
            " Variables so far, learning_rate " + std::string(to_text(rate.item<double>()));
  }
  return text + "\n";
}

Variable& Optimizer::learning_rate(CountNumber group, Caller caller) {
  const auto number = static_cast<std::size_t>(group.value);
  if (number < rates_.size()) return rates_[number];
  check_not_moved(name_, variables_, caller);
  fail<IndexError>(caller, name_, "group", error_text("below {}", rates_.size()),
                   to_text(group.value));
}
}  // namespace reel::optim
