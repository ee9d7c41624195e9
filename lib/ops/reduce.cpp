// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/reduce.hpp>

#include <algorithm>

#include <reel/ops/arithmetic.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/ops/statistics.hpp>

#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/reduce.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
extern Op sum_squares_op;

namespace {
void sum_shape(Inference& call) {
  const DType dtype = call.input(0).dtype;
  reduced_to(call, is_floating(dtype) ? dtype : DType::int64);
}

void sum_of_squares_shape(Inference& call) { reduced_to(call, DType::float64); }
void truth_shape(Inference& call) { reduced_to(call, DType::boolean); }

// Without elements there is no extreme. This is an error even if the result has no elements.
void require_elements(const Inference& call) {
  const Axes& axes = call.option<ReduceOptions>().axes;
  const Shape& shape = call.input(0).shape;
  bool none = axes.is_every() && call.input(0).elements == 0;
  for (int i = 0; i < axes.count(); ++i) none |= shape.data()[axes[i]] == 0;
  if (none)
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 0),
                     "at least one element along the reduced axes", to_text(shape));
}
void extreme_shape(Inference& call) {
  reduced(call);
  require_elements(call);
}

void argmax_shape(Inference& call) {
  const Axes& axes = call.option<ReduceOptions>().axes;
  if (!axes.is_every() && axes.count() != 1)
    fail<ShapeError>(call.caller, call.op.name, "axes", "one axis, or all of them",
                     to_text(axes.count()) + " axes");
  reduced_to(call, DType::int64);
  require_elements(call);
}

void sum_to_shape(Inference& call) {
  const Shape& target = call.option<ShapeOptions>().shape;
  const Shape& shape = call.input(0).shape;
  if (!broadcasts_to(target, shape))
    fail<ShapeError>(call.caller, call.op.name, "shape",
                     "a shape that broadcasts to " + to_text(shape), to_text(target));
  require_floating(call, 0);
  call.output(call.input(0).dtype, target);
}

const char* axes_fit(const Inference& call) {
  return are_axes(call.option<ReduceOptions>().axes, call.input(0).shape.rank(), true)
             ? nullptr
             : "sorted axes of its input";
}

using ReducingFunction = Tensor (*)(Operand, Axes, Keepdims);
struct Domain {
  bool empty = true, several_axes = true, equal = true;  // equal: elements reduced together may be
  Draw draw = {};
};
void reduce_samples(SampleList out, ReducingFunction f, Domain domain = {}) {
  const auto add = [&](std::size_t least_rank, Axes axes, Keepdims keep) {
    for (const auto& [shape, layout] : varied(least_rank)) {
      const bool first_axis_stays = !axes.is_every() && axes[0] == -1 && shape.rank() > 1;
      if (!domain.empty && shape.elements() == 0) continue;
      if (!domain.equal && layout == Layout::repeated && !first_axis_stays) continue;
      sample(out, {drawn(shape, layout, domain.draw)},
             [=](const std::vector<Tensor>& in) { return f(in[0], axes, keep); });
    }
  };
  add(0, Axes::every(), Keepdims::no);
  add(1, -1, keepdims);
  add(2, 0, Keepdims::no);
  if (!domain.several_axes) return;
  add(3, {0, 2}, Keepdims::no);
  add(3, {-2, 0}, keepdims);
}
void extreme_samples(SampleList out, ReducingFunction f) {
  reduce_samples(out, f, {.empty = false, .equal = false});
}

[[gnu::cold]] void sum_to_samples(SampleList out) {
  const std::pair<ShapeAndLayout, Shape> cases[] = {{{{}}, {}},
                                                    {{{3}}, {}},
                                                    {{{0}}, {1}},
                                                    {{{5}}, {5}},
                                                    {{{1, 3}}, {3}},
                                                    {{{5}, Layout::reversed}, {1}},
                                                    {{{2, 3}}, {3}},
                                                    {{{2, 3}}, {2, 1}},
                                                    {{{3, 0}}, {3, 1}},
                                                    {{{3, 4}, Layout::transposed}, {4}},
                                                    {{{4, 3}, Layout::repeated}, {1, 3}},
                                                    {{{2, 3, 4}}, {3, 1}},
                                                    {{{2, 3, 4}, Layout::transposed}, {2, 1, 4}},
                                                    {{{2, 3, 4}, Layout::stepped}, {}}};
  for (const auto& [from, to] : cases)
    sample(out, {drawn(from.shape, from.layout)}, [to = to](const std::vector<Tensor>& in) {
      return run(sum_to_op, {in[0]}, ShapeOptions{to});
    });
}

