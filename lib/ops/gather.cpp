// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/gather.hpp>

#include <algorithm>
#include <string>

#include <reel/ops.hpp>
#include <reel/row_gradient.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/check.hpp"
#include "lib/ops/gather.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/reshape.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
/// x's shape with the axis replaced by the axes of the positions.
Shape taken_shape(const Inference& call, const Shape& x, const Shape& indices, std::int64_t axis) {
  if (x.rank() + indices.rank() > Shape::max_rank + 1)
    fail<ShapeError>(call.caller, call.op.name, "indices", "at most 8 axes in the result",
                     to_text(indices));
  Shape shape;
  shape.resize(x.rank() - 1 + indices.rank());
  std::int64_t* to = shape.data();
  for (std::int64_t i = 0; i < axis; ++i) *to++ = x.data()[i];
  for (std::int64_t length : indices) *to++ = length;
  for (auto i = static_cast<std::size_t>(axis) + 1; i < x.rank(); ++i) *to++ = x.data()[i];
  return shape;
}

namespace {
void require_axis(const Inference& call, const Shape& shape, std::int64_t axis) {
  normal_axis(call.op, axis, shape.rank(), call.caller);
}

void take_shape(Inference& call) {
  const std::int64_t axis = call.option<AxisOptions>().axis;
  require_axis(call, call.input(0).shape, axis);
  require_integer(call, 1);
  call.output(call.input(0).dtype,
              taken_shape(call, call.input(0).shape, call.input(1).shape, axis));
}
void scatter_shape(Inference& call) {
  const auto& option = call.option<UnTakeOptions>();
  require_arithmetic(call, 0);
  require_axis(call, option.shape, option.axis);
  require_integer(call, 1);
  const Shape expected = taken_shape(call, option.shape, call.input(1).shape, option.axis);
  if (!(call.input(0).shape == expected))
    fail<ShapeError>(call.caller, call.op.name, "updates", "shape " + to_text(expected),
                     to_text(call.input(0).shape));
  call.output(call.input(0).dtype, option.shape);
}

/// Positions with the rank of x. Their other axes are not longer than those of x.
void require_inside(const Inference& call, const Shape& x, const Shape& indices,
                    std::int64_t axis) {
  bool fits = x.rank() == indices.rank();
  for (std::size_t i = 0; fits && i < x.rank(); ++i)
    fits = static_cast<std::int64_t>(i) == axis || indices.data()[i] <= x.data()[i];
  if (!fits)
    fail<ShapeError>(call.caller, call.op.name, "indices",
                     "within shape " + to_text(x) + " but for axis " + to_text(axis),
                     to_text(indices));
}
void gather_shape(Inference& call) {
  const std::int64_t axis = call.option<AxisOptions>().axis;
  require_axis(call, call.input(0).shape, axis);
  require_integer(call, 1);
  require_inside(call, call.input(0).shape, call.input(1).shape, axis);
  call.output(call.input(0).dtype, call.input(1).shape);
}
void scatter_elements_shape(Inference& call) {
  const auto& option = call.option<UnTakeOptions>();
  require_arithmetic(call, 0);
  require_axis(call, option.shape, option.axis);
  require_integer(call, 1);
  require_inside(call, option.shape, call.input(1).shape, option.axis);
  if (!(call.input(0).shape == call.input(1).shape))
    fail<ShapeError>(call.caller, call.op.name, "updates",
                     "the shape of indices " + to_text(call.input(1).shape),
                     to_text(call.input(0).shape));
  call.output(call.input(0).dtype, option.shape);
}
void flat_positions_shape(Inference& call) {
  for (int i = 0; i < call.input_count; ++i) require_integer(call, i);
  call.output(DType::int64, broadcast_shapes(call, 0, call.input_count));
}
void check_range_shape(Inference& call) {
  const auto& option = call.option<RangeOptions>();
  if (!*option.expected) require_integer(call, 0, option.argument);
  call.output(*option.expected ? DType::float64 : DType::int64, call.input(0).shape);
}
void one_hot_shape(Inference& call) {
  const auto& option = call.option<OneHotOptions>();
  require_integer(call, 0);
  if (option.depth < 0)
    fail<ShapeError>(call.caller, call.op.name, "depth", "a length of at least 0",
                     to_text(option.depth));
  Shape shape = call.input(0).shape;
  if (shape.rank() == Shape::max_rank)
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 0), "at most 7 axes",
                     to_text(shape));
  shape.resize(shape.rank() + 1);
  shape.data()[shape.rank() - 1] = option.depth;
  call.output(option.dtype, shape);
}

const char* place_fits(const Inference& call) {
  const auto& [shape, axis] = call.option<UnTakeOptions>();
  return is_shape(shape) && axis >= 0 && axis < static_cast<std::int64_t>(shape.rank())
             ? nullptr
             : "an axis of a shape";
}
const char* lengths_fit(const Inference& call) {
  const Shape& shape = call.option<ShapeOptions>().shape;
  return is_shape(shape) && static_cast<int>(shape.rank()) == call.input_count
             ? nullptr
             : "a length for each input";
}
const char* range_fits(const Inference& call) {
  const bool reads_doubles = *call.option<RangeOptions>().expected;
  return !reads_doubles || call.input(0).dtype == DType::float64 ? nullptr : "a range of float64";
}

