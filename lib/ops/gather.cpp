// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/gather.hpp>

#include <string>

#include <reel/ops.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
namespace {
void require_axis(const Inference& call, const Shape& shape, std::int64_t axis) {
  normal_axis(call.op, axis, shape.rank(), call.caller);
}

/// x's shape with the axis replaced by the axes of the positions.
Shape taken(const Inference& call, const Shape& x, const Shape& indices, std::int64_t axis) {
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

void take_shape(Inference& call) {
  const std::int64_t axis = call.option<AxisOptions>().axis;
  require_axis(call, call.input(0).shape, axis);
  require_integer(call, 1);
  call.output(call.input(0).dtype, taken(call, call.input(0).shape, call.input(1).shape, axis));
}
void scatter_shape(Inference& call) {
  const auto& option = call.option<UnTakeOptions>();
  require_axis(call, option.shape, option.axis);
  require_integer(call, 1);
  const Shape expected = taken(call, option.shape, call.input(1).shape, option.axis);
  if (!(call.input(0).shape == expected))
    fail<ShapeError>(call.caller, call.op.name, "updates", "shape " + to_text(expected),
                     to_text(call.input(0).shape));
  call.output(call.input(0).dtype, option.shape);
}

/// Positions of x's rank, whose other axes are no longer than x's.
void require_inside(const Inference& call, const Shape& x, const Shape& indices,
                    std::int64_t axis) {
  bool fits = x.rank() == indices.rank();
  for (std::size_t i = 0; fits && i < x.rank(); ++i)
    fits = static_cast<std::int64_t>(i) == axis || indices.data()[i] <= x.data()[i];
  if (!fits)
    fail<ShapeError>(call.caller, call.op.name, "indices",
                     "within shape " + to_text(x) + " but for axis " + std::to_string(axis),
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
  require_axis(call, option.shape, option.axis);
  require_integer(call, 1);
  require_inside(call, option.shape, call.input(1).shape, option.axis);
  if (!(call.input(0).shape == call.input(1).shape))
    fail<ShapeError>(call.caller, call.op.name, "updates",
                     "the shape of indices " + to_text(call.input(1).shape),
                     to_text(call.input(0).shape));
  call.output(call.input(0).dtype, option.shape);
}
void one_hot_shape(Inference& call) {
  const auto& option = call.option<OneHotOptions>();
  require_integer(call, 0);
  if (option.depth < 0)
    fail<ShapeError>(call.caller, call.op.name, "depth", "a length of at least 0",
                     std::to_string(option.depth));
  Shape shape = call.input(0).shape;
  if (shape.rank() == Shape::max_rank)
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 0), "at most 7 axes",
                     to_text(shape));
  shape.resize(shape.rank() + 1);
  shape.data()[shape.rank() - 1] = option.depth;
  call.output(option.dtype, shape);
}

Tensor positions(const Shape& shape, std::int64_t length, int seed) {
  Tensor x = (arange(0, shape.elements()) * 7 + seed) % length;
  return reshape(x - where(x % 2 == 0, length, 0), shape);  // half of them from the end
}

void take_samples(SampleList out) {
  for (const Shape& shape : {Shape(), Shape({0}), Shape({4}), Shape({2, 3})})
    for (int axis : {0, -1})
      for (const auto layout :
           {Layout::plain, Layout::transposed, Layout::stepped, Layout::repeated})
        sample(out, {drawn({4, 4}, layout), positions(shape, 4, axis + 1)},
               [axis](const std::vector<Tensor>& in) { return take(in[0], in[1], axis); });
  sample(out, {drawn({1, 3}), positions({2}, 1, 0)},
         [](const std::vector<Tensor>& in) { return take(in[0], in[1]); });
}
void gather_samples(SampleList out) {
  for (const Shape& shape : {Shape({4, 4}), Shape({2, 3}), Shape({0, 4}), Shape({1, 1})})
    for (int axis : {0, 1})
      for (const auto layout : {Layout::plain, Layout::transposed, Layout::reversed})
        sample(out, {drawn({4, 4}, layout), positions(shape, 4, axis)},
               [axis](const std::vector<Tensor>& in) { return gather(in[0], in[1], axis); });
  sample(out, {drawn({1, 3}), positions({2, 3}, 1, 0)},
         [](const std::vector<Tensor>& in) { return gather(in[0], in[1], 0); });
}
void scatter_samples(SampleList out) {
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
void scatter_elements_samples(SampleList out) {
  for (const Shape& shape : {Shape({4, 4}), Shape({2, 3}), Shape({0, 4}), Shape({1, 1})})
    for (int axis : {0, 1})
      for (const auto layout : {Layout::plain, Layout::reversed})
        sample(out, {drawn(shape, layout), positions(shape, 4, axis)},
               [axis](const std::vector<Tensor>& in) {
                 return run(scatter_elements_op, {in[0], in[1]}, UnTakeOptions{{4, 4}, axis});
               });
}
void one_hot_samples(SampleList out) {
  for (const Shape& shape : {Shape(), Shape({0}), Shape({3}), Shape({2, 2})})
    sample(out, {positions(shape, 5, 0) % 5},
           [](const std::vector<Tensor>& in) { return one_hot(in[0], 5, DType::float64); });
}
}  // namespace

constinit Op take_op{.name = "take",
                     .arity = 2,
                     .shape = take_shape,
                     .options = &options_type<AxisOptions>,
                     .needs = {{need_input(1)}},
                     .contiguous_inputs = true,
                     .moves = true,
                     .samples = take_samples,
                     .argument_names = "x, indices"};
constinit Op scatter_op{.name = "scatter",
                        .arity = 2,
                        .shape = scatter_shape,
                        .options = &options_type<UnTakeOptions>,
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
                       .needs = {{need_input(1)}},
                       .contiguous_inputs = true,
                       .moves = true,
                       .samples = gather_samples,
                       .argument_names = "x, indices"};
constinit Op scatter_elements_op{.name = "scatter_elements",
                                 .arity = 2,
                                 .shape = scatter_elements_shape,
                                 .options = &options_type<UnTakeOptions>,
                                 .needs = {{need_input(1)}},
                                 .contiguous_inputs = true,
                                 .accumulates = true,
                                 .moves = true,
                                 .internal = true,
                                 .samples = scatter_elements_samples,
                                 .argument_names = "updates, indices"};
constinit Op one_hot_op{.name = "one_hot",
                        .shape = one_hot_shape,
                        .options = &options_type<OneHotOptions>,
                        .differentiable = false,
                        .contiguous_inputs = true,
                        .samples = one_hot_samples,
                        .argument_names = "indices"};

Tensor take(Operand x, Operand indices, int axis) {
  const std::size_t rank = shape_of(take_op, x).rank();
  return run(take_op, {x, indices}, AxisOptions{normal_axis(take_op, axis, rank, x.caller())});
}
Tensor gather(Operand x, Operand indices, int axis) {
  const std::size_t rank = shape_of(gather_op, x).rank();
  return run(gather_op, {x, indices}, AxisOptions{normal_axis(gather_op, axis, rank, x.caller())});
}
Tensor scatter_add(Operand x, Operand indices, Operand updates, int axis) try {
  const Caller caller = x.caller();
  const FunctionScope scope(caller, "scatter_add");
  const Shape shape = shape_of(take_op, x);
  const DType own = dtype_of(take_op, x), given = dtype_of(scatter_op, updates);
  if (is_floating(given) && !is_floating(own))
    fail<DTypeError>(caller, "scatter_add", "updates",
                     "no fractions, as x is " + std::string(name_of(own)), name_of(given),
                     "Convert x first: x.to(...).");
  // Summed in the dtype of the result: small integers would wrap around.
  const DType common = promoted(own, given);
  const Tensor wide = given == common ? Tensor() : cast(updates, common);
  const UnTakeOptions place{shape, normal_axis(scatter_op, axis, shape.rank(), caller)};
  const Tensor sums =
      run(scatter_op, {given == common ? updates : Operand(wide, caller), indices}, place);
  return add(x, Operand(sums, caller));
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "scatter_add");
}
Tensor one_hot(Operand indices, Extent depth, DType dtype) try {
  return run(one_hot_op, {indices}, OneHotOptions{depth.value, dtype});
} catch (const std::bad_alloc&) {
  fail_memory(indices.caller(), "one_hot");
}

const Entry gather_ops[] = {&take_op,    &scatter_op, &gather_op, &scatter_elements_op,
                            &one_hot_op, nullptr};
}  // namespace reel