// On a coarse grid zeros occur, so that some truths are false.
constexpr Domain truths{.draw = {-0.6, 0.6, 1}};
Tensor all_of(Operand x, Axes axes, Keepdims keep) { return all(x, axes, keep); }

Tensor narrow_sum_of_squares(Operand x, Axes axes, Keepdims keep) {
  return cast(sum_of_squares(x, axes, keep), dtype_of(sum_squares_op, x));
}

constexpr std::uint16_t both = need_input(0) | need_output();
bool values_alone(Part part, const KernelCall&) { return part == Part::value; }
}  // namespace

constinit Op sum_op{.name = "sum",
                    .shape = sum_shape,
                    .options = &options_type<ReduceOptions>,
                    .check = axes_fit,
                    .fusion = Fusion::reduction,
                    .accumulates = true,
                    .autocast = Autocast::full,
                    .reads_halves = values_alone,
                    .samples = [](SampleList out) { reduce_samples(out, sum); }};
constinit Op prod_op{.name = "prod",
                     .shape = sum_shape,
                     .options = &options_type<ReduceOptions>,
                     .check = axes_fit,
                     .needs = {{need_input(0)}},
                     .fusion = Fusion::reduction,
                     .autocast = Autocast::full,
                     .samples = [](SampleList out) {
                       reduce_samples(out, prod, {.draw = {0.5, 1.5}});
                     }};
constinit Op mean_op{.name = "mean",
                     .shape = reduced,
                     .promote = Promote::floating,
                     .options = &options_type<ReduceOptions>,
                     .check = axes_fit,
                     .fusion = Fusion::reduction,
                     .autocast = Autocast::full,
                     .reads_halves = values_alone,
                     .samples = [](SampleList out) { reduce_samples(out, mean); }};
constinit Op sum_squares_op{
    .name = "sum_squares",
    .shape = sum_of_squares_shape,
    .promote = Promote::floating,
    .options = &options_type<ReduceOptions>,
    .check = axes_fit,
    .needs = {{need_input(0)}},
    .fusion = Fusion::reduction,
    .internal = true,
    .autocast = Autocast::full,
    .samples = [](SampleList out) { reduce_samples(out, narrow_sum_of_squares); }};
constinit Op max_op{.name = "max",
                    .shape = extreme_shape,
                    .options = &options_type<ReduceOptions>,
                    .check = axes_fit,
                    .needs = {{both}},
                    .fusion = Fusion::reduction,
                    .needs_elements = true,
                    .samples = [](SampleList out) { extreme_samples(out, max); }};
constinit Op min_op{.name = "min",
                    .shape = extreme_shape,
                    .options = &options_type<ReduceOptions>,
                    .check = axes_fit,
                    .needs = {{both}},
                    .fusion = Fusion::reduction,
                    .needs_elements = true,
                    .samples = [](SampleList out) { extreme_samples(out, min); }};
constinit Op argmax_op{.name = "argmax",
                       .shape = argmax_shape,
                       .options = &options_type<ReduceOptions>,
                       .check = axes_fit,
                       .fusion = Fusion::reduction,
                       .differentiable = false,
                       .needs_elements = true,
                       .samples = [](SampleList out) {
                         reduce_samples(out, argmax, {.empty = false, .several_axes = false});
                       }};
constinit Op argmin_op{.name = "argmin",
                       .shape = argmax_shape,
                       .options = &options_type<ReduceOptions>,
                       .check = axes_fit,
                       .fusion = Fusion::reduction,
                       .differentiable = false,
                       .needs_elements = true,
                       .samples = [](SampleList out) {
                         reduce_samples(out, argmin, {.empty = false, .several_axes = false});
                       }};
constinit Op any_op{.name = "any",
                    .shape = truth_shape,
                    .options = &options_type<ReduceOptions>,
                    .check = axes_fit,
                    .fusion = Fusion::reduction,
                    .differentiable = false,
                    .samples = [](SampleList out) { reduce_samples(out, any, truths); }};