Tensor positions(const Shape& shape, std::int64_t length, int seed) {
  Tensor x = (arange(0, shape.elements()) * 7 + seed) % length;
  return reshape(x - where(x % 2 == 0, length, 0), shape);  // half of them from the end
}

[[gnu::cold]] void take_samples(SampleList out) {
  for (const Shape& shape : {Shape(), Shape({0}), Shape({4}), Shape({2, 3})})
    for (int axis : {0, -1})
      for (const auto layout :
           {Layout::plain, Layout::transposed, Layout::stepped, Layout::repeated})
        sample(out, {drawn({4, 4}, layout), positions(shape, 4, axis + 1)},
               [axis](const std::vector<Tensor>& in) { return take(in[0], in[1], axis); });
  sample(out, {drawn({1, 3}), positions({2}, 1, 0)},
         [](const std::vector<Tensor>& in) { return take(in[0], in[1]); });
}
[[gnu::cold]] void lookup_samples(SampleList out) {
  for (const Shape& shape : {Shape(), Shape({0}), Shape({4}), Shape({2, 3})})
    for (const auto layout : {Layout::plain, Layout::transposed, Layout::repeated})
      sample(out, {drawn({4, 3}, layout), positions(shape, 4, 1)},
             [](const std::vector<Tensor>& in) { return lookup(in[0], in[1]); });
  sample(out, {drawn({1, 3}), positions({2}, 1, 0)},
         [](const std::vector<Tensor>& in) { return lookup(in[0], in[1]); });
}
[[gnu::cold]] void gather_samples(SampleList out) {
  for (const Shape& shape : {Shape({4, 4}), Shape({2, 3}), Shape({0, 4}), Shape({1, 1})})
    for (int axis : {0, 1})
      for (const auto layout : {Layout::plain, Layout::transposed, Layout::reversed})
        sample(out, {drawn({4, 4}, layout), positions(shape, 4, axis)},
               [axis](const std::vector<Tensor>& in) { return gather(in[0], in[1], axis); });
  sample(out, {drawn({1, 3}), positions({2, 3}, 1, 0)},
         [](const std::vector<Tensor>& in) { return gather(in[0], in[1], 0); });
}
[[gnu::cold]] void scatter_samples(SampleList out) {
  for (const Shape& shape : {Shape({3}), Shape({1}), Shape({2, 2}), Shape({0}), Shape()})
    for (const auto layout : {Layout::plain, Layout::transposed, Layout::reversed}) {
      Shape updates = shape;
      updates.resize(shape.rank() + 1);
      updates.data()[shape.rank()] = 5;
      if (updates.rank() < 2 && layout == Layout::transposed) continue;
      sample(out, {drawn(updates, layout), positions(shape, 4, 1)},
             [](const std::vector<Tensor>& in) {
               return run(scatter_op, {in[0], in[1]}, UnTakeOptions{{4, 5}, 0});
             });
      sample(out, {drawn({4, 5}), drawn(updates, layout), positions(shape, 4, 2)},
             [](const std::vector<Tensor>& in) { return scatter_add(in[0], in[2], in[1]); });
    }
}
[[gnu::cold]] void scatter_elements_samples(SampleList out) {
  for (const Shape& shape : {Shape({4, 4}), Shape({2, 3}), Shape({0, 4}), Shape({1, 1})})
    for (int axis : {0, 1})
      for (const auto layout : {Layout::plain, Layout::reversed})
        sample(out, {drawn(shape, layout), positions(shape, 4, axis)},
               [axis](const std::vector<Tensor>& in) {
                 return run(scatter_elements_op, {in[0], in[1]}, UnTakeOptions{{4, 4}, axis});
               });
}
[[gnu::cold]] void flat_positions_samples(SampleList out) {
  const auto of = [](const std::vector<Tensor>& in) {
    return run(flat_positions_op, Operands(in), ShapeOptions{{4, 5}});
  };
  for (const Shape& shape : {Shape(), Shape({0}), Shape({7}), Shape({3, 2}), Shape({1, 2})}) {
    sample(out, {positions(shape, 4, 0), positions(shape, 5, 1)}, of);
    sample(out, {positions({3, 1}, 4, 2), positions(shape, 5, 3)}, of);
  }
}
[[gnu::cold]] void check_range_samples(SampleList out) {
  for (const Shape& shape : {Shape(), Shape({0}), Shape({7}), Shape({3, 2})})
    sample(out, {positions(shape, 4, 0)}, [](const std::vector<Tensor>& in) {
      return run(check_range_op, {in[0]}, RangeOptions{-4, 3, "x"});
    });
}
[[gnu::cold]] void one_hot_samples(SampleList out) {
  for (const Shape& shape : {Shape(), Shape({0}), Shape({3}), Shape({2, 2})})
    sample(out, {positions(shape, 5, 0) % 5},
           [](const std::vector<Tensor>& in) { return one_hot(in[0], 5, DType::float64); });
}
constexpr Op take_entry(std::string_view name, Samples samples, const char* argument_names) {
  return {.name = name,
          .arity = 2,
          .shape = take_shape,
          .options = &options_type<AxisOptions>,
          .check = axis_fits<AxisOptions>,
          .needs = {{need_input(1)}},
          .contiguous_inputs = true,
          .moves = true,
          .samples = samples,
          .argument_names = argument_names,
          .layer = "Embedding"};
}
}  // namespace

