// SPDX-License-Identifier: BSD-3-Clause
// Ops that write Variables in place: assignments and the steps of optimizers.
#include <reel/ops/update.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <reel/ops.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/gate/update.hpp"
#include "lib/ops/ops.hpp"
#include "lib/table/options/join.hpp"

namespace reel {
namespace {
// run_assignment() has checked the value: a number, or of the Variable's shape.
void assign_shape(Inference&) {}

/// The part has the slice's shape and the Variable's dtype.
void assign_slice_shape(Inference& call) {
  const SliceOptions& place = call.option<SliceOptions>();
  if (!(call.input(1).shape == place.lengths))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                     "the slice's shape " + to_text(place.lengths), to_text(call.input(1).shape));
}

/// An argument's name, with a number where there are several parameters.
std::string name_of_one(const Op& op, int argument, std::size_t p, std::size_t count) {
  const std::string name = argument_name(op, argument);
  return count > 1 ? name + " " + std::to_string(p) : name;
}
/// The inputs of a step: of each parameter the `written` Variables, the gradients of all,
/// the op's numbers.
void step_shape(Inference& call, int written) {
  const int numbers = call.op.numbers;
  const int count = (call.input_count - numbers) / (written + 1);
  for (int p = 0; p < count; ++p) {
    const auto name = [&](int argument) {
      return name_of_one(call.op, argument, static_cast<std::size_t>(p),
                         static_cast<std::size_t>(count));
    };
    const Body& x = call.input(written * p);
    if (!is_floating(x.dtype))
      fail<DTypeError>(call.caller, call.op.name, name(0), "float32 or float64", name_of(x.dtype));
    for (int i = 1; i <= written; ++i) {
      const Body& y = call.input(i < written ? written * p + i : written * count + p);
      if (!(x.shape == y.shape))
        fail<ShapeError>(call.caller, call.op.name, name(i),
                         "the Variable's shape " + to_text(x.shape), to_text(y.shape));
      if (x.dtype != y.dtype)
        fail<DTypeError>(call.caller, call.op.name, name(i),
                         "the Variable's " + std::string(name_of(x.dtype)),
                         std::string(name_of(y.dtype)));
    }
  }
  for (int i = 0; i < numbers; ++i) {
    const Body& number = call.input((written + 1) * count + i);
    if (number.elements != 1)
      fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, written + 1 + i),
                       "one number", "shape " + to_text(number.shape));
  }
}
void sgd_shape(Inference& call) { step_shape(call, 1); }
void require_finite(const Inference& call, std::string_view option, double number) {
  if (!std::isfinite(number))
    fail<Error>(call.caller, call.op.name, option, "a finite number", to_text(number));
}
void momentum_shape(Inference& call) {
  require_finite(call, "momentum", call.option<MomentumOptions>().momentum);
  step_shape(call, 2);
}
void adam_shape(Inference& call) {
  AdamUpdateOptions options = call.option<AdamUpdateOptions>();
  options.fields([&](std::string_view name, double number) { require_finite(call, name, number); });
  step_shape(call, 3);
  const DType dtype = call.input(call.input_count - 1).dtype;
  if (dtype != DType::int32 && dtype != DType::int64)
    fail<DTypeError>(call.caller, call.op.name, argument_name(call.op, 5), "int32 or int64",
                     name_of(dtype), "Cast it first.");
}
/// All are Variables of their own; `each` of them belong to a parameter.
void require_apart(const Op& op, std::span<const Variable> variables, std::size_t each,
                   Caller caller) {
  std::vector<const Cell*> cells;
  for (const Variable& variable : variables) cells.push_back(&Access::cell(variable));
  std::sort(cells.begin(), cells.end());
  if (std::adjacent_find(cells.begin(), cells.end()) == cells.end()) return;
  const auto name = [&](std::size_t i) {
    return name_of_one(op, static_cast<int>(i % each), i / each, variables.size() / each);
  };
  for (std::size_t i = 1; i < variables.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (variables[i].same_cell(variables[k]))
        fail<Error>(caller, op.name, name(i), "a Variable of its own",
                    "the same Variable as " + name(k));
}

/// A rate as kernels take it, whatever the parameters are.
Tensor wide(const Operand& rate) {
  const RecordingPause pause(Context::here());
  const PlaceScope place(Context::here(), cpu());  // run_update() takes numbers to the Variables
  return rate.kind() == Operand::Kind::scalar
             ? full({}, rate.scalar(), {DType::float64}, rate.caller())
             : cast(rate, DType::float64);
}

bool is_undefined(const Operand& x) {
  return x.kind() <= Operand::Kind::temporary && !x.tensor().defined();
}

/// One step of all parameters: `written` holds the Variables of one after the other.
void run_step(Op& op, std::span<const Variable> written, std::span<const Operand> gradients,
              std::span<const Operand> numbers, OptionsView options) try {
  const Operand& rate = numbers[0];
  const Caller caller = gradients[0].caller();
  const FunctionScope scope(caller, op.name);
  const std::size_t each = written.size() / gradients.size();
  if (written.size() > 1) require_apart(op, written, each, caller);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (is_undefined(numbers[i]))
      fail<Error>(caller, op.name, argument_name(op, static_cast<int>(each + 1 + i)), "a number",
                  "an undefined Tensor");
  const Tensor factor = wide(rate);
  SmallVector<Operand, 8> operands;
  operands.reserve(gradients.size() + numbers.size());
  for (const Operand& gradient : gradients) operands.push_back(gradient);
  operands.emplace_back(factor, rate.caller());
  for (const Operand& number : numbers.subspan(1)) operands.push_back(number);
  run_update(op, written, {operands.data(), operands.size()}, options, caller);
} catch (const std::bad_alloc&) {
  fail_memory(gradients[0].caller(), op.name);
}
/// The same from lists: of x, then of the state that goes with it.
void run_steps(Op& op, std::initializer_list<std::span<const Variable>> lists,
               std::span<const Tensor> gradients, std::span<const Operand> numbers,
               OptionsView options) try {
  const Caller caller = numbers[0].caller();
  const std::size_t count = gradients.size();
  const FunctionScope scope(caller, op.name);
  int argument = 0;
  for (const auto& list : lists) {
    if (list.size() != count)
      fail<Error>(caller, op.name, argument_name(op, argument),
                  "as many as gradients, " + std::to_string(count), std::to_string(list.size()));
    ++argument;
  }
  if (count == 0) return;
  std::vector<Variable> written;
  std::vector<Operand> operands;
  written.reserve(count * lists.size());
  operands.reserve(count);
  for (std::size_t p = 0; p < count; ++p) {
    for (const auto& list : lists) written.push_back(list[p]);
    if (!gradients[p].defined())
      fail<Error>(caller, op.name, name_of_one(op, argument, p, count), "a tensor",
                  "an undefined Tensor");
    operands.emplace_back(gradients[p], caller);
  }
  run_step(op, written, operands, numbers, options);
} catch (const std::bad_alloc&) {
  fail_memory(numbers[0].caller(), op.name);
}
}  // namespace

