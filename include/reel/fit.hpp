// SPDX-License-Identifier: BSD-3-Clause
// A training loop: epochs, validation, early stopping, checkpoints, a schedule, curves, progress.
#pragma once  // defined in lib/fit
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reel/data/pipeline.hpp>
#include <reel/function.hpp>
#include <reel/io/checkpoints.hpp>
#include <reel/io/summary_writer.hpp>
#include <reel/optim/average.hpp>
#include <reel/optim/clip.hpp>
#include <reel/optim/loss_scaler.hpp>
#include <reel/optim/schedule.hpp>
#include <reel/tape.hpp>
#include <reel/train.hpp>

namespace reel {
/// What fit() says after a step of the optimizer.
struct FitStep {
  std::int64_t step, epoch;  // so many steps so far; the number of this epoch, from 0
  Tensor loss;               // of this step's last batch, with its device and dtype
  bool stop = false;         // set it to end the training after this step
};
/// What fit() says after an epoch.
struct FitEpoch {
  std::int64_t step = 0, epoch = 0;
  double loss = 0;                   // the mean over the epoch's examples while they trained
  double validation = 0;             // the mean loss over .validate; NaN without it
  std::vector<double> metrics = {};  // means over .validate, in the order of .metrics
  double seconds = 0;
  bool stop = false;  // set it to end the training
};
/// What fit() returns.
struct FitHistory {
  std::vector<FitEpoch> epochs;  // that this call has ended
  /// An index into `epochs`: the least validation loss, or loss; -1 if none of them improved.
  std::int64_t best = -1;
  bool stopped_early = false;  // by .patience
};

namespace detail {
/// Goes through a range from its start. A Pipeline gives its first epoch each time, whatever its
/// position. Another range must outlive this object.
template <class T>
struct Examples {
  Examples() = default;
  Examples(const data::Pipeline<T>& pipeline)
      : each([stage = pipeline.stage()](const Function<void(T&)>& f) {
          for (T& example : data::Pipeline<T>(stage)) f(example);
        }) {}
  template <class Range>
  requires(!std::is_same_v<std::remove_cvref_t<Range>, Examples> &&
           !std::is_same_v<std::remove_cvref_t<Range>, data::Pipeline<T>>) Examples(Range&& range)
      : each([&range](const Function<void(T&)>& f) {
          for (auto&& example : range) {
            if constexpr (std::is_const_v<std::remove_reference_t<decltype(example)>>) {
              T copy = example;
              f(copy);
            } else {
              f(example);
            }
          }
        }) {
    static_assert(std::is_lvalue_reference_v<Range>,
                  "options.validate is a Pipeline, or a range that outlives the call: give the "
                  "range a name");
  }
  Function<void(const Function<void(T&)>&)> each;
};
template <class Range>
using ExampleOf = std::remove_cvref_t<decltype(*std::declval<Range&>().begin())>;
}  // namespace detail

/// A mean over .validate: of what the function returns, one number for each batch.
template <class Model, class T>
struct FitMetric {
  std::string name;
  detail::Function<Tensor(const Model&, const T&)> f;
};

/// Options of fit(). T is the type of an example, mostly of a batch.
template <class Model, class T>
struct FitOptions {
  std::int64_t epochs = 1;
  /// Ends after so many steps in all, also of earlier runs; 0 is no limit.
  std::int64_t steps = 0;
  /// Examples for the loss after each epoch, with training() false and without a tape: a Pipeline,
  /// whose first epoch is used each time, a std::vector or another range that outlives the call.
  detail::Examples<T> validate = {};
  std::vector<FitMetric<Model, T>> metrics = {};
  /// Ends the training after so many epochs in a row without a better validation loss (loss,
  /// without .validate); 0 never does. NaN is no better loss.
  std::int64_t patience = 0;
  double threshold = 0;  // a better loss is smaller by more than this
  /// At the end, the parameters and Buffers of the model become those of the best epoch.
  bool restore_best = false;
  /// Resumes from the latest checkpoint, and saves after the steps that .every of the Checkpoints
  /// divides: the model, the optimizer, the schedule, the position in the epoch, the thread's
  /// generator. The examples must come from a Pipeline.
  const io::Checkpoints* checkpoints = nullptr;
  optim::Schedule* schedule = nullptr;  // its step() follows each step of the optimizer
  /// Takes the steps, for float16; without .accumulate and .clip_norm. A dist::DataParallel has
  /// scaler, clip_norm and unconnected in options of its own.
  optim::LossScaler* scaler = nullptr;
  std::int64_t accumulate = 1;  // batches for a step, which gets the mean of their gradients
  double clip_norm = 0;         // the largest global norm of the gradients; 0 is no limit
  Unconnected unconnected = Unconnected::error;  // for parameters that a loss does not use
  /// Curves "train/loss" and "learning_rate", every .board_every steps; "validation/loss" and
  /// "validation/<metric>", after each epoch.
  SummaryWriter* board = nullptr;
  std::int64_t board_every = 10;
  bool progress = false;  // a line on stdout with the mean loss of the epoch, one for each epoch
  detail::Function<void(FitStep&)> after_step = {};
  detail::Function<void(FitEpoch&)> after_epoch = {};
};

namespace detail {
/// The mean of numbers; those of a GPU are read late.
class REEL_API RunningMean {
 public:
  void add(const Tensor& value, double weight);
  double mean();
  /// Reads what is on a GPU.
  void read();
  double sum = 0, weight = 0;

