// SPDX-License-Identifier: BSD-3-Clause
// A call of a traced function as one record: its gradient comes from a tape of its own, or from the
// replay.
#include <memory>
#include <optional>
#include <utility>

#include <reel/ops.hpp>
#include <reel/trace.hpp>

#include "autograd/gradient_call.hpp"
#include "autograd/readings.hpp"
#include "autograd/tape_access.hpp"
#include "lib/flow/interceptor.hpp"
#include "lib/gate/marks.hpp"
#include "lib/gate/recording.hpp"

namespace reel {
namespace {
using List = std::vector<Tensor>;

/// Ends in several results with these gradients: an op that combines them for one gradient().
struct JoinHeld {
  std::shared_ptr<const List> gradients;
  void fields(auto&&) {}
};
void join_rule(GradientCall& call) {
  const List& gradients = *call.option<JoinHeld>().gradients;
  for (int i = 0; i < call.input_count(); ++i)
    if (call.wants(i)) call.give(i, gradients[static_cast<std::size_t>(i)]);
}
constinit Op join_op{.name = "loop", .arity = -1, .gradient = {join_rule}};

}  // namespace

List gradients_of(GradientTape& tape, const List& results, const List& given,
                  const std::vector<GradientSource>& sources, Caller caller) {
  Context& context = Context::here();
  Reel& reel = *context.reel;
  const std::uint64_t bit = TapeAccess::bit(tape);
  SmallVector<Body*, 4> bodies;
  SmallVector<Origin, 4> origins;
  auto gradients = std::make_shared<List>();
  for (std::size_t i = 0; i < results.size(); ++i) {
    Body* const body = Access::body(results[i]);
    const std::uint32_t found = reel.find(*body);
    if (found == no_record || !((reel[found].tapes | reel[found].watchers) & bit)) continue;
    const std::uint32_t value = Reel::value_of(*body, reel[found]);
    bodies.push_back(body);
    origins.push_back(
        {found, value, bit, reel[found].outputs[value - reel[found].first_value].shape, nullptr});
    gradients->push_back(given[i]);
  }
  List found(sources.size());
  if (bodies.size() && sources.size()) {
    const Tensor end = full({}, 0.0f, TensorOptions{.dtype = results[0].dtype()});
    Body* const output = Access::body(end);
    leave_record(context, join_op, JoinHeld{gradients}, caller, bodies.data(), origins.data(),
                 static_cast<int>(bodies.size()), &output, 1, bit);
    found = TapeAccess::gradients(tape, Operand(end, caller), sources, {});
  }
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (!found[i].defined())
      found[i] = sources[i].variable() ? zeros_like(Operand(*sources[i].variable(), caller))
                                       : zeros_like(Operand(*sources[i].tensor(), caller));
  return found;
}

namespace {
struct CallHeld {
  detail::TapedGradient gradient;
  void fields(auto&&) {}
};
/// The gradient function takes the gradients of the floating results.
void call_rule(GradientCall& call) {
  const CallHeld& held = call.option<CallHeld>();
  List upstream;
  for (int i = 0; i < call.output_count(); ++i) upstream.push_back(call.dy(i));
  const Tensors found = held.gradient(Tensors(std::move(upstream)));
  for (int i = 0; i < call.input_count(); ++i)
    if (call.wants(i)) call.give(i, found[static_cast<std::size_t>(i)]);
}
constinit Op traced_op{.name = "trace", .arity = -1, .gradient = {call_rule}};

bool has_gradient(const Tensor& x) { return x.defined() && is_floating(x.dtype()); }

/// Gives the floating results other headers, which have the record.
void leave_call(const std::vector<Tensor*>& results, const detail::TapedCall& call,
                detail::TapedGradient gradient, Caller caller) try {
  Context& context = Context::here();
  SmallVector<Body*, 4> bodies, outputs;
  SmallVector<Origin, 4> origins;
  std::uint64_t tapes = 0;
  ResultMarks marks;
  for (const detail::TapedSource& source : call.captured ? *call.captured : call.sources) {
    const bool is_variable = source.variable.size();
    const Tensor& x = source.argument >= 0
                          ? call.arguments[static_cast<std::size_t>(source.argument)]
                          : source.tensor;
    bodies.push_back(is_variable ? Access::body(own_value(context, source.variable[0]))
                                 : Access::body(x));
    origins.push_back(
        origin_of(context, is_variable ? Operand(source.variable[0], caller) : Operand(x, caller),
                  bodies[bodies.size() - 1]));
    if (context.is_watchful())
      marks.use(context, traced_op, static_cast<int>(bodies.size()) - 1, bodies[bodies.size() - 1],
                caller);
    tapes |= origins[origins.size() - 1].tapes;
  }
  for (Tensor* const result : results)
    if (has_gradient(*result)) {
      if (tapes) *result = make_alias(context, Access::body(*result));
      if (!result->defined()) fail_memory(caller, "trace");
      outputs.push_back(Access::body(*result));
    }
  if (tapes && outputs.size())
    leave_record(context, traced_op, CallHeld{std::move(gradient)}, context.caller_of(caller),
                 bodies.data(), origins.data(), static_cast<int>(bodies.size()), outputs.data(),
                 static_cast<int>(outputs.size()), tapes);
  for (Tensor* const result : results)
    if (has_gradient(*result)) marks.mark(context, *result, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "trace");
}
}  // namespace

namespace detail {
struct TapedRun::Run {
  TapedCall& call;
  Caller caller;
  std::unique_ptr<GradientTape> tape;
  std::unique_ptr<GradientTape::Pause> pause;
  std::uint64_t tapes = 0;
  std::vector<Reading> readings;
  std::optional<WatchedReadings> watched;
  std::optional<RecordingPause> muted;
  List arguments, results;  // as the function saw them
  std::vector<TapedSource> kept;
  std::vector<GradientSource> sources;  // in the two lists above
  Run(TapedCall& c, Caller from) : call(c), caller(from) {}
};

TapedRun::TapedRun(TapedCall* call, Caller caller) try {
  if (!call) return;
  auto run = std::make_unique<Run>(*call, caller);
  run->tapes = Context::here().reel->active;
  run->tape = std::make_unique<GradientTape>(TapeOptions{.persistent = true}, caller);
  run->pause.reset(new GradientTape::Pause(run->tape->pause(caller)));
  run_ = run.release();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "trace");
}
TapedRun::~TapedRun() { delete run_; }

void TapedRun::begin() try {
  if (!run_) return;
  Run& run = *run_;
  Context& context = Context::here();
  run.watched.emplace(context, run.readings);
  run.muted.emplace(context, run.tapes);
  run.pause.reset();
  run.watched->watch_with(*run.tape, run.caller);
  for (std::size_t i = 0; i < run.call.slots.size(); ++i) {
    run.arguments.push_back(*run.call.slots[i]);
    if (run.call.tracked[i] && has_gradient(run.arguments[i])) {
      run.tape->watch(run.arguments[i], run.caller);
      run.call.sources.push_back({.argument = static_cast<int>(i)});
    }
  }
} catch (const std::bad_alloc&) {
  fail_memory(run_->caller, "trace");
}

void TapedRun::finish(const std::vector<Tensor*>& results) try {
  Run& run = *run_;
  run.watched.reset();
  run.pause.reset(new GradientTape::Pause(run.tape->pause(run.caller)));
  for (const Reading& reading : run.readings) {
    if (!is_floating(reading.value.dtype())) continue;
    if (reading.is_own)
      run.call.sources.push_back({.variable = reading.variable});
    else
      run.call.sources.push_back({.tensor = reading.value});
  }
  run.kept = run.call.sources;
  for (const TapedSource& source : run.kept) {
    if (source.variable.size())
      run.sources.push_back(source.variable[0]);
    else
      run.sources.push_back(source.argument < 0
                                ? source.tensor
                                : run.arguments[static_cast<std::size_t>(source.argument)]);
  }
  List upstream;
  {
    const InterceptorPause unseen;
    for (const Tensor* const result : results)
      if (has_gradient(*result)) {
        run.results.push_back(*result);
        upstream.push_back(full(result->shape(), 1, TensorOptions{.dtype = result->dtype()}));
      }
  }
  for (Interceptor* each = Context::here().interceptors; each; each = each->next)
    each->gradient_begins(upstream);
  run.call.gradients = gradients_of(*run.tape, run.results, upstream, run.sources, run.caller);
} catch (const std::bad_alloc&) {
  fail_memory(run_->caller, "trace");
}

void TapedRun::record(const std::vector<Tensor*>& results) try {
  const std::shared_ptr<Run> run(std::exchange(run_, nullptr));
  run->muted.reset();
  leave_call(
      results, run->call,
      [run](const Tensors& upstream) {
        return Tensors(gradients_of(*run->tape, run->results, {upstream.begin(), upstream.end()},
                                    run->sources, run->caller));
      },
      run->caller);
} catch (const std::bad_alloc&) {
  fail_memory({}, "trace");
}
void TapedRun::record(const std::vector<Tensor*>& results, const TapedCall& call,
                      TapedGradient gradient, Caller caller) {
  leave_call(results, call, std::move(gradient), caller);
}
}  // namespace detail
}  // namespace reel
