// SPDX-License-Identifier: BSD-3-Clause
// Averages of weights over time, and sums of gradients over batches.
#pragma once  // defined in lib/optim
#include <vector>

#include <reel/variable.hpp>

namespace reel::optim {
/// Options of WeightAverage.
struct AverageOptions {
  double decay = 0.999;  // of the average in each update: average += (1 - decay) (x - average)
  bool equal = false;    // instead, the mean of the values at all updates (Izmailov et al. 2018)
};
/// Keeps an average of each Variable over the updates. The average starts as the value. Averages
/// often generalise better than the last values.
///
///     optim::WeightAverage average(parameters(model), {.decay = 0.99});
///
/// Throws Error unless 0 <= decay < 1, and for no Variables or one twice; DTypeError unless they
/// are floating.
class REEL_API WeightAverage {
 public:
  explicit WeightAverage(std::vector<Variable> variables, AverageOptions options = {},
                         Caller caller = Caller::here());
  /// Adds the current values to the averages. Call it after the optimizer's step().
  void update(Caller caller = Caller::here());
  /// Exchanges the values and the averages, so that the model evaluates with the averages. Call it
  /// again before the training goes on.
  void swap(Caller caller = Caller::here());
  /// The averages, in the order of the Variables.
  const std::vector<Variable>& averages() const { return averages_; }
  /// The Variables that it averages.
  const std::vector<Variable>& variables() const { return variables_; }
  std::vector<Variable>& bound_variables() { return variables_; }  // see Optimizer
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    field("average", averages_);
    field("average_updates", updates_);
  }

 private:
  std::vector<Variable> variables_, averages_;
  Variable updates_;
  AverageOptions options_;
};

/// Adds up the gradients of several batches, for one step of an optimizer with their mean.
///
///     optim::GradientSum sum(parameters(model));
///
/// Throws Error for no Variables or one twice; DTypeError unless they are floating.
class REEL_API GradientSum {
 public:
  explicit GradientSum(std::vector<Variable> variables, Caller caller = Caller::here());
  /// Takes one gradient for each Variable. Throws Error, ShapeError or DTypeError before anything
  /// has changed.
  void add(const std::vector<Tensor>& gradients, Caller caller = Caller::here());
  /// The mean of the gradients since the last call of take(). NaN if there were none. Each has the
  /// shape and dtype of its Variable.
  std::vector<Tensor> take(Caller caller = Caller::here());
  /// The Variables that the gradients belong to.
  const std::vector<Variable>& variables() const { return variables_; }
  std::vector<Variable>& bound_variables() { return variables_; }  // see Optimizer
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    field("gradient_sum", sums_);
    field("gradient_count", count_);
  }

 private:
  std::vector<Variable> variables_, sums_;
  Variable count_;
};
}  // namespace reel::optim
