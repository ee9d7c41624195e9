// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/scatter.hpp>

#include <limits>
#include <string>

#include <reel/ops.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/gather.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
namespace {
void scatter_select_shape(Inference& call) {
  const Shape& x = call.input(0).shape;
  const std::int64_t axis = call.option<AxisOptions>().axis;
  normal_axis(call.op, axis, x.rank(), call.caller);
  require_integer(call, 2);
  if (!call.op.moves) require_arithmetic(call, 0);
  if (const DType dtype = call.input(0).dtype; !call.op.moves && size_of(dtype) == 1)
    fail<DTypeError>(call.caller, call.op.name, "x", "int32, int64 or a floating dtype",
                     name_of(dtype));
  const Shape expected = taken_shape(call, x, call.input(2).shape, axis);
  if (!(call.input(1).shape == expected))
    fail<ShapeError>(call.caller, call.op.name, "updates", "shape " + to_text(expected),
                     to_text(call.input(1).shape));
  call.output(call.input(0).dtype, x);
}

void select_samples(SampleList out, Tensor (*f)(Operand, Operand, Operand, AxisNumber), Draw x) {
  for (const auto& [shape, axis] :
       {std::pair<Shape, int>({3}, 0), {{1}, 1}, {{2, 2}, -1}, {{7}, 0}, {{0}, 0}, {{}, 1}})
    for (const auto layout : {Layout::plain, Layout::transposed, Layout::reversed}) {
      Shape updates = shape;
      updates.resize(shape.rank() + 1);
      const std::size_t at = axis == 0 ? shape.rank() : 0;
      for (std::size_t i = 0; i < shape.rank(); ++i)
        updates.data()[at ? i : i + 1] = shape.data()[i];
      updates.data()[at] = axis == 0 ? 5 : 4;
      if (updates.rank() < 2 && layout == Layout::transposed) continue;
      const std::int64_t length = axis == 0 ? 4 : 5;
      Tensor places = (arange(0, shape.elements()) * 7 + 2) % length;
      places = reshape(places - where(places % 2 == 0, length, 0), shape);
      sample(
          out, {drawn({4, 5}, layout, x), drawn(updates, layout, x, 1), places},
          [f, axis = axis](const std::vector<Tensor>& in) { return f(in[0], in[2], in[1], axis); });
    }
}
constexpr std::uint16_t every = need_input(0) | need_input(1) | need_input(2) | need_output();
}  // namespace

constinit Op scatter_assign_op{.name = "scatter_assign",
                               .arity = 3,
                               .shape = scatter_select_shape,
                               .promote = Promote::numeric,
                               .promoted = 0b011,
                               .options = &options_type<AxisOptions>,
                               .check = axis_fits<AxisOptions>,
                               .needs = {{need_input(2), need_input(2)}},
                               .contiguous_inputs = true,
                               .moves = true,
                               .internal = true,
                               .samples = [](SampleList out) { select_samples(out, scatter, {}); },
                               .argument_names = "x, updates, indices"};
namespace {
constexpr Op extreme_scatter(std::string_view name, void (*samples)(SampleList)) {
  return {.name = name,
          .arity = 3,
          .shape = scatter_select_shape,
          .promote = Promote::numeric,
          .promoted = 0b011,
          .options = &options_type<AxisOptions>,
          .check = axis_fits<AxisOptions>,
          .needs = {{every, every}},
          .contiguous_inputs = true,
          .samples = samples,
          .argument_names = "x, updates, indices"};
}
}  // namespace
constinit Op scatter_max_op =
    extreme_scatter("scatter_max", [](SampleList out) { select_samples(out, scatter_max, {}); });
constinit Op scatter_min_op =
    extreme_scatter("scatter_min", [](SampleList out) { select_samples(out, scatter_min, {}); });