constinit Op assign_op{.name = "assign",
                       .arity = 2,
                       .shape = assign_shape,
                       .promoted = 0b10,
                       .updates = true,
                       .replaces = true,
                       .moves = true,
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
                             .moves = true,
                             .internal = true,
                             .argument_names = "variable, value"};
constinit Op sgd_update_op{.name = "sgd_update",
                           .arity = -1,
                           .shape = sgd_shape,
                           .promoted = 0,
                           .updates = true,
                           .numbers = 1,
                           .argument_names = "x, gradient, rate"};
constinit Op momentum_update_op{.name = "momentum_update",
                                .arity = -1,
                                .shape = momentum_shape,
                                .promoted = 0,
                                .options = &options_type<MomentumOptions>,
                                .updates = true,
                                .numbers = 1,
                                .argument_names = "x, velocity, gradient, rate"};
constinit Op adam_update_op{.name = "adam_update",
                            .arity = -1,
                            .shape = adam_shape,
                            .promoted = 0,
                            .options = &options_type<AdamUpdateOptions>,
                            .updates = true,
                            .numbers = 2,
                            .argument_names = "x, m, v, gradient, rate, step"};

void sgd_update(Variable& x, Operand gradient, Operand rate) {
  run_step(sgd_update_op, {&x, 1}, {&gradient, 1}, {&rate, 1}, {});
}
void sgd_update(std::span<const Variable> x, std::span<const Tensor> gradients, Operand rate) {
  run_steps(sgd_update_op, {x}, gradients, {&rate, 1}, {});
}
void momentum_update(Variable& x, Variable& velocity, Operand gradient, Operand rate,
                     MomentumOptions options) {
  const Variable written[] = {x, velocity};
  run_step(momentum_update_op, written, {&gradient, 1}, {&rate, 1}, options);
}
void momentum_update(std::span<const Variable> x, std::span<const Variable> velocity,
                     std::span<const Tensor> gradients, Operand rate, MomentumOptions options) {
  run_steps(momentum_update_op, {x, velocity}, gradients, {&rate, 1}, options);
}
void adam_update(Variable& x, Variable& m, Variable& v, Operand gradient, Operand rate,
                 Operand step, AdamUpdateOptions options) {
  const Variable written[] = {x, m, v};
  const Operand numbers[] = {rate, step};
  run_step(adam_update_op, written, {&gradient, 1}, numbers, options);
}
void adam_update(std::span<const Variable> x, std::span<const Variable> m,
                 std::span<const Variable> v, std::span<const Tensor> gradients, Operand rate,
                 Operand step, AdamUpdateOptions options) {
  const Operand numbers[] = {rate, step};
  run_steps(adam_update_op, {x, m, v}, gradients, numbers, options);
}

const Entry update_ops[] = {&assign_op,     &assign_add_op,      &assign_sub_op,  &assign_slice_op,
                            &sgd_update_op, &momentum_update_op, &adam_update_op, nullptr};
}  // namespace reel
