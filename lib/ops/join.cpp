// SPDX-License-Identifier: BSD-3-Clause
// Parts of tensors, and tensors of parts.
#include <reel/ops/reshape.hpp>

#include <algorithm>
#include <bit>

#include <reel/ops/arithmetic.hpp>
#include <reel/ops/create.hpp>

#include "lib/body/room.hpp"
#include "lib/body/slice.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/gate/observed_call.hpp"
#include "lib/gate/recording.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/join.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
namespace {
void slice_shape(Inference& call) {
  const Body& x = call.input(0);
  const SliceOptions& slice = call.option<SliceOptions>();
  Slicer slicer(x, call.view());
  for (int axis = 0; axis < x.rank(); ++axis) {
    while (slice.added >> slicer.rank() & 1) slicer.add();
    const std::int64_t start = slice.starts.data()[axis];
    if (slice.dropped >> axis & 1)
      slicer.drop(start);
    else
      slicer.keep(start, slice.lengths.data()[axis], slice.steps.data()[axis]);
  }
  while (slice.added >> slicer.rank() & 1) slicer.add();
  slicer.finish();
}

/// The part has the slice's shape and the Variable's dtype.
void assign_slice_shape(Inference& call) {
  const auto& place = call.option<PlaceOptions>();
  if (!(call.input(1).shape == place.lengths))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                     "the slice's shape " + to_text(place.lengths), to_text(call.input(1).shape));
}

void unslice_shape(Inference& call) {
  const auto& option = call.option<UnsliceOptions>();
  if (!(call.input(0).shape == option.slice.lengths))
    fail<ShapeError>(call.caller, call.op.name, "x",
                     "the slice's shape " + to_text(option.slice.lengths),
                     to_text(call.input(0).shape));
  call.output(call.input(0).dtype, option.shape);
}

void concat_shape(Inference& call) {
  const auto axis = static_cast<std::size_t>(call.option<AxisOptions>().axis);
  Shape shape = call.input(0).shape;
  for (int i = 1; i < call.input_count; ++i) {
    const Shape& part = call.input(i).shape;
    bool fits = part.rank() == shape.rank();
    for (std::size_t k = 0; fits && k < part.rank(); ++k)
      fits = k == axis || part.data()[k] == shape.data()[k];
    if (!fits)
      fail<ShapeError>(
          call.caller, call.op.name, "part " + to_text(i),
          "the shape of part 0 " + to_text(call.input(0).shape) + " but for axis " + to_text(axis),
          to_text(part));
    shape.data()[axis] += part.data()[axis];
    count_elements(shape, call.op.name, call.caller);
  }
  call.output(call.input(0).dtype, shape);
}

/// Whether a slice is inside of a tensor of this shape.
bool slice_fits(const SliceOptions& slice, const Shape& shape) {
  const std::size_t rank = shape.rank();
  if (slice.starts.rank() != rank || slice.lengths.rank() != rank || slice.steps.rank() != rank)
    return false;
  // Steps over strides of the whole must not overflow, whatever is not stepped to.
  const std::int64_t most = (std::int64_t{1} << 60) / std::max<std::int64_t>(shape.elements(), 1);
  for (std::size_t a = 0; a < rank; ++a) {
    const std::int64_t start = slice.starts.data()[a], length = slice.lengths.data()[a],
                       step = slice.steps.data()[a];
    const bool gone = slice.dropped >> a & 1;
    if (length < 0 || (gone && length != 1) || step > most || step < -most || start < -1 ||
        start > shape.data()[a] || !are_inside(start, Shape({length}), &step, shape.data()[a]))
      return false;
  }
  const int kept = static_cast<int>(rank) - std::popcount(slice.dropped),
            made = kept + std::popcount(slice.added);
  return slice.dropped >> rank == 0 && made <= static_cast<int>(Shape::max_rank) &&
         slice.added >> made == 0;
}
const char* part_fits(const Inference& call) {
  return slice_fits(call.option<SliceOptions>(), call.input(0).shape) ? nullptr
                                                                      : "a part of its input";
}
const char* whole_fits(const Inference& call) {
  const auto& [slice, shape] = call.option<UnsliceOptions>();
  return is_shape(shape) && slice.keeps_axes() && slice_fits(slice, shape) ? nullptr
                                                                           : "a part of a shape";
}
const char* strided_part_fits(const Inference& call) {
  const auto& place = call.option<PlaceOptions>();
  return place.lengths.rank() == place.steps.rank() && is_shape(place.lengths) &&
                 are_inside(place.start, place.lengths, place.steps.data(), call.input(0).elements)
             ? nullptr
             : "a part of its Variable";
}