namespace {
void require_dtype(std::string_view name, const Operand& x, const Operand& updates) {
  const DType own = dtype_of(take_op, x), given = dtype_of(scatter_op, updates);
  if (is_floating(given) && !is_floating(own))
    fail<DTypeError>(x.caller(), name, "updates", "no fractions, as x is " + Text(name_of(own)),
                     name_of(given), "Convert x first: x.to(...).");
}
/// Calls f(); errors name this public function.
template <class F>
Tensor named(std::string_view name, const Operand& x, const F& f) {
  const FunctionScope scope(x.caller(), name);
  return f();
}
Tensor select(Op& op, std::string_view name, const Operand& x, const Operand& indices,
              const Operand& updates, int axis) {
  return named(name, x, [&] {
    const AxisOptions place{normal_axis(op, axis, shape_of(op, x).rank(), x.caller())};
    require_dtype(name, x, updates);
    const DType common = promoted(dtype_of(op, x), dtype_of(op, updates, 1));
    if (op.moves || size_of(common) > 1 || !has_arithmetic(common))
      return run(op, {x, updates, indices}, place);
    // GPUs have no atomic operations on single bytes.
    const Tensor wide_x = cast(x, DType::int32), wide_updates = cast(updates, DType::int32);
    return cast(run(op, {wide_x, wide_updates, indices}, place), common);
  });
}
/// `start` plus the number of updates of each position of an axis, in `dtype`. Integers are
/// counted, so there is no rounding error.
Tensor counts_of(const Tensor& indices, std::int64_t length, std::int64_t start, DType dtype) {
  const Tensor places = reshape(indices, {indices.size()});
  return cast(scatter_add(full({length}, start), places, ones(places.shape(), DType::int64)),
              dtype);
}
/// One number for each position along an axis of x, to broadcast with x.
Tensor along_axis(const Tensor& numbers, const Shape& x, int axis) {
  Shape shape;
  const auto rank = static_cast<int>(x.rank());
  shape.resize(static_cast<std::size_t>(axis < 0 ? -axis : rank - axis));
  shape.data()[0] = numbers.size();
  return reshape(numbers, shape);
}
}  // namespace

Tensor scatter(Operand x, Operand indices, Operand updates, AxisNumber axis) {
  return select(scatter_assign_op, "scatter", x, indices, updates, axis);
}
Tensor scatter_max(Operand x, Operand indices, Operand updates, AxisNumber axis) {
  return select(scatter_max_op, "scatter_max", x, indices, updates, axis);
}
Tensor scatter_min(Operand x, Operand indices, Operand updates, AxisNumber axis) {
  return select(scatter_min_op, "scatter_min", x, indices, updates, axis);
}
Tensor scatter_add(Operand x, Operand indices, Operand updates, AxisNumber axis) {
  const Caller caller = x.caller();
  const FunctionScope scope(caller, "scatter_add");
  const Shape shape = shape_of(take_op, x);
  const DType own = dtype_of(take_op, x), given = dtype_of(scatter_op, updates);
  if (is_floating(given) && !is_floating(own))
    fail<DTypeError>(caller, "scatter_add", "updates",
                     "no fractions, as x is " + Text(name_of(own)), name_of(given),
                     "Convert x first: x.to(...).");
  // Summed in the dtype of the result, because small integers would wrap around.
  const DType common = promoted(own, given);
  const Tensor wide = given == common ? Tensor() : cast(updates, common);
  const UnTakeOptions place{shape, normal_axis(scatter_op, axis, shape.rank(), caller)};
  const Tensor sums =
      run(scatter_op, {given == common ? updates : Operand(wide, caller), indices}, place);
  return add(x, Operand(sums, caller));
}
Tensor scatter_mean(Operand x, Operand indices, Operand updates, AxisNumber axis) {
  return named("scatter_mean", x, [&] {
    require_dtype("scatter_mean", x, updates);
    const bool floats = is_floating(dtype_of(take_op, x));
    const Tensor sums = floats ? scatter_add(x, indices, updates, axis)
                               : scatter_add(cast(x, DType::float32), indices, updates, axis);
    const DeviceScope device(sums.device());
    const Tensor counts = counts_of(indices.value(), sums.shape(axis), 1, sums.dtype());
    return sums / along_axis(counts, sums.shape(), axis);
  });
}

