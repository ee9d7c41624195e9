// SPDX-License-Identifier: BSD-3-Clause
// Ops that write Variables in place: assignments and the steps of optimizers.
#include <reel/ops/update.hpp>

#include <cmath>

#include <reel/ops.hpp>

#include "lib/dispatch/context.hpp"
#include "lib/dispatch/gate.hpp"
#include "lib/dispatch/op_options.hpp"
#include "lib/dispatch/update.hpp"
#include "lib/ops/ops.hpp"

namespace reel {
namespace {
/// Input i has the Variable's shape and dtype.
void require_like_variable(const Inference& call, int i) {
  const Body &x = call.input(0), &y = call.input(i);
  if (!(x.shape == y.shape))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i),
                     "the Variable's shape " + to_text(x.shape), to_text(y.shape));
  if (x.dtype != y.dtype)
    fail<DTypeError>(call.caller, call.op.name, argument_name(call.op, i),
                     "the Variable's " + std::string(name_of(x.dtype)),
                     std::string(name_of(y.dtype)));
}
void require_number(const Inference& call, int i) {
  if (call.input(i).elements != 1)
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i), "one number",
                     "shape " + to_text(call.input(i).shape));
}

// The value broadcasts to the Variable's shape.
void assign_shape(Inference& call) {
  const Shape &x = call.input(0).shape, &value = call.input(1).shape;
  if (!broadcasts_to(value, x))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                     "a shape that broadcasts to " + to_text(x), to_text(value));
}

/// The part has the slice's shape and the Variable's dtype.
void assign_slice_shape(Inference& call) {
  const SliceOptions& place = call.option<SliceOptions>();
  if (!(call.input(1).shape == place.lengths))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                     "the slice's shape " + to_text(place.lengths), to_text(call.input(1).shape));
}

void step_shape(Inference& call, int states) {
  require_floating(call, 0);
  for (int i = 1; i <= states + 1; ++i) require_like_variable(call, i);
  for (int i = states + 2; i < call.input_count; ++i) require_number(call, i);
}
void sgd_shape(Inference& call) { step_shape(call, 0); }
void require_finite(const Inference& call, std::string_view option, double number) {
  if (!std::isfinite(number))
    fail<Error>(call.caller, call.op.name, option, "a finite number", to_text(number));
}
void momentum_shape(Inference& call) {
  require_finite(call, "momentum", call.option<MomentumOptions>().momentum);
  step_shape(call, 1);
}
void adam_shape(Inference& call) {
  AdamUpdateOptions options = call.option<AdamUpdateOptions>();
  options.fields([&](std::string_view name, double number) { require_finite(call, name, number); });
  step_shape(call, 2);
  require_integer(call, 5);
}
void require_apart(const Op& op, std::span<const Variable> variables, Caller caller) {
  for (std::size_t i = 1; i < variables.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (variables[i].same_cell(variables[k]))
        fail<Error>(caller, op.name, argument_name(op, static_cast<int>(i)),
                    "a Variable of its own",
                    "the same Variable as " + argument_name(op, static_cast<int>(k)));
}

/// A rate in x's dtype: optimizers keep it in float64 whatever the model has.
Tensor rate_for(const Variable& x, const Operand& rate) {
  const RecordingPause pause(Context::here());
  return rate.kind() == Operand::Kind::scalar
             ? full({}, rate.scalar(), rate.caller()).to(x.dtype(), rate.caller())
             : cast(rate, x.dtype());
}
}  // namespace

constinit Op assign_op{.name = "assign",
                       .arity = 2,
                       .shape = assign_shape,
                       .promoted = 0b10,
                       .updates = true,
                       .argument_names = "variable, value"};
constinit Op assign_add_op{.name = "assign_add",
                           .arity = 2,
                           .shape = assign_shape,
                           .promoted = 0b10,
                           .updates = true,
                           .argument_names = "variable, value"};
constinit Op assign_sub_op{.name = "assign_sub",
                           .arity = 2,
                           .shape = assign_shape,
                           .promoted = 0b10,
                           .updates = true,
                           .argument_names = "variable, value"};
constinit Op assign_slice_op{.name = "assign_slice",
                             .arity = 2,
                             .shape = assign_slice_shape,
                             .promoted = 0b10,
                             .options = &options_type<SliceOptions>,
                             .updates = true,
                             .argument_names = "variable, value"};
constinit Op sgd_update_op{.name = "sgd_update",
                           .arity = 3,
                           .shape = sgd_shape,
                           .promoted = 0b100,
                           .updates = true,
                           .argument_names = "x, gradient, rate"};
constinit Op momentum_update_op{.name = "momentum_update",
                                .arity = 4,
                                .shape = momentum_shape,
                                .promoted = 0b1000,
                                .options = &options_type<MomentumOptions>,
                                .updates = true,
                                .argument_names = "x, velocity, gradient, rate"};
constinit Op adam_update_op{.name = "adam_update",
                            .arity = 6,
                            .shape = adam_shape,
                            .promoted = 0b10000,
                            .options = &options_type<AdamUpdateOptions>,
                            .updates = true,
                            .argument_names = "x, m, v, gradient, rate, step"};

void sgd_update(Variable& x, Operand gradient, Operand rate) {
  const FunctionScope scope(gradient.caller(), sgd_update_op.name);
  const Tensor factor = rate_for(x, rate);
  const Operand inputs[] = {gradient, Operand(factor, rate.caller())};
  run_update(sgd_update_op, {&x, 1}, inputs, {}, gradient.caller());
}
void momentum_update(Variable& x, Variable& velocity, Operand gradient, Operand rate,
                     MomentumOptions options) {
  const FunctionScope scope(gradient.caller(), momentum_update_op.name);
  const Variable variables[] = {x, velocity};
  require_apart(momentum_update_op, variables, gradient.caller());
  const Tensor factor = rate_for(x, rate);
  const Operand inputs[] = {gradient, Operand(factor, rate.caller())};
  run_update(momentum_update_op, variables, inputs, options, gradient.caller());
}
void adam_update(Variable& x, Variable& m, Variable& v, Operand gradient, Operand rate,
                 Operand step, AdamUpdateOptions options) {
  const FunctionScope scope(gradient.caller(), adam_update_op.name);
  const Variable variables[] = {x, m, v};
  require_apart(adam_update_op, variables, gradient.caller());
  const Tensor factor = rate_for(x, rate);
  const Operand inputs[] = {gradient, Operand(factor, rate.caller()), step};
  run_update(adam_update_op, variables, inputs, options, gradient.caller());
}

void add_update(OpTable& ops) {
  for (Op* op : {&assign_op, &assign_add_op, &assign_sub_op, &assign_slice_op, &sgd_update_op,
                 &momentum_update_op, &adam_update_op})
    ops.add(*op);
}
}  // namespace reel
