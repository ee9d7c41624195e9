// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/reshape.hpp>

#include <algorithm>

#include <reel/ops/arithmetic.hpp>

#include "lib/dispatch/gate.hpp"
#include "lib/dispatch/op_options.hpp"
#include "lib/dispatch/recording.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
/// Strides with which x's elements can be seen in another shape; false if only a copy can.
bool strides_in_shape(const Body& x, const Shape& shape, std::int64_t* strides) {
  int own = 0;
  const int rank = x.rank(), new_rank = static_cast<int>(shape.rank());
  if (x.elements == 0) {
    std::fill_n(strides, new_rank, 0);
    return true;
  }
  for (int axis = 0; axis < new_rank;) {
    // The next axes of both sides that hold the same elements.
    std::int64_t seen = shape.data()[axis], held = own < rank ? x.shape.data()[own] : 1;
    int last = axis, last_own = own;
    while (seen != held) {
      if (seen < held)
        seen *= shape.data()[++last];
      else
        held *= x.shape.data()[++last_own];
    }
    std::int64_t step = 1;
    bool first = true;
    for (int k = std::min(last_own, rank - 1); k >= own; --k) {
      if (x.shape.data()[k] == 1) continue;
      if (!first && x.strides[k] != step) return false;
      if (first) step = x.strides[k];
      first = false;
      step *= x.shape.data()[k];
    }
    step = first ? 1 : step / held;
    for (int k = last; k >= axis; --k) {
      strides[k] = step;
      step *= shape.data()[k];
    }
    axis = last + 1;
    own = last_own + 1;
  }
  return true;
}

// A view where the layout allows it, else a copy.
void reshape_shape(Inference& call) {
  const Body& x = call.input(0);
  const Shape& shape = call.option<ShapeOptions>().shape;
  Strides strides;
  if (!strides_in_shape(x, shape, strides)) {
    call.output(x.dtype, shape);
    return;
  }
  Body& out = call.view();
  out.shape = shape;
  std::copy_n(strides, shape.rank(), out.strides);
}

void transpose_shape(Inference& call) {
  const Body& x = call.input(0);
  const Axes& axes = call.option<AxesOptions>().axes;
  Body& out = call.view();
  for (int i = 0; i < x.rank(); ++i) {
    out.shape.data()[i] = x.shape.data()[axes[i]];
    out.strides[i] = x.strides[axes[i]];
  }
}

bool has(const Axes& axes, int axis) {
  for (int i = 0; i < axes.count(); ++i)
    if (axes[i] == axis) return true;
  return false;
}

void expand_dims_shape(Inference& call) {
  const Body& x = call.input(0);
  const Axes& axes = call.option<AxesOptions>().axes;
  Body& out = call.view();
  out.shape.resize(x.shape.rank() + static_cast<std::size_t>(axes.count()));
  for (int axis = 0, own = 0; axis < out.rank(); ++axis) {
    const bool added = has(axes, axis);
    out.shape.data()[axis] = added ? 1 : x.shape.data()[own];
    out.strides[axis] = added ? 1 : x.strides[own];
    own += !added;
  }
}

void squeeze_shape(Inference& call) {
  const Body& x = call.input(0);
  const Axes& axes = call.option<AxesOptions>().axes;
  Body& out = call.view();
  std::size_t rank = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (has(axes, axis)) continue;
    out.shape.data()[rank] = x.shape.data()[axis];
    out.strides[rank++] = x.strides[axis];
  }
  out.shape.resize(rank);
}

void broadcast_to_shape(Inference& call) {
  const Body& x = call.input(0);
  const Shape& shape = call.option<ShapeOptions>().shape;
  const int added = static_cast<int>(shape.rank()) - x.rank();
  bool fits = added >= 0;
  for (int axis = 0; fits && axis < x.rank(); ++axis)
    fits = x.shape.data()[axis] == 1 || x.shape.data()[axis] == shape.data()[axis + added];
  for (std::int64_t length : shape) fits &= length >= 0;
  if (!fits)
    fail<ShapeError>(call.caller, call.op.name, "x", "a shape that broadcasts to " + to_text(shape),
                     to_text(x.shape));
  Body& out = call.view();
  out.shape = shape;
  out.elements = count_elements(shape, call.op.name, call.caller);
  for (int axis = 0; axis < static_cast<int>(shape.rank()); ++axis) {
    const int own = axis - added;
    out.strides[axis] = own < 0 || x.shape.data()[own] == 1 ? 0 : x.strides[own];
  }
}

