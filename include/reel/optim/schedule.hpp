// SPDX-License-Identifier: BSD-3-Clause
// Learning rates that change during training. All is computed by ops on Variables, so a schedule
// can be part of a traced step.
#pragma once  // defined in lib/optim
#include <cstdint>

#include <reel/function.hpp>
#include <reel/optim/optimizer.hpp>

namespace reel::optim {
/// A function, for example a lambda. It gets the number of steps so far as a float64 Tensor of
/// shape () and returns a factor of shape (). A schedule sets the rate to this factor times the
/// rate that the optimizer had when the schedule was made. The schedule throws ShapeError if the
/// factor has another shape.
using Factor = reel::detail::Function<Tensor(const Tensor& step)>;

/// decay^floor(step / every): the rate is multiplied by `decay` after `every`, 2 `every`, ...
/// steps. Throws Error unless every >= 1.
REEL_API Factor step_decay(CountNumber every, double decay = 0.1, Caller caller = Caller::here());
/// decay^step.
REEL_API Factor exponential_decay(double decay, Caller caller = Caller::here());
/// Falls linearly from 1 to `last` in this number of steps, then stays `last`. Throws Error unless
/// steps >= 1.
REEL_API Factor linear_decay(CountNumber steps, double last = 0, Caller caller = Caller::here());
/// Falls from 1 to `last` along half a period of the cosine in this number of steps (Loshchilov and
/// Hutter 2017), then stays `last`. Throws Error unless steps >= 1.
REEL_API Factor cosine_decay(CountNumber steps, double last = 0, Caller caller = Caller::here());
/// Rises linearly in this number of steps: 1 / steps, 2 / steps, ... 1. Then the factor is `after`,
/// whose steps count from 0. Without `after` the factor stays 1. Throws Error unless steps >= 1.
///
///     optim::Schedule schedule(adam, optim::warm_up(100, optim::cosine_decay(900)));
REEL_API Factor warm_up(CountNumber steps, Factor after = {}, Caller caller = Caller::here());
/// Options of one_cycle().
struct OneCycleOptions {
  double first = 1.0 / 25, last = 1.0 / 25e4;  // factors of the first and of the last step
  double rising = 0.3;                         // the rate rises during this part of the steps
};
/// Rises from `first` to 1, then falls to `last`, each along half a period of the cosine (Smith and
/// Topin 2018). So the highest rate is the one that the optimizer has when the schedule is made.
/// Throws Error unless 1 / steps < rising < 1.
REEL_API Factor one_cycle(CountNumber steps, OneCycleOptions options = {},
                          Caller caller = Caller::here());

/// Sets the learning rates of an optimizer: the rate that each group has when the schedule is made,
/// times the factor. It sets them anew in each step, so it undoes what ReduceOnPlateau or
/// `learning_rate().assign()` has set since the step before: call these after its step(). A second
/// Schedule starts from the rates that the first one has set: assign the rates first.
class REEL_API Schedule {
 public:
  /// Sets the rates of the first step.
  Schedule(Optimizer& optimizer, Factor factor, Caller caller = Caller::here());
  /// Sets the rates of the next step. Call it after the optimizer's step(). If the factor throws,
  /// the step does not count.
  void step(Caller caller = Caller::here());
  /// The number of steps so far, an int64 Variable.
  const Variable& steps() const { return steps_; }
  /// The learning rates that it sets.
  const std::vector<Variable>& variables() const { return rates_; }
  std::vector<Variable>& bound_variables() { return rates_; }  // see Optimizer
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    field("schedule_steps", steps_);
    field("schedule_rates", first_rates_);
  }

 private:
  void set_rates(const Tensor& steps, Caller caller);
  std::vector<Variable> rates_;
  Variable first_rates_, steps_;
  Factor factor_;
};

/// Options of ReduceOnPlateau.
struct PlateauOptions {
  double factor = 0.1;
  std::int64_t patience = 10;  // the rates change after more than this many bad losses in a row
  double threshold = 1e-4;  // a good loss is better than the last good one by more than threshold
                            // times the absolute value of that one
  double least = 0;         // no rate becomes smaller than this
  bool absolute = false;    // a good loss is better by more than threshold itself
  bool larger_is_better = false;  // as for an accuracy; else the smaller loss is better
};
/// Multiplies the learning rates of an optimizer by a factor when a loss does not improve any more.
/// A Schedule of the same optimizer undoes this in its next step(). Throws Error for a factor
/// outside [0, 1), or a negative or infinite option.
class REEL_API ReduceOnPlateau {
 public:
  explicit ReduceOnPlateau(Optimizer& optimizer, PlateauOptions options = {},
                           Caller caller = Caller::here());
  /// Call it with one loss, for example that of an epoch. NaN is a bad loss. The loss is one number
  /// of any dtype.
  void step(Operand loss);
  /// The last good loss, float64. Before the first, infinity; -infinity if larger is better.
  const Variable& best() const { return best_; }
  /// The learning rates that it sets.
  const std::vector<Variable>& variables() const { return rates_; }
  std::vector<Variable>& bound_variables() { return rates_; }  // see Optimizer
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    field("plateau_best", best_);
    field("plateau_bad_steps", bad_steps_);
  }

 private:
  std::vector<Variable> rates_;
  Variable best_, bad_steps_;
  PlateauOptions options_;
};
}  // namespace reel::optim