SliceOptions place_of_part(const Shape& shape, std::size_t axis, std::int64_t start,
                           std::int64_t length) {
  SliceOptions slice = whole_slice(shape);
  slice.starts.data()[axis] = start;
  slice.lengths.data()[axis] = length;
  return slice;
}

/// A slice along one axis without options to record.
Tensor part_of(Context& context, const Operand& x, Body& whole, std::size_t axis,
               std::int64_t start, std::int64_t length) {
  Body* part = allocate_view(context, &whole);
  if (!part) fail<MemoryError>(x.caller(), slice_op.name, "result", "memory for a view", "none");
  Slicer slicer(whole, *part);
  for (std::size_t i = 0; i < axis; ++i) slicer.keep_whole();
  slicer.keep(start, length, 1);
  for (std::size_t i = axis + 1; i < whole.shape.rank(); ++i) slicer.keep_whole();
  slicer.finish();
  return Access::adopt(part);
}
/// Makes the parts one after the other.
template <class LengthOf>
std::vector<Tensor> parts_of(const Operand& whole, std::size_t axis, std::size_t count,
                             LengthOf length_of) {
  const Operand x(whole);  // a copy is no temporary: no part's record may take it over
  Context& context = Context::here();
  Body* const body = body_of(x);
  const bool fast = body && !slice_op.composite;
  auto parts = room_for<Tensor>(count, whole.caller(), "split");
  std::int64_t start = 0;
  if (fast && !context.dispatch_flags()) {
    for (std::size_t i = 0; i < count; start += length_of(i++))
      parts.push_back(part_of(context, x, *body, axis, start, length_of(i)));
    return parts;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t length = length_of(i);
    const auto at_once = [&](const auto& begin) {
      Tensor part = part_of(context, x, *body, axis, start, length);
      begin();
      return part;
    };
    Tensor part = fast ? short_cut(context, slice_op, at_once, x) : Tensor();
    parts.push_back(part.defined()
                        ? std::move(part)
                        : slice(x, place_of_part(shape_of(slice_op, x), axis, start, length)));
    start += length;
  }
  return parts;
}

void slice_samples(SampleList out) {
  samples_of(out, 1, [](const std::vector<Tensor>& in) {
    const std::int64_t length = in[0].shape()[0];
    SliceOptions backwards = place_of_part(in[0].shape(), 0, 0, (length + 1) / 2);
    backwards.starts.data()[0] = std::max<std::int64_t>(0, length - 1);
    backwards.steps.data()[0] = -2;
    return slice(in[0], backwards);
  });
  samples_of(out, 1, [](const std::vector<Tensor>& in) {
    return slice(in[0], place_of_part(in[0].shape(), 0, 0, in[0].shape()[0] / 2));
  });
}
void unslice_samples(SampleList out) {
  samples_of(out, 1, [](const std::vector<Tensor>& in) {
    UnsliceOptions options{place_of_part(in[0].shape(), 0, 1, in[0].shape()[0]), in[0].shape()};
    options.shape.data()[0] += 2;
    return run(unslice_op, {in[0]}, options);
  });
}
void concat_samples(SampleList out) {
  samples_of(out, 1, [](const std::vector<Tensor>& in) {
    return concat({in[0], in[0] * 2, in[0]}, 0);
  });
  samples_of(out, 1, [](const std::vector<Tensor>& in) { return concat({in[0], in[0]}, -1); });
}
}  // namespace

constinit Op slice_op{.name = "slice",
                      .shape = slice_shape,
                      .options = &options_type<SliceOptions>,
                      .check = part_fits,
                      .fusion = Fusion::layout,
                      .moves = true,
                      .internal = true,
                      .samples = slice_samples};
constinit Op unslice_op{.name = "unslice",
                        .shape = unslice_shape,
                        .options = &options_type<UnsliceOptions>,
                        .check = whole_fits,
                        .accumulates = true,
                        .moves = true,
                        .internal = true,
                        .samples = unslice_samples};
