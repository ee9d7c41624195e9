// SPDX-License-Identifier: BSD-3-Clause
// checkpoint: one record for a whole function, whose gradient runs the function again.
#include <algorithm>
#include <memory>
#include <utility>

#include <reel/autocast.hpp>
#include <reel/ops.hpp>
#include <reel/train.hpp>
#include <reel/transform.hpp>

#include "autograd/gradient_call.hpp"
#include "autograd/readings.hpp"
#include "autograd/tape_access.hpp"
#include "lib/flow/redirect.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/marks.hpp"
#include "lib/gate/recording.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/random.hpp"

namespace reel {

namespace {
using Runs = detail::Function<Tensors(const Tensors&)>;

/// The number of times that f has written a Variable.
struct Writes {
  Variable variable;
  int count;
};
/// Random numbers that f drew. They are kept if a trace must see only one draw.
struct Drawn {
  RandomOptions options;
  Tensor kept;
};

/// The state that makes the second run equal to the first one.
struct FirstRun {
  Runs again;
  std::size_t arguments = 0;
  std::vector<Reading> readings;  // the arguments come first
  std::vector<Drawn> drawn;
  std::vector<Shape> results;
  bool training = true;
  DType autocast = DType::float32;
  Device device;
};

struct CheckpointOptions {
  std::shared_ptr<const FirstRun> run;
  void fields(auto&&) {}
};

int& writes_of(std::vector<Writes>& list, const Variable& variable) {
  for (Writes& each : list)
    if (each.variable.same_cell(variable)) return each.count;
  return list.emplace_back(Writes{variable, 0}).count;
}

/// Notes what the first run reads, writes and draws. Tapes are muted, so the ops of this run have
/// no records.
class Notes : public Readings {
 public:
  Notes(Context& context, FirstRun& run)
      : Readings(context, run.readings), context_(context), run_(run) {}

  bool writes(const Variable& x, std::string_view op, Caller caller) override {
    const bool writes = Redirect::writes(x, op, caller);
    ++writes_of(writes_, x);
    return writes;
  }
  Tensor draw(RandomOptions& options, Caller caller, Draw now) override {
    const Tensor drawn = Redirect::draw(options, caller, now);
    run_.drawn.push_back({options, context_.interceptors ? drawn : Tensor()});
    return drawn;
  }

 private:
  int written(const Variable& variable) override { return writes_of(writes_, variable); }
  Context& context_;
  FirstRun& run_;
  std::vector<Writes> writes_;
};

[[noreturn]] void fail_differs(const Text& what, const Text& first, const Text& second) {
  fail<TapeError>(caller_of({}), "checkpoint", what, "as in the first run: " + first, second,
                  "f must compute the same again.");
}

/// Gives the second run the values that the first one read and drew.
class Repeats : public Redirect {
 public:
  /// Read number i of the second run returns values[i].
  Repeats(const FirstRun& run, const std::vector<Tensor>& values) : run_(run), values_(values) {}

  Operand read(const Operand& x) override {
    if (x.kind() != Operand::Kind::scalar)
      for (std::size_t i = 0; i < values_.size(); ++i)
        if (is_reading(run_.readings[i], x)) {
          if (x.kind() == Operand::Kind::variable) watch_as(x.variable(), values_[i], x.caller());
          return Redirect::read({values_[i], x.caller()});
        }
    return Redirect::read(x);
  }
  bool writes(const Variable& x, std::string_view op, Caller caller) override {
    for (const Reading& reading : run_.readings)
      if (reading.variable.size() && reading.variable[0].same_cell(x)) {
        ++writes_of(writes_, x);
        return false;
      }
    return Redirect::writes(x, op, caller);
  }
  Tensor draw(RandomOptions& options, Caller caller, Draw) override {
    if (next_draw_ == run_.drawn.size())
      fail_differs("random numbers", to_text(next_draw_) + " draws", "one more");
    const Drawn& first = run_.drawn[next_draw_++];
    if (!(options.kind == first.options.kind && options.shape == first.options.shape &&
          options.dtype == first.options.dtype))
      fail_differs("random numbers", to_text(first.options.shape), to_text(options.shape));
    options = first.options;
    return first.kept.defined() ? first.kept : run(core_ops.random, options, caller);
  }