 private:
  std::vector<std::pair<Tensor, double>> late_;
};
/// The ranks that train together, where fit() has a dist::DataParallel for its optimizer.
struct FitRanks {
  bool first = true;                                                             // this is rank 0
  Function<bool(GradientTape&, const Operand&, std::int64_t, bool)> learn = {};  // the last: sends
  Function<bool()> join = {};
  Function<void(double*, std::size_t)> add_up = {};                 // these numbers of all ranks
  Function<void(std::int64_t*, std::int64_t)> all_reduce_max = {};  // of those with other parts too
};
template <class Optimizer>
FitRanks ranks_of(Optimizer& optimizer, Caller caller) {
  if constexpr (requires { optimizer.add_up(nullptr, 0, caller); })
    return {
        optimizer.world().rank() == 0,
        [&optimizer](GradientTape& tape, const Operand& loss, std::int64_t examples, bool sends) {
          if (sends) return optimizer.step(tape, loss, {examples});
          optimizer.accumulate(tape, loss, {examples});
          return false;
        },
        [&optimizer, caller] { return optimizer.join(caller); },
        [&optimizer, caller](double* numbers, std::size_t count) {
          optimizer.add_up(numbers, count, caller);
        },
        [&optimizer, caller](std::int64_t* numbers, std::int64_t count) {
          optimizer.all_reduce_max(numbers, count, caller);
        }};
  else
    return {};
}
/// The part of fit() that does not depend on types.
class REEL_API FitRun {
 public:
  struct Settings {
    std::int64_t epochs, steps, patience, board_every, accumulate;
    double threshold, clip_norm;
    Unconnected unconnected;
    optim::LossScaler* scaler;
    bool restore_best, validates, progress;
    SummaryWriter* board;
    std::vector<std::string> metrics;
    FitRanks ranks = {};
  };
  /// `variables`: the model's, with its Buffers.
  FitRun(Settings settings, optim::Optimizer& optimizer, std::vector<Variable> variables,
         Caller caller);
  ~FitRun();
  FitRun(const FitRun&) = delete;
  FitRun& operator=(const FitRun&) = delete;
  /// Adds the gradients of a batch; after enough of them, steps. Returns whether it did.
  bool learn(GradientTape& tape, const Tensor& cost, double weight);
  /// Whether a rank has an example now, and no rank stops. A call for each example.
  bool any(bool more);
  /// Whether the training ends after this step; with several ranks, whether they have agreed to.
  bool stops_here() const { return settings.ranks.add_up ? agreed_ : stop; }
  void agree_to_stop(bool own);
  /// This rank has no example where others have one.
  bool learn_nothing();
  /// Steps with the gradients that are left at the end of an epoch.
  bool finish_group();
  void after_step(const Tensor& cost);
  void end_epoch(FitEpoch& result, FitHistory& history);
  void restore_best();
  /// Throws ShapeError unless the loss or the metric `what` is one number.
  const Tensor& number(std::string_view what, const Tensor& value) const;
  void refuse_checkpoints() const;
  /// For an epoch without examples: true the first time, if no step of it was made before. Throws
  /// Error the next time.
  bool left_none(Caller caller);
  bool done() const { return stop || epoch >= settings.epochs || at_limit(); }
  bool at_limit() const { return settings.steps > 0 && step >= settings.steps; }
  /// For checkpoints.
  void fields(const auto& field) {
    training.read();
    field("fit_epoch", epoch);
    field("fit_best", best);
    field("fit_bad", bad);
    field("fit_sum", training.sum);
    field("fit_weight", training.weight);
    field("fit_best_values", best_values);
    field("generator", generator);
  }

