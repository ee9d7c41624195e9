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
#include "lib/ops/entries.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/join.hpp"
#include "lib/table/options/reshape.hpp"
#include "lib/table/options/update.hpp"

namespace reel {
extern Op check_rate_op;
namespace {
// run_assignment() has checked the value: a number, or of the Variable's shape.
void assign_shape(Inference&) {}

/// An argument's name, with a number where there are several parameters.
Text name_of_one(const Op& op, int argument, std::size_t p, std::size_t count) {
  Text name = argument_name(op, argument);
  return count > 1 ? name + " " + to_text(p) : name;
}
/// The inputs of a step: the `written` Variables of each parameter, then all gradients, then the
/// numbers of the op.
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
      fail<DTypeError>(call.caller, call.op.name, name(0), "a floating dtype", name_of(x.dtype));
    for (int i = 1; i <= written; ++i) {
      const Body& y = call.input(i < written ? written * p + i : written * count + p);
      if (!(x.shape == y.shape))
        fail<ShapeError>(call.caller, call.op.name, name(i),
                         "the Variable's shape " + to_text(x.shape), to_text(y.shape));
      if (x.dtype != y.dtype)
        fail<DTypeError>(call.caller, call.op.name, name(i),
                         "the Variable's " + Text(name_of(x.dtype)), name_of(y.dtype));
    }
  }
  for (int i = 0; i < numbers; ++i) {
    const Body& number = call.input((written + 1) * count + i);
    if (number.elements != 1)
      fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, written + 1 + i),
                       "one number", "shape " + to_text(number.shape));
  }
}
/// The inputs of a step of some rows: the `written` Variables, gradient, rows, the op's numbers.
void row_step_shape(Inference& call, int written) {
  const auto require = [&](int i, const Shape& shape, DType dtype, const char* meaning) {
    const Body& y = call.input(i);
    if (!(y.shape == shape))
      fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i),
                       meaning + to_text(shape), to_text(y.shape));
    if (y.dtype != dtype)
      fail<DTypeError>(call.caller, call.op.name, argument_name(call.op, i), name_of(dtype),
                       name_of(y.dtype));
  };
  const Body &x = call.input(0), &rows = call.input(written + 1);
  if (!is_floating(x.dtype))
    fail<DTypeError>(call.caller, call.op.name, "x", "a floating dtype", name_of(x.dtype));
  if (x.rank() == 0) fail<ShapeError>(call.caller, call.op.name, "x", "at least one axis", "()");
  for (int i = 1; i < written; ++i) require(i, x.shape, x.dtype, "the Variable's shape ");
  Shape picked = x.shape;
  picked.data()[0] = rows.elements;
  require(written + 1, Shape({rows.elements}), DType::int64, "one axis, ");
  require(written, picked, x.dtype, "the shape of the rows, ");
  for (int i = written + 2; i < call.input_count; ++i)
    if (call.input(i).elements != 1)
      fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i), "one number",
                       "shape " + to_text(call.input(i).shape));
}
void require_finite(const Inference& call, std::string_view option, double number) {
  if (!std::isfinite(number))
    fail<Error>(call.caller, call.op.name, option, "a finite number", to_text(number));
}
void average_shape(Inference& call) { step_shape(call, 1); }
void check_rate_samples(SampleList out) {
  for (const bool single : {false, true})
    for (const Shape& shape : {Shape(), Shape({1}), Shape({0}), Shape({2, 3})})
      sample(out, {drawn(shape, {0, 2})}, [single](const std::vector<Tensor>& in) {
        return run(check_rate_op, {in[0]}, RateOptions{single});
      });
}
/// The entry of a step that writes this number of Variables for each parameter. Its options must be
/// finite.
template <class Options, int written, void (*shape)(Inference&, int) = step_shape>
void options_shape(Inference& call) {
  Options options = call.option<Options>();
  options.fields([&](std::string_view name, double number) { require_finite(call, name, number); });
  shape(call, written);
}
template <int written, void (*shape)(Inference&, int) = step_shape>
void adam_shape(Inference& call) {
  options_shape<AdamUpdateOptions, written, shape>(call);
  const DType dtype = call.input(call.input_count - 1).dtype;
  if (dtype != DType::int32 && dtype != DType::int64)
    fail<DTypeError>(call.caller, call.op.name,
                     argument_name(call.op, written + (shape == step_shape ? 2 : 3)),
                     "int32 or int64", name_of(dtype), "Cast it first.");
}
/// Checks that all Variables are different; `each` of them belong to one parameter.
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