constinit Op all_op{.name = "all",
                    .shape = truth_shape,
                    .options = &options_type<ReduceOptions>,
                    .check = axes_fit,
                    .fusion = Fusion::reduction,
                    .differentiable = false,
                    .samples = [](SampleList out) { reduce_samples(out, all_of, truths); }};
constinit Op sum_to_op{.name = "sum_to",
                       .shape = sum_to_shape,
                       .options = &options_type<ShapeOptions>,
                       .check = shape_fits,
                       .fusion = Fusion::reduction,
                       .accumulates = true,
                       .internal = true,
                       .reads_halves = values_alone,
                       .samples = sum_to_samples};

namespace {
Tensor reduce(Op& op, const Operand& x, const Axes& axes, Keepdims keep) {
  if (axes.is_every()) return run(op, x, ReduceOptions{axes, keep});
  const std::size_t rank = shape_of(op, x).rank();
  return run(op, x, ReduceOptions{normal_axes(op, axes, rank, x.caller()), keep});
}
}  // namespace

Tensor sum(Operand x, Axes axes, Keepdims keep) { return reduce(sum_op, x, axes, keep); }
Tensor sum(Operand x, Keepdims keep) { return reduce(sum_op, x, Axes::every(), keep); }
Tensor sum_to(Operand x, Shape shape) { return run(sum_to_op, x, ShapeOptions{shape}); }
Tensor mean(Operand x, Axes axes, Keepdims keep) {
  const DType dtype = dtype_of(sum_op, x);
  if (is_floating(dtype) || dtype == DType::int64 || !has_arithmetic(dtype))
    return reduce(mean_op, x, axes, keep);
  // The sum of narrow integers fits int64. Without it, a copy in float32 would be made of them.
  const FunctionScope scope(x.caller(), "mean");
  const Tensor total = sum(x, axes, keep);
  const double kept = static_cast<double>(total.size());
  const double count = kept > 0 ? static_cast<double>(shape_of(sum_op, x).elements()) / kept : 0;
  return cast(divide(cast(total, DType::float64), count), DType::float32);
}
Tensor mean(Operand x, Keepdims keep) { return mean(x, Axes::every(), keep); }
Tensor sum_of_squares(Operand x, Axes axes, Keepdims keep) {
  return reduce(sum_squares_op, x, axes, keep);
}
Tensor max(Operand x, Axes axes, Keepdims keep) { return reduce(max_op, x, axes, keep); }
Tensor max(Operand x, Keepdims keep) { return reduce(max_op, x, Axes::every(), keep); }
Tensor min(Operand x, Axes axes, Keepdims keep) { return reduce(min_op, x, axes, keep); }
Tensor min(Operand x, Keepdims keep) { return reduce(min_op, x, Axes::every(), keep); }
Tensor argmax(Operand x, Axes axes, Keepdims keep) { return reduce(argmax_op, x, axes, keep); }
Tensor argmax(Operand x, Keepdims keep) { return reduce(argmax_op, x, Axes::every(), keep); }
Tensor prod(Operand x, Axes axes, Keepdims keep) { return reduce(prod_op, x, axes, keep); }
Tensor prod(Operand x, Keepdims keep) { return reduce(prod_op, x, Axes::every(), keep); }
Tensor argmin(Operand x, Axes axes, Keepdims keep) { return reduce(argmin_op, x, axes, keep); }
Tensor argmin(Operand x, Keepdims keep) { return reduce(argmin_op, x, Axes::every(), keep); }
Tensor any(Operand x, Axes axes, Keepdims keep) { return reduce(any_op, x, axes, keep); }
Tensor any(Operand x, Keepdims keep) { return reduce(any_op, x, Axes::every(), keep); }
Tensor All::operator()(Operand x, Axes axes, Keepdims keep) const {
  return reduce(all_op, x, axes, keep);
}
Tensor All::operator()(Operand x, Keepdims keep) const {
  return reduce(all_op, x, Axes::every(), keep);
}

const Entry reduce_ops[] = {&sum_op, &sum_to_op, &mean_op, &max_op,    &min_op,         &argmax_op,
                            &any_op, &all_op,    &prod_op, &argmin_op, &sum_squares_op, nullptr};
}  // namespace reel