  Settings settings;
  std::int64_t step = 0, epoch = 0, bad = 0;
  double best, started = 0;
  RunningMean training;
  std::vector<Tensor> best_values;
  Generator generator;  // the thread's
  bool stop = false;

 private:
  bool left_none_ = false, agreed_ = false;
  struct Screen;
  void update();
  optim::Optimizer& optimizer_;
  std::vector<Variable> variables_;
  std::vector<optim::GradientSum> sum_;  // one, if batches are accumulated
  std::int64_t waiting_ = 0;             // batches in it, or that ranks have not sent
  Caller caller_;
  Screen* screen_;
};
/// How many examples a batch has, for means: the length of its first Tensor, or its size.
template <class T>
double weight_of(T& example) {
  if constexpr (data::detail::Grouped<T>) {
    double weight = -1;
    visit_leaves("", example, [&](std::string_view, auto& leaf) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>)
        if (weight < 0) weight = leaf.rank() > 0 ? static_cast<double>(leaf.shape()[0]) : 1;
    });
    return weight < 0 ? 1 : weight;
  } else if constexpr (requires { example.first; }) {
    return weight_of(example.first);
  } else if constexpr (requires { example.size(); }) {
    return static_cast<double>(example.size());
  } else {
    return 1;
  }
}
/// What a checkpoint has of the run, the examples and the schedule.
template <class Train>
struct FitState {
  FitRun& run;
  Train& train;
  optim::Schedule* schedule;
  void fields(const auto& field) {
    run.fields(field);
    if (run.settings.scaler) run.settings.scaler->fields(field);
    if constexpr (HasFields<Train>) train.fields(field);
    if (schedule) schedule->fields(field);
  }
};
}  // namespace detail