void slice_shape(Inference& call) {
  const Body& x = call.input(0);
  const SliceOptions& slice = call.option<SliceOptions>();
  Body& out = call.view();
  std::int64_t offset = 0;
  int rank = 0;
  out.elements = 1;
  const auto add_axis = [&](std::int64_t length, std::int64_t stride) {
    if (rank == out.rank()) out.shape.resize(out.shape.rank() + 1);
    out.shape.data()[rank] = length;
    out.strides[rank++] = stride;
  };
  for (int axis = 0; axis < x.rank(); ++axis) {
    while (slice.added >> rank & 1) add_axis(1, 1);
    offset += x.strides[axis] * slice.starts.data()[axis];
    out.elements *= slice.lengths.data()[axis];
    if (slice.dropped >> axis & 1) continue;
    add_axis(slice.lengths.data()[axis], x.strides[axis] * slice.steps.data()[axis]);
  }
  while (slice.added >> rank & 1) add_axis(1, 1);
  out.shape.resize(static_cast<std::size_t>(rank));
  out.data += offset * size_of(x.dtype);
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
      fail<ShapeError>(call.caller, call.op.name, "part " + std::to_string(i),
                       "the shape of part 0 " + to_text(call.input(0).shape) + " but for axis " +
                           std::to_string(axis),
                       to_text(part));
    shape.data()[axis] += part.data()[axis];
    count_elements(shape, call.op.name, call.caller);
  }
  call.output(call.input(0).dtype, shape);
}

void cast_shape(Inference& call) {
  call.output(call.option<DTypeOptions>().dtype, call.input(0).shape);
}

/// The shape with -1 replaced by what is left.
Shape completed(const Op& op, const Shape& from, Shape shape, Caller caller) {
  std::int64_t known = 1, elements = from.elements();
  int open = -1;
  bool several = false, overflow = false;
  for (int i = 0; i < static_cast<int>(shape.rank()); ++i) {
    if (shape.data()[i] >= 0) {
      overflow |= __builtin_mul_overflow(known, shape.data()[i], &known);
    } else {
      several |= open >= 0;
      open = i;
    }
  }
  const bool fits = open < 0 ? known == elements : !several && known > 0 && elements % known == 0;
  if (overflow || !fits)
    fail<ShapeError>(
        caller, op.name, "shape",
        "a shape of " + std::to_string(elements) + " elements, as x " + to_text(from) + " has",
        to_text(shape));
  if (open >= 0) shape.data()[open] = elements / known;
  return shape;
}

Tensor changed(Op& op, const Operand& x, const Axes& axes) { return run(op, x, AxesOptions{axes}); }

SliceOptions place_of_part(const Shape& shape, std::size_t axis, std::int64_t start,
                           std::int64_t length) {
  SliceOptions slice{.starts = shape, .lengths = shape, .steps = shape};
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    slice.starts.data()[i] = 0;
    slice.steps.data()[i] = 1;
  }
  slice.starts.data()[axis] = start;
  slice.lengths.data()[axis] = length;
  return slice;
}

/// A slice along one axis; without options to record where nobody listens.
Tensor part_of(const Operand& x, std::size_t axis, std::int64_t start, std::int64_t length) {
  Context& context = Context::here();
  Body* whole = body_of(x);
  if (context.mode || !whole)
    return slice(x, place_of_part(shape_of(slice_op, x), axis, start, length));
  Body* part = allocate_view(context, whole);
  if (!part) fail<MemoryError>(x.caller(), slice_op.name, "result", "memory for a view", "none");
  Tensor result = Access::adopt(part);
  part->shape.data()[axis] = length;
  part->data += start * whole->strides[axis] * size_of(whole->dtype);
  part->elements = 1;
  for (std::int64_t each : part->shape) part->elements *= each;
  part->contiguous = is_row_major(part->shape, part->strides);
  return result;
}

