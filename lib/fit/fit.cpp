// SPDX-License-Identifier: BSD-3-Clause
#include <reel/fit.hpp>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>

#include <reel/bench.hpp>
#include <reel/ops.hpp>
#include <reel/progress.hpp>

#include "lib/body/text.hpp"

namespace reel::detail {
namespace {
constexpr std::size_t most_late = 64;
double seconds_now() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
}  // namespace

void RunningMean::add(const Tensor& value, double value_weight) {
  late_.emplace_back(value, value_weight);
  if (value.device() == cpu() || late_.size() == most_late) read();
}
void RunningMean::read() {
  for (const auto& [value, value_weight] : late_) {
    sum += value_weight * value.to(DType::float64).item<double>();
    weight += value_weight;
  }
  late_.clear();
}
double RunningMean::mean() {
  read();
  return sum / weight;
}

struct FitRun::Screen {
  bench::Progress progress;
  std::int64_t total;
};

FitRun::FitRun(Settings own, optim::Optimizer& optimizer, std::vector<Variable> variables,
               Caller caller)
    : settings(std::move(own)),
      best(std::numeric_limits<double>::infinity()),
      started(seconds_now()),
      generator(thread_generator()),
      optimizer_(optimizer),
      variables_(std::move(variables)),
      caller_(caller),
      screen_(nullptr) {
  const auto check = [&](const char* name, std::int64_t got, std::int64_t least) {
    if (got < least)
      fail<Error>(caller, "fit", name, "at least " + std::to_string(least), std::to_string(got));
  };
  check("options.epochs", settings.epochs, 0);
  check("options.steps", settings.steps, 0);
  check("options.patience", settings.patience, 0);
  check("options.board_every", settings.board_every, 1);
  check("options.accumulate", settings.accumulate, 1);
  if (!(settings.clip_norm >= 0))
    fail<Error>(caller, "fit", "options.clip_norm", "0 or more", to_text(settings.clip_norm));
  if (!settings.metrics.empty() && !settings.validates)
    fail<Error>(caller, "fit", "options.metrics", "options.validate too", "metrics alone");
  if (settings.scaler && settings.accumulate > 1)
    fail<Error>(caller, "fit", "options.accumulate", "1 beside options.scaler",
                std::to_string(settings.accumulate));
  if (settings.scaler && settings.clip_norm > 0)
    fail<Error>(caller, "fit", "options.clip_norm", "0 beside options.scaler",
                to_text(settings.clip_norm), "LossScalerOptions has a clip_norm of its own.");
  if (settings.ranks.add_up) {
    const auto refuse = [&](const char* option, bool given) {
      if (given)
        fail<Error>(caller, "fit", option, "none beside a dist::DataParallel", "one",
                    "DataParallelOptions has it.");
    };
    refuse("options.scaler", settings.scaler);
    refuse("options.clip_norm", settings.clip_norm > 0);
    refuse("options.unconnected", settings.unconnected != Unconnected::error);
  }
  settings.progress = settings.progress && settings.ranks.first;
  if (settings.accumulate > 1 && !settings.ranks.add_up)
    sum_.emplace_back(optimizer.variables(), caller);
  if (settings.restore_best)
    for (const Variable& variable : variables_) best_values.push_back(variable.value());
  if (settings.progress)
    screen_ = new Screen{bench::Progress("steps", settings.steps, {}, caller), settings.steps};
}
FitRun::~FitRun() { delete screen_; }

bool FitRun::left_none(Caller caller) {
  training.read();
  if (training.weight > 0) return false;
  if (std::exchange(left_none_, true))
    fail<Error>(caller, "fit", "train", "examples", "an epoch without examples");
  return true;
}
const Tensor& FitRun::number(std::string_view what, const Tensor& value) const {
  if (value.defined() && value.size() != 1)
    fail<ShapeError>(caller_, "fit", what, "one number", "shape " + to_text(value.shape()),
                     "Use its mean() or its sum().");
  return value;
}
void FitRun::refuse_checkpoints() const {
  fail<Error>(caller_, "fit", "options.checkpoints", "examples of a Pipeline",
              "a range that cannot say where it is",
              "data::from(vector) makes a Pipeline of a std::vector.");
}

bool FitRun::learn(GradientTape& tape, const Tensor& cost, double weight) {
  const CallerScope here(caller_, "fit");
  const std::vector<Variable>& variables = optimizer_.variables();
  training.add(number("loss", cost), weight);
  if (settings.ranks.add_up) {
    const bool sends = ++waiting_ == settings.accumulate;
    if (sends) waiting_ = 0;
    const auto examples = static_cast<std::int64_t>(weight);
    return settings.ranks.learn(tape, {cost, caller_}, examples, sends) && (++step, true);
  }
  if (settings.accumulate > 1) {
    sum_[0].add(tape.gradient(cost, variables, settings.unconnected), caller_);
    return ++waiting_ == settings.accumulate && (update(), true);
  }
  if (settings.scaler) {
    if (!settings.scaler->step(optimizer_, tape, {cost, caller_})) return false;
  } else {
    std::vector<RowGradient> gradients =
        tape.row_gradients(cost, variables, {.unconnected = settings.unconnected});
    if (settings.clip_norm > 0)
      gradients = optim::clip_by_global_norm(std::move(gradients), settings.clip_norm, caller_);
    optimizer_.step(gradients, caller_);
  }
  ++step;
  return true;
}
bool FitRun::learn_nothing() {
  if (++waiting_ < settings.accumulate) return false;
  return finish_group();
}
bool FitRun::any(bool more) {
  if (!settings.ranks.add_up) return more;
  std::int64_t found[] = {more, stop};
  settings.ranks.all_reduce_max(found, 2);
  agreed_ = stop = found[1] > 0;
  return found[0] > 0 && !stop;
}
void FitRun::agree_to_stop(bool own) {
  stop |= own;
  if (!settings.ranks.add_up) return;
  std::int64_t found = stop;
  settings.ranks.all_reduce_max(&found, 1);
  agreed_ = stop = found > 0;
}
bool FitRun::finish_group() {
  if (waiting_ == 0) return false;
  if (settings.ranks.add_up) {
    waiting_ = 0;
    return settings.ranks.join() && (++step, true);
  }
  update();
  return true;
}
void FitRun::update() {
  const CallerScope here(caller_, "fit");
  waiting_ = 0;
  std::vector<Tensor> gradients = sum_[0].take(caller_);
  if (settings.clip_norm > 0)
    gradients = optim::clip_by_global_norm(std::move(gradients), settings.clip_norm, caller_);
  optimizer_.step(gradients, caller_);
  ++step;
}

void FitRun::after_step(const Tensor& cost) {
  if (settings.board && step % settings.board_every == 0) {
    if (cost.defined()) settings.board->scalar("train/loss", cost, step);
    settings.board->scalar("learning_rate", optimizer_.learning_rate(), step);
  }
  if (!screen_) return;
  char note[80] = {};
  if (cost.defined() && cost.device() == cpu())
    std::snprintf(note, sizeof note, "epoch %lld  loss %.4g", static_cast<long long>(epoch),
                  training.mean());
  screen_->progress.show(step, note);
}

void FitRun::end_epoch(FitEpoch& result, FitHistory& history) {
  result.step = step;
  result.epoch = epoch;
  if (settings.ranks.add_up) {
    training.read();
    double all[] = {training.sum, training.weight};
    settings.ranks.add_up(all, 2);
    training.sum = all[0];
    training.weight = all[1];
  }
  result.loss = training.mean();
  training = {};
  const double now = seconds_now();
  result.seconds = now - started;
  started = now;
  if (!settings.validates) result.validation = std::numeric_limits<double>::quiet_NaN();
  if (settings.board) {
    if (settings.validates) settings.board->scalar("validation/loss", result.validation, step);
    for (std::size_t i = 0; i < settings.metrics.size(); ++i)
      settings.board->scalar("validation/" + settings.metrics[i], result.metrics[i], step);
  }
  if (screen_) {
    screen_->progress.end_line();
    std::string line = "epoch " + std::to_string(epoch) + ": loss ";
    char number[32];
    const auto add = [&](double value) {
      std::snprintf(number, sizeof number, "%.4g", value);
      line += number;
    };
    add(result.loss);
    if (settings.validates) {
      line += "  validation ";
      add(result.validation);
    }
    for (std::size_t i = 0; i < settings.metrics.size(); ++i) {
      line += "  " + settings.metrics[i] + " ";
      add(result.metrics[i]);
    }
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
  const double score = settings.validates ? result.validation : result.loss;
  if (score < best - settings.threshold) {
    best = score;
    bad = 0;
    history.best = static_cast<std::int64_t>(history.epochs.size());
    for (std::size_t i = 0; i < best_values.size(); ++i) best_values[i] = variables_[i].value();
  } else if (++bad >= settings.patience && settings.patience > 0) {
    stop = history.stopped_early = true;
  }
  history.epochs.push_back(result);
}
void FitRun::restore_best() {
  for (std::size_t i = 0; i < best_values.size(); ++i) variables_[i].assign(best_values[i]);
}
}  // namespace reel::detail