/// Trains a model: for each example of `train`, mostly a batch, a step of the optimizer down the
/// gradient of loss(model, example), one number.
///
///     auto loss = [](const Model& m, const Example& e) { return nn::cross_entropy(m(e.x), e.y); };
///     auto history = fit(model, adam, train, loss, {.epochs = 5, .validate = test});
///
/// `train` is a Pipeline, a std::vector or another range; each loop over it is an epoch. The
/// parameters get the same bits as by this loop, and so does all else that the options ask for:
///
///     for (int epoch = 0; epoch < 5; ++epoch)
///       for (auto& example : train) {
///         GradientTape tape;
///         adam.step(tape, loss(model, example));
///       }
///
/// With a dist::DataParallel for the optimizer, all ranks call fit(), each with its part of the
/// examples; a batch counts by its examples. Ranks without a batch join the others. The losses of
/// FitEpoch are those of all ranks. If one of them stops, all do.
///
/// A training that was stopped goes on with .checkpoints as if it had not been stopped, in the
/// middle of an epoch if `train` is a Pipeline. Throws what the loss, the examples and the
/// optimizer throw, and Error for options out of range.
template <class Model, class Optimizer, class Train, class Loss>
requires std::is_base_of_v<optim::Optimizer, Optimizer> FitHistory
fit(Model& model, Optimizer& optimizer, Train&& train, const Loss& loss,
    const FitOptions<Model, detail::ExampleOf<Train>>& options = {},
    Caller caller = Caller::here()) {
  using T = detail::ExampleOf<Train>;
  std::vector<std::string> names;
  for (const auto& metric : options.metrics) names.push_back(metric.name);
  detail::FitRun run(
      {options.epochs, options.steps, options.patience, options.board_every, options.accumulate,
       options.threshold, options.clip_norm, options.unconnected, options.scaler,
       options.restore_best, static_cast<bool>(options.validate.each), options.progress,
       options.board, std::move(names), detail::ranks_of(optimizer, caller)},
      optimizer, detail::all_variables(model, "fit"), caller);
  using Examples = std::remove_reference_t<Train>;
  detail::FitState<Examples> state{run, train, options.schedule};
  if (options.checkpoints) {
    if constexpr (HasFields<Examples>)
      options.checkpoints->resume({run.step, caller}, model, optimizer, state);
    else
      run.refuse_checkpoints();
  }
  const auto step_ended = [&](const Tensor& cost) {
    run.after_step(cost);
    if (options.schedule) options.schedule->step(caller);
    FitStep event{run.step, run.epoch, cost};
    if (options.after_step) options.after_step(event);
    run.stop |= event.stop;
  };
  const auto save = [&] {
    if constexpr (HasFields<Examples>)
      if (options.checkpoints)
        options.checkpoints->save({run.step, caller}, model, optimizer, state);
  };
  FitHistory history;
  while (!run.done()) {
    bool whole = true, empty = true;
    Tensor cost;
    auto at = train.begin();
    const auto end = train.end();
    for (bool more = at != end; run.any(more); more = more && ++at != end) {
      empty = false;
      bool stepped;
      if (more) {
        auto&& example = *at;
        GradientTape tape;
        cost = loss(std::as_const(model), std::as_const(example));
        stepped = run.learn(tape, cost, detail::weight_of(example));
      } else {
        stepped = run.learn_nothing();
      }
      if (stepped) step_ended(cost), save();
      whole = !run.stops_here() && !run.at_limit();
      if (!whole) break;
    }
    whole = whole && !run.stops_here();
    // A stop at the last example of an epoch leaves an epoch without examples.
    if (empty && run.left_none(caller)) continue;
    const bool rest = whole && run.finish_group();
    if (rest) step_ended(cost);
    FitEpoch result;
    if (options.validate.each) {
      const TrainScope evaluating(false);
      detail::RunningMean validation;
      std::vector<detail::RunningMean> means(options.metrics.size());
      options.validate.each([&](T& example) {
        const double weight = detail::weight_of(example);
        const Tensor now = loss(std::as_const(model), std::as_const(example));
        validation.add(run.number("validation loss", now), weight);
        for (std::size_t i = 0; i < means.size(); ++i) {
          const FitMetric<Model, T>& metric = options.metrics[i];
          const Tensor value = metric.f(std::as_const(model), std::as_const(example));
          means[i].add(run.number("metric " + metric.name, value), weight);
        }
      });
      result.validation = validation.mean();
      for (detail::RunningMean& mean : means) result.metrics.push_back(mean.mean());
    }
    run.end_epoch(result, history);
    if (whole) ++run.epoch;
    if (rest) save();  // `train` is at the next epoch already
    if (options.after_epoch) options.after_epoch(history.epochs.back());
    run.agree_to_stop(history.epochs.back().stop);
  }
  run.restore_best();
  return history;
}
}  // namespace reel
