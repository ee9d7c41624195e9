// SPDX-License-Identifier: BSD-3-Clause
// custom_gradient(): one record for a whole function, with the gradient function that it returned.
#include <reel/ops.hpp>
#include <reel/tape.hpp>

#include "autograd/gradient_call.hpp"
#include "autograd/playback.hpp"
#include "autograd/unconnected.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/gate/captures.hpp"
#include "lib/gate/marks.hpp"
#include "lib/gate/recording.hpp"

namespace reel {
namespace {
struct CustomOptions {
  detail::Function<Tensors(const Tensors&)> gradient;
  void fields(auto&&) {}
};

void custom_rule(GradientCall& call) {
  std::vector<Tensor> upstream;
  for (int i = 0; i < call.output_count(); ++i) upstream.push_back(call.dy(i));
  const int count = call.listed_inputs();
  const Tensors found = call.option<CustomOptions>().gradient(Tensors(std::move(upstream)));
  if (static_cast<int>(found.size()) != count)
    fail<TapeError>(caller_of({}), "custom_gradient", "gradient",
                    to_text(count) + " tensors, one for each argument", to_text(found.size()));
  for (int i = 0; i < count; ++i) call.give(i, found[static_cast<std::size_t>(i)]);
}

/// The op of custom_gradient(). It is not in the table, because it cannot be called by name. The
/// gradient function itself holds the values that it needs.
constinit Op custom_op{.name = "custom_gradient", .arity = -1, .gradient = {custom_rule}};
}  // namespace

void Playback::require_no_request(const Record& record, int input) {
  Reel& reel = *context_.reel;
  if (!led_to_) {
    led_to_ = std::make_unique<std::vector<bool>>(target_ + 1 - start_);
    const auto is_requested = [](const Slot& slot) {
      return slot.requests && slot.requests != Slot::ignored;
    };
    for (std::uint32_t i = start_; i <= target_; ++i) {
      const Record& each = reel[i];
      bool led_to = false;
      for (int k = 0; k < each.output_count(); ++k)
        led_to |= is_requested(slots_[each.first_value + static_cast<unsigned>(k) - first_value_]);
      for (int k = 0; k < each.input_count; ++k)
        led_to |= follows(each.inputs[k]) && (*led_to_)[each.inputs[k].record - start_];
      (*led_to_)[i - start_] = led_to;
    }
  }
  const std::uint32_t made = record.inputs[input].record;
  if (!(*led_to_)[made - start_]) return;
  const Record& read = reel[made];
  context_.outer_caller = caller_;
  if (record.op->name == "gradient")
    fail<TapeError>(caller_, "gradient", "tape",
                    "an outer tape that is made before the inner tape records",
                    "an outer tape that is younger than ops of the inner tape",
                    "The gradient of the inner tape depends on values that the outer tape does not "
                    "know.");
  fail<TapeError>(
      caller_, "gradient", "source", "functions that list the tensors that they read",
      place_of(*record.op, record.caller()) + ", which reads one of " +
          place_of(*read.op, read.caller()),
      "Make this tensor an argument of the function, or list the Variable, or make it a "
      "constant by stop_gradient().");
}

int GradientCall::listed_inputs() const {
  const int count = record_.listed_count();
  for (int i = count; i < record_.input_count; ++i)
    if (wants(i)) playback_.require_no_request(record_, i);
  return count;
}

void GradientCall::give_from_user() {
  const int count = listed_inputs();
  SmallVector<Body*, 4> inputs, outputs;
  std::vector<Tensor> all;
  for (int i = 0; i < count; ++i) inputs.push_back(record_.inputs[i].saved);
  for (int i = 0; i < record_.output_count(); ++i) {
    outputs.push_back(record_.outputs[i].saved);
    all.push_back(dy(i));
  }
  const CallView view{*record_.op,
                      inputs.data(),
                      count,
                      outputs.data(),
                      static_cast<int>(outputs.size()),
                      OptionsView(record_.options_type, record_.options),
                      record_.caller()};
  const Tensors found = call_user_gradient(view, Tensors(std::move(all)));
  if (static_cast<int>(found.size()) != count)
    fail<TapeError>(record_.caller(), record_.op->name, "gradient",
                    to_text(count) + " tensors, one for each input", to_text(found.size()));
  for (int i = 0; i < count; ++i) give(i, found[static_cast<std::size_t>(i)]);
}

void user_rule(GradientCall& call) { call.give_from_user(); }

namespace detail {
Tensors run_custom(Operands inputs, const std::vector<Variable>& variables,
                   const Function<ValuesAndGradient(const OpCall&)>& f) try {
  Context& context = Context::here();
  const CallerScope scope(inputs.caller(), custom_op.name);
  if (context.shares_variables) {
    Tensors made;
    if (run_outside(context, inputs.caller(), custom_op.name,
                    [&] { made = run_custom(inputs, variables, f); }))
      return made;
  }
  const std::size_t count = inputs.size() + variables.size();
  SmallVector<Tensor, 4> given;
  SmallVector<Body*, 4> bodies(count);
  SmallVector<Origin, 4> origins(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_argument = i < inputs.size();
    given.push_back(is_argument ? inputs[i].value() : variables[i - inputs.size()].value());
    bodies[i] = Access::body(given[i]);
    if (!bodies[i])
      fail<Error>(inputs[i].caller(), custom_op.name, "argument " + to_text(i), "a tensor",
                  "an undefined Tensor");
  }
  const CallView view{custom_op, bodies.data(),  static_cast<int>(count), nullptr, 0,
                      {},        inputs.caller()};
  // The ops inside f are recorded too. Through them, outer tapes reach the values that the gradient
  // function holds.
  Captures captures(context);
  auto [values, gradient] = f(OpCall(view));
  captures.stop();
  for (const Tensor& value : values)
    if (!value.defined())
      fail<Error>(inputs.caller(), custom_op.name, "value", "a tensor", "an undefined Tensor");
  if (values.size() == 0)
    fail<Error>(inputs.caller(), custom_op.name, "value", "at least one tensor", "none");
  ResultMarks marks;
  const Caller caller = context.caller_of(inputs.caller());
  if (context.is_watchful()) {
    for (std::size_t i = 0; i < count; ++i)
      marks.use(context, custom_op, static_cast<int>(i), bodies[i], caller);
    for (const Tensor& value : values)
      marks.use(context, custom_op, 0, Access::body(value), caller);
  }
  // Tapes may have ended inside f, so numbers of records may have been freed.
  for (std::size_t i = 0; i < count && context.mode & recording; ++i)
    origins[i] = origin_of(context, Operand(given[i]), bodies[i]);
  SmallVector<Body*, 4> results;
  for (const Tensor& value : values) results.push_back(Access::body(value));
  const int unlisted =
      captures.add_to(results.data(), results.size(), bodies, origins, inputs.caller());
  std::uint64_t tapes = 0;
  for (const Origin& origin : origins) tapes |= origin.tapes;
  for (std::size_t i = 0; tapes && i < values.size(); ++i) {
    // A result needs a header of its own with the id of this record, not that of the last op inside
    // f.
    values[i] = make_alias(context, Access::body(values[i]));
    results[i] = Access::body(values[i]);
    if (!results[i]) fail<MemoryError>(inputs.caller(), custom_op.name, "value", "memory", "none");
  }
  if (tapes) {
    const CustomOptions options{std::move(gradient)};
    leave_record(context, custom_op, options, caller, bodies.data(), origins.data(),
                 static_cast<int>(bodies.size()), results.data(), static_cast<int>(results.size()),
                 tapes, unlisted);
  }
  for (std::size_t i = 0; i < values.size(); ++i) marks.mark(context, values[i], caller);
  return std::move(values);
} catch (const std::bad_alloc&) {
  fail_memory(inputs.caller(), custom_op.name);
}
}  // namespace detail
}  // namespace reel