constinit Op assign_slice_op{.name = "assign_slice",
                             .arity = 2,
                             .shape = assign_slice_shape,
                             .promoted = 0b10,
                             .options = &options_type<PlaceOptions>,
                             .check = strided_part_fits,
                             .updates = true,
                             .moves = true,
                             .internal = true,
                             .argument_names = "variable, value"};
constinit Op concat_op{.name = "concat",
                       .arity = -1,
                       .shape = concat_shape,
                       .promote = Promote::numeric,
                       .options = &options_type<AxisOptions>,
                       .check = axis_fits<AxisOptions>,
                       .moves = true,
                       .samples = concat_samples,
                       .argument_names = "part"};

Tensor slice(const Operand& x, const SliceOptions& options) { return run(slice_op, x, options); }
Tensor concat(Operands parts, AxisNumber axis) {
  if (parts.size() == 0)
    fail<ShapeError>(parts.caller(), concat_op.name, "parts", "at least one tensor", "none");
  const std::size_t rank = shape_of(concat_op, parts[0]).rank();
  return run(concat_op, parts, AxisOptions{normal_axis(concat_op, axis, rank, parts.caller())});
}
Tensor stack(Operands parts, AxisNumber axis) try {
  const FunctionScope scope(parts.caller(), "stack");
  if (parts.size() == 0)
    fail<ShapeError>(parts.caller(), "stack", "parts", "at least one tensor", "none");
  SmallVector<Operand, 8> operands;
  SmallVector<Body*, 8> bodies;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Operand part = parts[i];
    if (!(shape_of(concat_op, part, static_cast<int>(i)) == shape_of(concat_op, parts[0])))
      fail<ShapeError>(parts.caller(), "stack", "part " + to_text(i),
                       "the shape of part 0 " + to_text(shape_of(concat_op, parts[0])),
                       to_text(shape_of(concat_op, part)));
    operands.push_back(part);
    bodies.push_back(body_of(part));
  }
  // Numbers get the dtype of the tensors before they are turned into tensors.
  const DType common = common_dtype(concat_op, {operands.data(), operands.size()}, bodies.data());
  std::vector<Tensor> wide;
  wide.reserve(parts.size());
  const auto tensor = std::find_if(operands.begin(), operands.end(), body_of);
  const PlaceScope place(Context::here(), tensor == operands.end() ? operands[0] : *tensor);
  for (const Operand& part : operands) {
    const bool number = part.kind() == Operand::Kind::scalar;
    wide.push_back(expand_dims(
        number ? Operand(full({}, part.scalar(), {common}, parts.caller())) : part, axis.value));
  }
  return concat(Operands(wide, parts.caller()), axis);
} catch (const std::bad_alloc&) {
  fail_memory(parts.caller(), "stack");
}

std::vector<Tensor> split(Operand x, std::span<const std::int64_t> lengths, AxisNumber axis) {
  const FunctionScope scope(x.caller(), "split");
  const Shape& shape = shape_of(slice_op, x);
  const auto along =
      static_cast<std::size_t>(normal_axis(slice_op, axis, shape.rank(), x.caller()));
  std::int64_t rest = shape.data()[along];
  for (std::int64_t length : lengths) rest = length < 0 || rest < length ? -1 : rest - length;
  if (rest != 0)
    fail<ShapeError>(x.caller(), "split", "lengths",
                     "lengths that add up to " + to_text(shape.data()[along]),
                     rest < 0 ? "more" : to_text(rest) + " less");
  return parts_of(x, along, lengths.size(), [&](std::size_t i) { return lengths[i]; });
}
std::vector<Tensor> split(Operand x, CountNumber parts, AxisNumber axis) {
  const FunctionScope scope(x.caller(), "split");
  const Shape& shape = shape_of(slice_op, x);
  const auto along =
      static_cast<std::size_t>(normal_axis(slice_op, axis, shape.rank(), x.caller()));
  if (parts <= 0 || shape.data()[along] % parts != 0)
    fail<ShapeError>(x.caller(), "split", "parts",
                     "a number that divides the length " + to_text(shape.data()[along]),
                     to_text(parts.value));
  const std::int64_t length = shape.data()[along] / parts;
  return parts_of(x, along, static_cast<std::size_t>(parts), [&](std::size_t) { return length; });
}

const Entry join_ops[] = {&slice_op, &unslice_op, &assign_slice_op, &concat_op, nullptr};
}  // namespace reel
