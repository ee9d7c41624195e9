// SPDX-License-Identifier: BSD-3-Clause
// What all optimizers have: Variables in groups, and a learning rate for each group.
#pragma once  // defined in lib/optim
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reel/ops/update.hpp>

namespace reel {
class GradientTape;
}
namespace reel::optim {
/// Variables with options of their own. An optimizer takes a list of groups instead of a list of
/// Variables. The gradients of step() follow the order of variables(): one group after the other.
///
///     optim::AdamW adam({{weights, {.weight_decay = 0.1}}, {biases, {.weight_decay = 0}}});
template <class Options>
struct Group {
  std::vector<Variable> variables;
  Options options;
};

/// The base of SGD, Adam, RMSprop and Adagrad.
class REEL_API Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Updates the Variables. Takes one gradient for each of them, in their order: of gradient() or
  /// row_gradients() of a tape. Throws Error, ShapeError, DTypeError, DeviceError or IndexError
  /// before anything of any group has changed.
  virtual void step(GradientList gradients, Caller caller = Caller::here()) = 0;
  /// Updates the Variables with the gradients of a loss for variables(). Throws ShapeError unless
  /// the loss is one number.
  void step(GradientTape& tape, Operand loss) { step(gradients_of(tape, loss), loss.caller()); }
  /// The learning rate of a group, a float64 number. Assign another one at any time. Throws
  /// IndexError if there is no such group.
  Variable& learning_rate(CountNumber group = 0, Caller caller = Caller::here());
  /// The learning rates of all groups.
  const std::vector<Variable>& learning_rates() const { return rates_; }
  /// The Variables that it updates, one group after the other. step() takes gradients in this
  /// order.
  const std::vector<Variable>& variables() const { return variables_; }
  /// The name, the number of groups and their options as lines of text: equal where two optimizers
  /// take the same steps.
  virtual std::string options_text() const;
  /// The Variables of other objects. clone() replaces those that it clones too.
  std::vector<Variable>& bound_variables() { return variables_; }
  /// For dist::DataParallel: the other Variables are not updated any more. The caller keeps their
  /// state from the lists of a derived class.
  void keep(const std::vector<bool>& kept);
  /// For LossScaler and .clip_norm: whether a step is taken, which it is if the gradients are
  /// finite. Limits their global norm then; 0 is no limit.
  virtual bool admit(std::vector<RowGradient>& gradients, bool finite, double norm, Caller) const;

 protected:
  Optimizer(const Optimizer&) = default;
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(const Optimizer&) = default;
  Optimizer& operator=(Optimizer&&) = default;
  /// The state that all optimizers have. A pointer to an Optimizer does not show the rest.
  void fields(auto&& field) {
    for (std::size_t i = 0; i < rates_.size(); ++i)
      field(i == 0 ? "learning_rate" : "learning_rate." + std::to_string(i), rates_[i]);
  }
  template <class Options>
  Optimizer(std::string_view name, const std::vector<Group<Options>>& groups, Caller caller)
      : name_(name) {
    for (const auto& [variables, options] : groups)
      add_group(variables, options.learning_rate, caller);
    check(caller);
  }
  std::string_view name() const { return name_; }
  /// The gradients of a loss for variables(). Errors name the optimizer. The loss is one number.
  /// Each gradient has the shape and dtype of its Variable.
  std::vector<RowGradient> gradients_of(GradientTape& tape, const Operand& loss) const;
  /// The part of a list that belongs to a group; the list has an element for each Variable.
  template <class T>
  std::span<const T> part(const std::vector<T>& list, std::size_t group) const {
    const std::size_t first = group == 0 ? 0 : ends_[group - 1];
    return std::span(list).subspan(first, ends_[group] - first);
  }
  GradientList part(const GradientList& list, std::size_t group) const {
    const std::size_t first = group == 0 ? 0 : ends_[group - 1];
    return list.part(first, ends_[group] - first);
  }
  /// Calls update(group) for each group. If one of them cannot be updated, none has changed.
  template <class F>
  void update_groups(const GradientList& gradients, Caller caller, const F& update) const {
    if (ends_.size() > 1) {
      {
        const reel::detail::UpdateCheck checks;
        for (std::size_t g = 0; g < ends_.size(); ++g) update(g);
      }
      check_numbers(gradients, caller);
    }
    for (std::size_t g = 0; g < ends_.size(); ++g) update(g);
  }

 private:
  /// The rates of all groups, and the rows of all gradients.
  void check_numbers(const GradientList& gradients, Caller caller) const;
  void add_group(const std::vector<Variable>& variables, double rate, Caller caller);
  void check(Caller caller) const;
  std::string_view name_;
  std::vector<Variable> variables_, rates_;
  std::vector<std::size_t> ends_;  // of each group among the Variables
};
}  // namespace reel::optim
