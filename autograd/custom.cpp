// SPDX-License-Identifier: BSD-3-Clause
// custom_gradient: one record for a whole function, with the gradient that the function gave.
#include <reel/ops.hpp>
#include <reel/tape.hpp>

#include "autograd/gradient_call.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/gate/crossing.hpp"
#include "lib/gate/recording.hpp"

namespace reel {
namespace {
struct CustomOptions {
  detail::Function<Tensors(Tensor)> gradient;
  void fields(auto&&) {}
  friend bool operator==(const CustomOptions&, const CustomOptions&) { return false; }
};

void custom_rule(GradientCall& call) {
  const Tensors found = call.option<CustomOptions>().gradient(call.dy());
  if (static_cast<int>(found.size()) != call.input_count())
    fail<TapeError>(site_of({}), "custom_gradient", "gradient",
                    std::to_string(call.input_count()) + " tensors, one for each argument",
                    std::to_string(found.size()));
  for (int i = 0; i < call.input_count(); ++i) call.give(i, found[static_cast<std::size_t>(i)]);
}

/// Not in the table: it has no name to be called by, and its needs are what the closure holds.
constinit Op custom_op{.name = "custom_gradient", .arity = -1, .gradient = custom_rule};
}  // namespace

void GradientCall::give_from_user() {
  SmallVector<Body*, 4> inputs, outputs;
  std::vector<Tensor> all;
  for (int i = 0; i < record_.input_count; ++i) inputs.push_back(record_.inputs[i].saved);
  for (int i = 0; i < record_.output_count(); ++i) {
    outputs.push_back(record_.outputs[i].saved);
    all.push_back(dy(i));
  }
  const CallView view{*record_.op,
                      inputs.data(),
                      record_.input_count,
                      outputs.data(),
                      static_cast<int>(outputs.size()),
                      OptionsView(record_.options_type, record_.options),
                      record_.site()};
  const Tensors found = call_user_gradient(*record_.op, OpCall(view), Tensors(std::move(all)));
  if (static_cast<int>(found.size()) != record_.input_count)
    fail<TapeError>(record_.site(), record_.op->name, "gradient",
                    std::to_string(record_.input_count) + " tensors, one for each input",
                    std::to_string(found.size()));
  for (int i = 0; i < record_.input_count; ++i) give(i, found[static_cast<std::size_t>(i)]);
}

void user_rule(GradientCall& call) { call.give_from_user(); }

namespace detail {
Tensor run_custom(
    Operands inputs,
    detail::Function<std::pair<Tensor, detail::Function<Tensors(Tensor)>>(const OpCall&)> f) try {
  Context& context = Context::here();
  const CallerScope scope(inputs.caller(), custom_op.name);
  SmallVector<Tensor, 4> values;
  SmallVector<Body*, 4> bodies(inputs.size());
  SmallVector<Origin, 4> origins(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Operand x = inputs[i];
    values.push_back(detail::tensor_of(x));
    bodies[i] = Access::body(values[i]);
    if (!bodies[i])
      fail<Error>(x.caller(), custom_op.name, "argument " + std::to_string(i), "a tensor",
                  "an undefined Tensor");
  }
  const CallView view{custom_op, bodies.data(),  static_cast<int>(inputs.size()), nullptr, 0,
                      {},        inputs.caller()};
  // What f runs is recorded too: outer tapes reach through it to the values its gradient holds.
  auto [value, gradient] = f(OpCall(view));
  if (!value.defined())
    fail<Error>(inputs.caller(), custom_op.name, "value", "a tensor", "an undefined Tensor");
  Crossings crossings;
  const Caller site = context.site_of(inputs.caller());
  if (context.is_watchful()) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      crossings.use(context, custom_op, static_cast<int>(i), bodies[i], site);
    crossings.use(context, custom_op, 0, Access::body(value), site);
  }
  // Inside f tapes may have ended, and numbers of records been taken back.
  std::uint64_t tapes = 0;
  for (std::size_t i = 0; i < inputs.size() && context.mode & recording; ++i) {
    origins[i] = origin_of(context, Operand(values[i]), bodies[i]);
    tapes |= origins[i].tapes;
  }
  if (!tapes) {
    crossings.mark(context, value, site);
    return value;
  }
  // The result needs a header of its own, that carries this record and not the last op's inside.
  Tensor named = make_alias(context, Access::body(value));
  Body* result = Access::body(named);
  if (!result) fail<MemoryError>(inputs.caller(), custom_op.name, "value", "memory", "none");
  const CustomOptions options{std::move(gradient)};
  leave_record(context, custom_op, options, site, bodies.data(), origins.data(),
               static_cast<int>(inputs.size()), &result, 1, tapes);
  crossings.mark(context, named, site);
  return named;
} catch (const std::bad_alloc&) {
  fail_memory(inputs.caller(), custom_op.name);
}
}  // namespace detail
}  // namespace reel