constinit Op take_op = take_entry("take", take_samples, "x, indices");
constinit Op lookup_op = take_entry("lookup", lookup_samples, "table, rows");
constinit Op scatter_op{.name = "scatter",
                        .arity = 2,
                        .shape = scatter_shape,
                        .options = &options_type<UnTakeOptions>,
                        .check = place_fits,
                        .needs = {{need_input(1)}},
                        .contiguous_inputs = true,
                        .accumulates = true,
                        .moves = true,
                        .internal = true,
                        .samples = scatter_samples,
                        .argument_names = "updates, indices"};
constinit Op gather_op{.name = "gather",
                       .arity = 2,
                       .shape = gather_shape,
                       .options = &options_type<AxisOptions>,
                       .check = axis_fits<AxisOptions>,
                       .needs = {{need_input(1)}},
                       .contiguous_inputs = true,
                       .moves = true,
                       .samples = gather_samples,
                       .argument_names = "x, indices"};
constinit Op scatter_elements_op{.name = "scatter_elements",
                                 .arity = 2,
                                 .shape = scatter_elements_shape,
                                 .options = &options_type<UnTakeOptions>,
                                 .check = place_fits,
                                 .needs = {{need_input(1)}},
                                 .contiguous_inputs = true,
                                 .accumulates = true,
                                 .moves = true,
                                 .internal = true,
                                 .samples = scatter_elements_samples,
                                 .argument_names = "updates, indices"};
constinit Op flat_positions_op{.name = "flat_positions",
                               .arity = -1,
                               .shape = flat_positions_shape,
                               .options = &options_type<ShapeOptions>,
                               .check = lengths_fit,
                               .differentiable = false,
                               .contiguous_inputs = true,
                               .internal = true,
                               .samples = flat_positions_samples,
                               .argument_names = "indices"};
constinit Op check_range_op{.name = "check_range",
                            .shape = check_range_shape,
                            .options = &options_type<RangeOptions>,
                            .check = range_fits,
                            .differentiable = false,
                            .contiguous_inputs = true,
                            .internal = true,
                            .samples = check_range_samples,
                            .argument_names = "x"};
constinit Op one_hot_op{.name = "one_hot",
                        .shape = one_hot_shape,
                        .options = &options_type<OneHotOptions>,
                        .check = any_options,
                        .differentiable = false,
                        .contiguous_inputs = true,
                        .samples = one_hot_samples,
                        .argument_names = "indices"};

namespace {
Tensor take_by(Op& op, const Operand& x, const Operand& indices, int axis) {
  const std::size_t rank = shape_of(op, x).rank();
  return run(op, {x, indices}, AxisOptions{normal_axis(op, axis, rank, x.caller())});
}
}  // namespace
Tensor take(Operand x, Operand indices, AxisNumber axis) {
  return take_by(take_op, x, indices, axis);
}
Tensor lookup(Operand table, Operand rows) { return take_by(lookup_op, table, rows, 0); }
Tensor gather(Operand x, Operand indices, AxisNumber axis) {
  const std::size_t rank = shape_of(gather_op, x).rank();
  return run(gather_op, {x, indices}, AxisOptions{normal_axis(gather_op, axis, rank, x.caller())});
}
Tensor pick(Operand x, Operand indices, AxisNumber axis) {
  const FunctionScope scope(x.caller(), "pick");
  const Shape& shape = shape_of(gather_op, x);
  const std::int64_t at = normal_axis(gather_op, axis, shape.rank(), x.caller());
  Shape lines = shape;
  lines.resize(shape.rank() - 1);
  std::copy(shape.begin() + at + 1, shape.end(), lines.data() + at);
  const Shape& given = shape_of(gather_op, indices, 1);
  if (!(given == lines))
    fail<ShapeError>(x.caller(), "pick", "indices",
                     "shape " + to_text(lines) + ", as x has without axis " + to_text(at),
                     to_text(given));
  const int along = static_cast<int>(at);
  return squeeze(gather(x, expand_dims(indices, along), along), along);
}
Tensor checked_integers(std::string_view function, const char* argument, const Tensor& x,
                        std::int64_t least, std::int64_t most, Caller caller) {
  const FunctionScope scope(caller, function);
  return run(check_range_op, {{x, caller}}, RangeOptions{least, most, argument});
}
Tensor one_hot(Operand indices, Extent depth, DType dtype) {
  return run(one_hot_op, {indices}, OneHotOptions{depth.value, dtype});
}

const Entry gather_ops[] = {&take_op,    &lookup_op,           &scatter_op,
                            &gather_op,  &scatter_elements_op, &flat_positions_op,
                            &one_hot_op, &check_range_op,      nullptr};
}  // namespace reel