namespace {
/// f(x, a tensor of `count` segments with this number) after checks, on the device of x.
template <class F>
Tensor over_segments(std::string_view name, const Operand& x, const Operand& ids, Extent count,
                     const F& f) {
  return named(name, x, [&] {
    const Tensor values = x.value();
    const Shape& shape = values.shape();
    if (shape.rank() == 0) fail<ShapeError>(x.caller(), name, "x", "at least one axis", "()");
    if (!(shape_of(take_op, ids, 1) == Shape({shape[0]})))
      fail<ShapeError>(x.caller(), name, "ids", to_text(Shape({shape[0]})),
                       to_text(shape_of(take_op, ids, 1)));
    if (count.value < 0)
      fail<ShapeError>(x.caller(), name, "count", "at least 0", to_text(count.value));
    const DeviceScope device(values.device());
    Shape segments = shape;
    segments.data()[0] = count.value;
    const RangeOptions range{0, count.value - 1, "ids"};
    return f(values, run(check_range_op, {ids}, range), segments);
  });
}
/// The largest (sign 1) or smallest number of a dtype: the minimum or maximum of no elements.
Tensor segment_extreme(const Tensor& x, const Tensor& ids, const Shape& segments, bool largest) {
  const DType dtype = x.dtype();
  const auto start = [&]() -> Tensor {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (is_floating(dtype)) return full(segments, largest ? -infinity : infinity, dtype);
    if (dtype == DType::boolean || !has_arithmetic(dtype)) return full(segments, !largest);
    return kernels::with_integers(dtype, [&]<class T>(Type<T>) {
      using Limits = std::numeric_limits<T>;
      return full(segments, static_cast<std::int64_t>(largest ? Limits::min() : Limits::max()),
                  dtype);
    });
  };
  return largest ? scatter_max(start(), ids, x) : scatter_min(start(), ids, x);
}
Tensor sums_of(const Tensor& x, const Tensor& ids, const Shape& segments) {
  return scatter_add(zeros(segments, is_floating(x.dtype()) ? x.dtype() : DType::int64), ids, x);
}
Tensor floating(const Tensor& x) { return is_floating(x.dtype()) ? x : cast(x, DType::float32); }
}  // namespace

Tensor segment_sum(Operand x, Operand ids, Extent count) {
  return over_segments("segment_sum", x, ids, count, sums_of);
}
Tensor segment_mean(Operand x, Operand ids, Extent count) {
  return over_segments("segment_mean", x, ids, count,
                       [](const Tensor& given, const Tensor& places, const Shape& segments) {
                         const Tensor values = floating(given);
                         const Tensor sums = sums_of(values, places, segments);
                         const Tensor counts = counts_of(places, segments[0], 0, values.dtype());
                         return sums / along_axis(maximum(counts, 1), segments, 0);
                       });
}
Tensor segment_max(Operand x, Operand ids, Extent count) {
  return over_segments("segment_max", x, ids, count,
                       [](const Tensor& values, const Tensor& places, const Shape& segments) {
                         return segment_extreme(values, places, segments, true);
                       });
}
Tensor segment_min(Operand x, Operand ids, Extent count) {
  return over_segments("segment_min", x, ids, count,
                       [](const Tensor& values, const Tensor& places, const Shape& segments) {
                         return segment_extreme(values, places, segments, false);
                       });
}
Tensor segment_softmax(Operand x, Operand ids, Extent count) {
  return over_segments("segment_softmax", x, ids, count,
                       [](const Tensor& given, const Tensor& places, const Shape& segments) {
                         const Tensor values = floating(given);
                         const Tensor largest =
                             segment_extreme(stop_gradient(values), places, segments, true);
                         const Tensor powers = exp(values - take(largest, places));
                         return powers / take(sums_of(powers, places, segments), places);
                       });
}

const Entry scatter_ops[] = {&scatter_assign_op, &scatter_max_op, &scatter_min_op, nullptr};
}  // namespace reel