/// A rate in the dtype that kernels take, for parameters of any dtype.
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

/// One step for all parameters. `written` holds the Variables of the first parameter, then those of
/// the second, ...
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
/// The step of some rows of one parameter.
void run_row_step(Op& op, std::span<const Variable> written, const Tensor& values,
                  const Tensor& rows, std::span<const Operand> numbers, OptionsView options) {
  const Caller caller = numbers[0].caller();
  const RecordingPause pause(Context::here());
  if (written.size() > 1) require_apart(op, written, written.size(), caller);
  SmallVector<Operand, 4> operands;
  const Tensor in_order = Access::body(values)->contiguous
                              ? values
                              : run(cast_op, {values, caller}, DTypeOptions{values.dtype()});
  const Tensor places = Access::body(rows)->contiguous
                            ? rows
                            : run(cast_op, {rows, caller}, DTypeOptions{rows.dtype()});
  const Tensor factor = wide(numbers[0]);
  operands.reserve(2 + numbers.size());
  operands.emplace_back(in_order, caller);
  operands.emplace_back(places, caller);
  operands.emplace_back(factor, caller);
  for (const Operand& number : numbers.subspan(1)) operands.push_back(number);
  run_update(op, written, {operands.data(), operands.size()}, options, caller);
}
/// A step with lists: the first list holds x, the other lists the state of each x. `row_op` takes
/// gradients of some rows.
void run_steps(Op& op, Op* row_op, std::initializer_list<std::span<const Variable>> lists,
               GradientList gradients, std::span<const Operand> numbers, OptionsView options) try {
  const Caller caller = numbers[0].caller();
  const std::size_t count = gradients.size();
  const FunctionScope scope(caller, op.name);
  int argument = 0;
  for (const auto& list : lists) {
    if (list.size() != count)
      fail<Error>(caller, op.name, argument_name(op, argument),
                  "as many as gradients, " + to_text(count), to_text(list.size()));
    ++argument;
  }
  if (count == 0) return;
  std::vector<Variable> written;
  std::vector<Operand> operands;
  std::vector<std::size_t> with_rows;
  written.reserve(count * lists.size());
  operands.reserve(count);
  for (std::size_t p = 0; p < count; ++p) {
    if (!gradients.values(p).defined())
      fail<Error>(caller, op.name, name_of_one(op, argument, p, count), "a tensor",
                  "an undefined Tensor");
    if (gradients.rows(p)) {
      with_rows.push_back(p);
      continue;
    }
    for (const auto& list : lists) written.push_back(list[p]);
    operands.emplace_back(gradients.values(p), caller);
  }
  const auto step = [&] {
    if (!operands.empty()) run_step(op, written, operands, numbers, options);
    std::vector<Variable> one;
    for (const std::size_t p : with_rows) {
      one.clear();
      for (const auto& list : lists) one.push_back(list[p]);
      run_row_step(*row_op, one, gradients.values(p), *gradients.rows(p), numbers, options);
    }
  };
  if (!with_rows.empty()) {  // several ops, of which a later one may fail
    {
      const detail::UpdateCheck checks;
      step();
    }
    for (const std::size_t p : with_rows)
      detail::check_rows(*gradients.rows(p), (*lists.begin())[p], caller);
  }
  step();
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
constinit Op sgd_update_op{.name = "sgd_update",
                           .arity = -1,
                           .shape = options_shape<SGDUpdateOptions, 1>,
                           .promoted = 0,
                           .options = &options_type<SGDUpdateOptions>,
                           .check = any_options,
                           .updates = true,
                           .numbers = 1,
                           .argument_names = "x, gradient, rate"};
constinit Op momentum_update_op{.name = "momentum_update",
                                .arity = -1,
                                .shape = options_shape<MomentumOptions, 2>,
                                .promoted = 0,
                                .options = &options_type<MomentumOptions>,
                                .check = any_options,
                                .updates = true,
                                .numbers = 1,
                                .argument_names = "x, velocity, gradient, rate"};
constinit Op adam_update_op{.name = "adam_update",
                            .arity = -1,
                            .shape = adam_shape<3>,
                            .promoted = 0,
                            .options = &options_type<AdamUpdateOptions>,
                            .check = any_options,
                            .updates = true,
                            .numbers = 2,
                            .argument_names = "x, m, v, gradient, rate, step"};
constinit Op amsgrad_update_op{.name = "amsgrad_update",
                               .arity = -1,
                               .shape = adam_shape<4>,
                               .promoted = 0,
                               .options = &options_type<AdamUpdateOptions>,
                               .check = any_options,
                               .updates = true,
                               .numbers = 2,
                               .argument_names = "x, m, v, largest, gradient, rate, step"};
constinit Op rmsprop_update_op{.name = "rmsprop_update",
                               .arity = -1,
                               .shape = options_shape<RMSpropUpdateOptions, 2>,
                               .promoted = 0,
                               .options = &options_type<RMSpropUpdateOptions>,
                               .check = any_options,
                               .updates = true,
                               .numbers = 1,
                               .argument_names = "x, v, gradient, rate"};
constinit Op rmsprop_momentum_update_op{.name = "rmsprop_momentum_update",
                                        .arity = -1,
                                        .shape = options_shape<RMSpropUpdateOptions, 3>,
                                        .promoted = 0,
                                        .options = &options_type<RMSpropUpdateOptions>,
                                        .check = any_options,
                                        .updates = true,
                                        .numbers = 1,
                                        .argument_names = "x, v, velocity, gradient, rate"};
constinit Op adagrad_update_op{.name = "adagrad_update",
                               .arity = -1,
                               .shape = options_shape<AdagradUpdateOptions, 2>,
                               .promoted = 0,
                               .options = &options_type<AdagradUpdateOptions>,
                               .check = any_options,
                               .updates = true,
                               .numbers = 1,
                               .argument_names = "x, sum, gradient, rate"};
constinit Op average_update_op{.name = "average_update",
                               .arity = -1,
                               .shape = average_shape,
                               .promoted = 0,
                               .updates = true,
                               .numbers = 1,
                               .argument_names = "x, value, rate"};
constinit Op check_rate_op{.name = "check_rate",
                           .shape = same_as_input,
                           .promote = Promote::floating,
                           .options = &options_type<RateOptions>,
                           .check = any_options,
                           .differentiable = false,
                           .contiguous_inputs = true,
                           .internal = true,
                           .samples = check_rate_samples,
                           .argument_names = "rate"};

namespace {
constexpr Op row_update(std::string_view name, ShapeRule shape, const OptionsType* options,
                        std::uint8_t numbers, const char* argument_names) {
  return {.name = name,
          .arity = -1,
          .shape = shape,
          .promoted = 0,
          .options = options,
          .check = any_options,
          .updates = true,
          .internal = true,
          .numbers = numbers,
          .argument_names = argument_names};
}
}  // namespace
constinit Op sgd_row_update_op =
    row_update("sgd_row_update", options_shape<SGDUpdateOptions, 1, row_step_shape>,
               &options_type<SGDUpdateOptions>, 1, "x, gradient, rows, rate");
constinit Op momentum_row_update_op =
    row_update("momentum_row_update", options_shape<MomentumOptions, 2, row_step_shape>,
               &options_type<MomentumOptions>, 1, "x, velocity, gradient, rows, rate");
constinit Op adam_row_update_op =
    row_update("adam_row_update", adam_shape<3, row_step_shape>, &options_type<AdamUpdateOptions>,
               2, "x, m, v, gradient, rows, rate, step");
constinit Op amsgrad_row_update_op =
    row_update("amsgrad_row_update", adam_shape<4, row_step_shape>,
               &options_type<AdamUpdateOptions>, 2, "x, m, v, largest, gradient, rows, rate, step");
constinit Op rmsprop_row_update_op =
    row_update("rmsprop_row_update", options_shape<RMSpropUpdateOptions, 2, row_step_shape>,
               &options_type<RMSpropUpdateOptions>, 1, "x, v, gradient, rows, rate");
constinit Op rmsprop_momentum_row_update_op = row_update(
    "rmsprop_momentum_row_update", options_shape<RMSpropUpdateOptions, 3, row_step_shape>,
    &options_type<RMSpropUpdateOptions>, 1, "x, v, velocity, gradient, rows, rate");
constinit Op adagrad_row_update_op =
    row_update("adagrad_row_update", options_shape<AdagradUpdateOptions, 2, row_step_shape>,
               &options_type<AdagradUpdateOptions>, 1, "x, sum, gradient, rows, rate");

void sgd_update(Variable& x, Operand gradient, Operand rate, SGDUpdateOptions options) {
  run_step(sgd_update_op, {&x, 1}, {&gradient, 1}, {&rate, 1}, options);
}
void sgd_update(std::span<const Variable> x, GradientList gradients, Operand rate,
                SGDUpdateOptions options) {
  run_steps(sgd_update_op, &sgd_row_update_op, {x}, gradients, {&rate, 1}, options);
}
void momentum_update(Variable& x, Variable& velocity, Operand gradient, Operand rate,
                     MomentumOptions options) {
  const Variable written[] = {x, velocity};
  run_step(momentum_update_op, written, {&gradient, 1}, {&rate, 1}, options);
}
void momentum_update(std::span<const Variable> x, std::span<const Variable> velocity,
                     GradientList gradients, Operand rate, MomentumOptions options) {
  run_steps(momentum_update_op, &momentum_row_update_op, {x, velocity}, gradients, {&rate, 1},
            options);
}
void adam_update(Variable& x, Variable& m, Variable& v, Operand gradient, Operand rate,
                 Operand step, AdamUpdateOptions options) {
  const Variable written[] = {x, m, v};
  const Operand numbers[] = {rate, step};
  run_step(adam_update_op, written, {&gradient, 1}, numbers, options);
}
void adam_update(std::span<const Variable> x, std::span<const Variable> m,
                 std::span<const Variable> v, GradientList gradients, Operand rate, Operand step,
                 AdamUpdateOptions options) {
  const Operand numbers[] = {rate, step};
  run_steps(adam_update_op, &adam_row_update_op, {x, m, v}, gradients, numbers, options);
}

void amsgrad_update(std::span<const Variable> x, std::span<const Variable> m,
                    std::span<const Variable> v, std::span<const Variable> largest,
                    GradientList gradients, Operand rate, Operand step, AdamUpdateOptions options) {
  const Operand numbers[] = {rate, step};
  run_steps(amsgrad_update_op, &amsgrad_row_update_op, {x, m, v, largest}, gradients, numbers,
            options);
}
void rmsprop_update(std::span<const Variable> x, std::span<const Variable> v,
                    GradientList gradients, Operand rate, RMSpropUpdateOptions options) {
  run_steps(rmsprop_update_op, &rmsprop_row_update_op, {x, v}, gradients, {&rate, 1}, options);
}
void rmsprop_update(std::span<const Variable> x, std::span<const Variable> v,
                    std::span<const Variable> velocity, GradientList gradients, Operand rate,
                    RMSpropUpdateOptions options) {
  run_steps(rmsprop_momentum_update_op, &rmsprop_momentum_row_update_op, {x, v, velocity},
            gradients, {&rate, 1}, options);
}
void adagrad_update(std::span<const Variable> x, std::span<const Variable> sum,
                    GradientList gradients, Operand rate, AdagradUpdateOptions options) {
  run_steps(adagrad_update_op, &adagrad_row_update_op, {x, sum}, gradients, {&rate, 1}, options);
}
void average_update(std::span<const Variable> x, std::span<const Tensor> values, Operand rate) {
  run_steps(average_update_op, nullptr, {x}, values, {&rate, 1}, {});
}

void detail::check_rate(Operand rate, std::span<const Variable> x) {
  bool single = false;
  for (const Variable& each : x) single |= each.dtype() == DType::float32;
  const FunctionScope scope(rate.caller(), "step");
  const Tensor factor = wide(rate);
  run(check_rate_op, {Operand(factor, rate.caller())}, RateOptions{single});
}
void detail::check_rows(const Tensor& rows, const Variable& x, Caller caller) {
  const RecordingPause pause(Context::here());
  const FunctionScope scope(caller, "gradients");
  run(check_range_op, {Operand(rows, caller)}, RangeOptions{-1, x.shape()[0] - 1, "rows"});
}
detail::UpdateCheck::UpdateCheck() : outermost_(!(Context::here().mode & infer_only)) {
  Context::here().mode |= infer_only;
}
detail::UpdateCheck::~UpdateCheck() {
  if (outermost_) Context::here().mode &= static_cast<std::uint8_t>(~infer_only);
}

const Entry update_ops[] = {&assign_op,
                            &assign_add_op,
                            &assign_sub_op,
                            &sgd_update_op,
                            &momentum_update_op,
                            &adam_update_op,
                            &amsgrad_update_op,
                            &rmsprop_update_op,
                            &rmsprop_momentum_update_op,
                            &adagrad_update_op,
                            &average_update_op,
                            &check_rate_op,
                            &sgd_row_update_op,
                            &momentum_row_update_op,
                            &adam_row_update_op,
                            &amsgrad_row_update_op,
                            &rmsprop_row_update_op,
                            &rmsprop_momentum_row_update_op,
                            &adagrad_row_update_op,
                            nullptr};
}  // namespace reel
