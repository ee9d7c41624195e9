// SPDX-License-Identifier: BSD-3-Clause
#include <reel/optim/schedule.hpp>

#include <reel/ops/arithmetic.hpp>
#include <reel/ops/compare.hpp>
#include <reel/ops/math.hpp>
#include <reel/ops/reshape.hpp>

#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "lib/optim/check.hpp"

namespace reel::optim {
namespace {
double checked_steps(CountNumber steps, std::string_view name, std::string_view argument,
                     Caller caller) {
  const double count = static_cast<double>(steps);
  check_number(steps >= 1, name, argument, "1 or more", count, caller);
  return count;
}

/// (1 + cos(pi t)) / 2 for t in [0, 1], as 1 - sin^2 with the series of the sine.
Tensor half_cosine(const Tensor& t) {
  const Tensor angle = t * (std::numbers::pi / 2), squared = square(angle);
  Tensor series = 1 - squared / (22 * 23);
  for (int k = 20; k >= 2; k -= 2) series = 1 - squared / (k * (k + 1)) * series;
  return 1 - square(angle * series);
}
/// From `first` to `last` while t goes from 0 to 1.
Tensor cosine_between(double first, double last, const Tensor& t) {
  return last + (first - last) * half_cosine(minimum(maximum(t, 0), 1));
}
}  // namespace

Factor step_decay(CountNumber every, double decay, Caller caller) {
  const double count = checked_steps(every, "step_decay", "every", caller);
  check_positive(decay, "step_decay", "decay", caller);
  return [=](const Tensor& step) { return power(decay, (step - step % count) / count); };
}

Factor exponential_decay(double decay, Caller caller) {
  check_positive(decay, "exponential_decay", "decay", caller);
  return [=](const Tensor& step) { return power(decay, step); };
}

Factor linear_decay(CountNumber steps, double last, Caller caller) {
  const double count = checked_steps(steps, "linear_decay", "steps", caller);
  check_positive(last, "linear_decay", "last", caller);
  return [=](const Tensor& step) { return 1 - (1 - last) * minimum(step / count, 1); };
}

Factor cosine_decay(CountNumber steps, double last, Caller caller) {
  const double count = checked_steps(steps, "cosine_decay", "steps", caller);
  check_positive(last, "cosine_decay", "last", caller);
  return [=](const Tensor& step) { return cosine_between(1, last, step / count); };
}

Factor warm_up(CountNumber steps, Factor after, Caller caller) {
  const double count = checked_steps(steps, "warm_up", "steps", caller);
  return [=](const Tensor& step) {
    const Tensor rise = minimum((step + 1) / count, 1);
    return after ? where(step < count, rise, after(maximum(step - count, 0))) : rise;
  };
}

Factor one_cycle(CountNumber steps, OneCycleOptions options, Caller caller) {
  check_positive(options.first, "one_cycle", "first", caller);
  check_positive(options.last, "one_cycle", "last", caller);
  const double all = checked_steps(steps, "one_cycle", "steps", caller),
               top = options.rising * all - 1;
  check_number(top > 0 && top < all - 1, "one_cycle", "rising",
               "a number above 1 / steps and below 1", options.rising, caller);
  return [=](const Tensor& step) {
    const Tensor rise = cosine_between(options.first, 1, step / top);
    return where(step <= top, rise,
                 cosine_between(1, options.last, (step - top) / (all - 1 - top)));
  };
}

Schedule::Schedule(Optimizer& optimizer, Factor factor, Caller caller) try
    : rates_(optimizer.learning_rates()),
      first_rates_("rates", stack({rates_, caller}), caller),
      steps_("steps", tensor(std::int64_t{0}, caller).to(first_rates_.device(), caller), caller),
      factor_(std::move(factor)) {
  const CallerScope here(caller, "Schedule");
  if (!factor_) fail<Error>(caller, "Schedule", "factor", "a function", "none");
  set_rates(steps_, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Schedule");
}

void Schedule::step(Caller caller) {
  const CallerScope here(caller, "Schedule");
  const Tensor steps = steps_ + 1;
  set_rates(steps, caller);
  steps_.assign(steps);
}

void Schedule::set_rates(const Tensor& steps, Caller caller) {
  const Tensor factor = factor_(cast(steps, DType::float64));
  if (!factor.defined() || factor.rank() != 0)
    fail<ShapeError>(caller, "Schedule", "factor", "one number, of shape ()",
                     factor.defined() ? to_text(factor.shape()) : "an undefined Tensor");
  const Tensor rates = first_rates_ * factor;
  for (std::size_t i = 0; i < rates_.size(); ++i)
    rates_[i].assign(rates[static_cast<std::int64_t>(i)]);
}

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity(),
                 largest = std::numeric_limits<double>::max();
}  // namespace

ReduceOnPlateau::ReduceOnPlateau(Optimizer& optimizer, PlateauOptions options, Caller caller) try
    : rates_(optimizer.learning_rates()),
      best_("best",
            on_device_of(rates_,
                         tensor<double>(options.larger_is_better ? -infinity : infinity, caller),
                         caller),
            caller),
      bad_steps_("bad_steps", on_device_of(rates_, tensor(std::int64_t{0}, caller), caller),
                 caller),
      options_(options) {
  check_fraction(options.factor, "ReduceOnPlateau", "factor", caller);
  check_positive(static_cast<double>(options.patience), "ReduceOnPlateau", "patience", caller);
  check_positive(options.threshold, "ReduceOnPlateau", "threshold", caller);
  check_positive(options.least, "ReduceOnPlateau", "least", caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "ReduceOnPlateau");
}

void ReduceOnPlateau::step(Operand loss) {
  const CallerScope here(loss.caller(), "ReduceOnPlateau");
  const double sign = options_.larger_is_better ? -1 : 1;
  const Tensor best = sign * best_;
  // the first time, the best loss is infinite
  const Tensor least = options_.absolute ? best - options_.threshold
                                         : best - minimum(abs(best), largest) * options_.threshold;
  const Tensor good = sign * loss < least;
  const Tensor bad_steps = where(good, 0, bad_steps_ + 1), reduces = bad_steps > options_.patience;
  best_.assign(where(good, loss, best_));
  bad_steps_.assign(where(reduces, 0, bad_steps));
  for (Variable& rate : rates_)
    rate.assign(
        where(reduces, maximum(rate * options_.factor, minimum(rate, options_.least)), rate));
}
}  // namespace reel::optim