void reshape_samples(SampleList out) {
  samples_of(out, 0, [](const std::vector<Tensor>& in) { return reshape(in[0], {in[0].size()}); });
  samples_of(out, 2, [](const std::vector<Tensor>& in) {
    return reshape(
        in[0], {in[0].shape()[1], 1, in[0].size() / std::max<std::int64_t>(1, in[0].shape()[1])});
  });
}
void transpose_samples(SampleList out) {
  samples_of(out, 0, [](const std::vector<Tensor>& in) { return transpose(in[0]); });
  samples_of(out, 3, [](const std::vector<Tensor>& in) { return transpose(in[0], {1, -1, 0}); });
}
void expand_dims_samples(SampleList out) {
  samples_of(out, 0, [](const std::vector<Tensor>& in) { return expand_dims(in[0], {0, -1}); });
}
void squeeze_samples(SampleList out) {
  samples_of(out, 0,
             [](const std::vector<Tensor>& in) { return squeeze(expand_dims(in[0], 0), 0); });
  samples_of(out, 0, [](const std::vector<Tensor>& in) { return squeeze(in[0]); });
}
void broadcast_to_samples(SampleList out) {
  samples_of(out, 0, [](const std::vector<Tensor>& in) {
    Shape shape = expand_dims(in[0], 0).shape();
    shape.data()[0] = 3;
    return broadcast_to(in[0], shape);
  });
  samples_of(out, 1, [](const std::vector<Tensor>& in) {
    Tensor x = expand_dims(in[0], 1);
    Shape shape = x.shape();
    shape.data()[1] = 2;
    return broadcast_to(x, shape);
  });
}
void slice_samples(SampleList out) {
  samples_of(out, 1, [](const std::vector<Tensor>& in) {
    SliceOptions backwards = place_of_part(in[0].shape(), 0, 0, in[0].shape()[0]);
    backwards.starts.data()[0] = std::max<std::int64_t>(0, in[0].shape()[0] - 1);
    backwards.steps.data()[0] = -1;
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
void cast_samples(SampleList out) {
  samples_of(out, 0, [](const std::vector<Tensor>& in) { return cast(in[0], DType::float64); });
}
}  // namespace

constinit Op reshape_op{.name = "reshape",
                        .shape = reshape_shape,
                        .options = &options_type<ShapeOptions>,
                        .fusion = Fusion::layout,
                        .samples = reshape_samples};
constinit Op transpose_op{.name = "transpose",
                          .shape = transpose_shape,
                          .options = &options_type<AxesOptions>,
                          .fusion = Fusion::layout,
                          .samples = transpose_samples};
constinit Op expand_dims_op{.name = "expand_dims",
                            .shape = expand_dims_shape,
                            .options = &options_type<AxesOptions>,
                            .fusion = Fusion::layout,
                            .samples = expand_dims_samples};
constinit Op squeeze_op{.name = "squeeze",
                        .shape = squeeze_shape,
                        .options = &options_type<AxesOptions>,
                        .fusion = Fusion::layout,
                        .samples = squeeze_samples};
constinit Op broadcast_to_op{.name = "broadcast_to",
                             .shape = broadcast_to_shape,
                             .options = &options_type<ShapeOptions>,
                             .fusion = Fusion::layout,
                             .samples = broadcast_to_samples};
constinit Op slice_op{.name = "slice",
                      .shape = slice_shape,
                      .options = &options_type<SliceOptions>,
                      .fusion = Fusion::layout,
                      .samples = slice_samples};
constinit Op unslice_op{.name = "unslice",
                        .shape = unslice_shape,
                        .options = &options_type<UnsliceOptions>,
                        .accumulates = true,
                        .samples = unslice_samples};
constinit Op concat_op{.name = "concat",
                       .arity = -1,
                       .shape = concat_shape,
                       .promote = Promote::numeric,
                       .options = &options_type<AxisOptions>,
                       .samples = concat_samples};
constinit Op cast_op{.name = "cast",
                     .shape = cast_shape,
                     .options = &options_type<DTypeOptions>,
                     .samples = cast_samples};

Tensor reshape(Operand x, Shape shape) {
  return run(reshape_op, x,
             ShapeOptions{completed(reshape_op, shape_of(reshape_op, x), shape, x.caller())});
}
Tensor transpose(Operand x) {
  const int rank = static_cast<int>(shape_of(transpose_op, x).rank());
  int axes[Shape::max_rank];
  for (int i = 0; i < rank; ++i) axes[i] = rank - 1 - i;
  return changed(transpose_op, x, Axes(std::span<const int>(axes, static_cast<std::size_t>(rank))));
}
Tensor transpose(Operand x, Axes axes) {
  const std::size_t rank = shape_of(transpose_op, x).rank();
  if (axes.is_every()) return transpose(x);
  if (normal_axes(transpose_op, axes, rank, x.caller()).count() != static_cast<int>(rank))
    fail<ShapeError>(x.caller(), transpose_op.name, "axes", std::to_string(rank) + " axes",
                     std::to_string(axes.count()));
  int order[Shape::max_rank];
  for (std::size_t i = 0; i < rank; ++i)
    order[i] =
        static_cast<int>(normal_axis(transpose_op, axes[static_cast<int>(i)], rank, x.caller()));
  return changed(transpose_op, x, Axes(std::span<const int>(order, rank)));
}
Tensor expand_dims(Operand x, Axes axes) {
  if (axes.is_every())
    fail<ShapeError>(x.caller(), expand_dims_op.name, "axes", "places in the result", "every axis");
  const std::size_t rank =
      shape_of(expand_dims_op, x).rank() + static_cast<std::size_t>(axes.count());
  if (rank > Shape::max_rank)
    fail<ShapeError>(x.caller(), expand_dims_op.name, "axes", "at most 8 axes in the result",
                     std::to_string(rank));
  return changed(expand_dims_op, x, normal_axes(expand_dims_op, axes, rank, x.caller()));
}
Tensor squeeze(Operand x, Axes axes) {
  const Shape& shape = shape_of(squeeze_op, x);
  const Axes chosen = normal_axes(squeeze_op, axes, shape.rank(), x.caller());
  int ones[Shape::max_rank];
  std::size_t count = 0;
  for (int i = 0; i < chosen.count(); ++i) {
    if (shape.data()[chosen[i]] == 1)
      ones[count++] = chosen[i];
    else if (!axes.is_every())
      fail<ShapeError>(x.caller(), squeeze_op.name, "axes", "axes of length 1",
                       "axis " + std::to_string(chosen[i]) + " of " + to_text(shape));
  }
  return changed(squeeze_op, x, Axes(std::span<const int>(ones, count)));
}
Tensor broadcast_to(Operand x, Shape shape) { return run(broadcast_to_op, x, ShapeOptions{shape}); }
Tensor slice(const Operand& x, const SliceOptions& options) { return run(slice_op, x, options); }
Tensor cast(Operand x, DType dtype) { return run(cast_op, x, DTypeOptions{dtype}); }

Tensor concat(Operands parts, int axis) {
  if (parts.size() == 0)
    fail<ShapeError>(parts.caller(), concat_op.name, "parts", "at least one tensor", "none");
  const std::size_t rank = shape_of(concat_op, parts[0]).rank();
  return run(concat_op, parts, AxisOptions{normal_axis(concat_op, axis, rank, parts.caller())});
}
Tensor stack(Operands parts, int axis) {
  std::vector<Tensor> wide;
  wide.reserve(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Operand part = parts[i];
    if (!(shape_of(concat_op, part) == shape_of(concat_op, parts[0])))
      fail<ShapeError>(parts.caller(), "stack", "part " + std::to_string(i),
                       "the shape of part 0 " + to_text(shape_of(concat_op, parts[0])),
                       to_text(shape_of(concat_op, part)));
    wide.push_back(expand_dims(part, axis));
  }
  if (wide.empty())
    fail<ShapeError>(parts.caller(), "stack", "parts", "at least one tensor", "none");
  return concat(Operands(wide, parts.caller()), axis);
}

std::vector<Tensor> split(Operand x, std::span<const std::int64_t> lengths, int axis) {
  const Shape& shape = shape_of(slice_op, x);
  const auto along =
      static_cast<std::size_t>(normal_axis(slice_op, axis, shape.rank(), x.caller()));
  std::int64_t rest = shape.data()[along];
  for (std::int64_t length : lengths) rest = length < 0 || rest < length ? -1 : rest - length;
  if (rest != 0)
    fail<ShapeError>(x.caller(), "split", "lengths",
                     "lengths that add up to " + std::to_string(shape.data()[along]),
                     rest < 0 ? "more" : std::to_string(rest) + " less");
  // The parts name x, so x stays even if it is a temporary.
  std::vector<Tensor> parts;
  parts.reserve(lengths.size());
  std::int64_t start = 0;
  for (std::int64_t length : lengths) {
    parts.push_back(part_of(x, along, start, length));
    start += length;
  }
  return parts;
}
std::vector<Tensor> split(Operand x, int parts, int axis) {
  const Shape& shape = shape_of(slice_op, x);
  const auto along =
      static_cast<std::size_t>(normal_axis(slice_op, axis, shape.rank(), x.caller()));
  if (parts <= 0 || shape.data()[along] % parts != 0)
    fail<ShapeError>(x.caller(), "split", "parts",
                     "a number that divides the length " + std::to_string(shape.data()[along]),
                     std::to_string(parts));
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(parts),
                                          shape.data()[along] / parts);
  return split(x, lengths, axis);
}

void add_reshape(OpTable& ops) {
  for (Op* op : {&reshape_op, &transpose_op, &expand_dims_op, &squeeze_op, &broadcast_to_op,
                 &slice_op, &unslice_op, &concat_op, &cast_op})
    ops.add(*op);
}
}  // namespace reel