 private:
  bool is_reading(const Reading& reading, const Operand& x) {
    if (x.kind() == Operand::Kind::variable)
      return is_of(reading, x.variable(), writes_of(writes_, x.variable()));
    return x.tensor().defined() && Access::body(x.tensor()) == Access::body(reading.value);
  }
  const FirstRun& run_;
  const std::vector<Tensor>& values_;
  std::size_t next_draw_ = 0;
  std::vector<Writes> writes_;
};

/// The value with a header of its own, which only the tape of the second run watches.
Tensor named_apart(Context& context, const Tensor& value) {
  if (context.mode & recording) return reshape(value, value.shape());
  return make_alias(context, Access::body(value));
}

Tensors run_again(Context& context, const FirstRun& run, const std::vector<Tensor>& values) {
  const TrainScope training(run.training);
  const AutocastScope autocast({run.autocast});
  const PlaceScope place(context, run.device);
  const Repeats repeats(run, values);
  const OwnLines lines(context);
  const Tensors results = run.again(std::vector<Tensor>(
      values.begin(), values.begin() + static_cast<std::ptrdiff_t>(run.arguments)));
  return results;
}

/// The only result with an upstream gradient, and this gradient. Or, of several results, one
/// number: the sum of all results, weighted by their upstream gradients.
std::pair<Tensor, Tensor> target_of(GradientCall& call, const Tensors& results) {
  std::vector<int> given;
  for (int i = 0; i < call.output_count(); ++i)
    if (call.has_dy(i)) given.push_back(i);
  const auto result = [&](int i) { return results[static_cast<std::size_t>(i)]; };
  if (given.size() == 1) return {result(given[0]), call.dy(given[0])};
  Tensor target;
  for (const int i : given) {
    const Tensor part = sum(result(i) * call.dy(i));
    target = target.defined() ? target + part.to(target.dtype()) : part;
  }
  return {target, {}};
}

void checkpoint_rule(GradientCall& call) {
  Context& context = Context::here();
  const std::shared_ptr<const FirstRun> run = call.option<CheckpointOptions>().run;
  std::vector<Tensor> values, sources;
  std::vector<int> wanted;
  GradientTape tape({.watch_variables = false});
  for (int i = 0; i < call.input_count(); ++i) {
    const bool wants = call.wants(i) && is_floating(call.input_dtype(i));
    values.push_back(wants ? named_apart(context, call.input(i)) : call.input(i));
    if (!wants) continue;
    tape.watch(values.back());
    sources.push_back(values.back());
    wanted.push_back(i);
  }
  const Tensors results = run_again(context, *run, values);
  if (results.size() != run->results.size())
    fail_differs("results", to_text(run->results.size()) + " tensors", to_text(results.size()));
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!(results[i].shape() == run->results[i]))
      fail_differs("result " + to_text(i), to_text(run->results[i]), to_text(results[i].shape()));
  const auto [target, upstream] = target_of(call, results);
  const std::vector<Tensor> found = TapeAccess::gradients(tape, target, sources, upstream);
  for (std::size_t i = 0; i < wanted.size(); ++i) call.give(wanted[i], found[i]);
}

/// Not in the table, because it cannot be called by name. Its gradient needs all values that f has
/// read.
constinit Op checkpoint_op{
    .name = "checkpoint", .arity = -1, .gradient = {checkpoint_rule, {{0xff, 0xff, 0xff, 0xff}}}};
}  // namespace

Tensors detail::run_checkpoint(Operands inputs, const Runs& f, Runs again) try {
  Context& context = Context::here();
  if (context.shares_variables && context.interceptors && context.mode & recording)
    fail<Error>(inputs.caller(), "checkpoint", "f", "a call outside of vmap()", "one inside",
                "Put vmap() inside of checkpoint().");
  std::vector<Tensor> arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(inputs[i].value());
    if (!arguments[i].defined())
      fail<Error>(inputs[i].caller(), checkpoint_op.name, "argument " + to_text(i), "a tensor",
                  "an undefined Tensor");
  }
  if (!(context.mode & recording)) return f(arguments);
  const auto run = std::make_shared<FirstRun>();
  run->again = std::move(again);
  run->arguments = arguments.size();
  run->training = training();
  run->autocast = context.autocast;
  run->device = context.device;
  for (const Tensor& x : arguments) run->readings.push_back({x, {}});
  Tensors results;
  {
    Notes notes(context, *run);
    const RecordingPause pause(context);
    results = f(arguments);
  }
  const Caller caller = context.caller_of(inputs.caller());
  const CallerScope scope(inputs.caller(), checkpoint_op.name);
  const std::size_t count = run->readings.size();
  SmallVector<Body*, 4> bodies, outputs;
  SmallVector<Origin, 4> origins;
  ResultMarks marks;
  std::uint64_t tapes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Reading& reading = run->readings[i];
    bodies.push_back(Access::body(reading.value));
    if (context.is_watchful())
      marks.use(context, checkpoint_op, static_cast<int>(i), bodies[i], caller);
    if (context.mode & recording)
      origins.push_back(
          origin_of(context, reading.is_own ? Operand(reading.variable[0]) : Operand(reading.value),
                    bodies[i]));
    else
      origins.push_back({});
    tapes |= origins[i].tapes;
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined())
      fail<Error>(inputs.caller(), checkpoint_op.name, "result", "a tensor", "an undefined Tensor");
    run->results.push_back(results[i].shape());
    if (context.is_watchful())
      marks.use(context, checkpoint_op, 0, Access::body(results[i]), caller);
    if (tapes) results[i] = make_alias(context, Access::body(results[i]));
    outputs.push_back(Access::body(results[i]));
    if (!outputs[i])
      fail<MemoryError>(inputs.caller(), checkpoint_op.name, "result", "memory", "none");
  }
  if (tapes && results.size())
    leave_record(context, checkpoint_op, CheckpointOptions{run}, caller, bodies.data(),
                 origins.data(), static_cast<int>(count), outputs.data(),
                 static_cast<int>(outputs.size()), tapes);
  for (std::size_t i = 0; i < results.size(); ++i) marks.mark(context, results[i], caller);
  return results;
} catch (const std::bad_alloc&) {
  fail_memory(inputs.caller(), checkpoint_op.name);
}
}  // namespace reel
