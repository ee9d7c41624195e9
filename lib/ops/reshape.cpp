// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/reshape.hpp>

#include <algorithm>

#include <reel/ops/create.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/gate/observed_call.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
namespace {
/// Finds strides for a view of x in another shape. Returns false if a copy is needed.
bool strides_in_shape(const Body& x, const Shape& shape, std::int64_t* strides) {
  int own = 0;
  const int rank = x.rank(), new_rank = static_cast<int>(shape.rank());
  if (x.elements == 0) {
    std::fill_n(strides, new_rank, 0);
    return true;
  }
  for (int axis = 0; axis < new_rank;) {
    // The next axes of x and of the result that contain the same elements.
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

// A view if the layout allows it, else a copy.
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

void reverse_axes(const Body& x, Body& out) {
  for (int i = 0, from = x.rank() - 1; from >= 0; ++i, --from) {
    out.shape.data()[i] = x.shape.data()[from];
    out.strides[i] = x.strides[from];
  }
}
void transpose_shape(Inference& call) {
  const Body& x = call.input(0);
  const Axes& axes = call.option<AxesOptions>().axes;
  Body& out = call.view();
  if (axes.is_every()) return reverse_axes(x, out);
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
  bool fits = broadcasts_to(x.shape, shape);
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

/// The shape, with -1 replaced by the remaining length.
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
        "a shape of " + to_text(elements) + " elements, as x " + to_text(from) + " has",
        to_text(shape));
  if (open >= 0) shape.data()[open] = elements / known;
  return shape;
}

const char* elements_fit(const Inference& call) {
  const Shape& shape = call.option<ShapeOptions>().shape;
  return is_shape(shape) && shape.elements() == call.input(0).elements
             ? nullptr
             : "a shape of as many elements";
}
const char* order_fits(const Inference& call) {
  const Axes& axes = call.option<AxesOptions>().axes;
  const std::size_t rank = call.input(0).shape.rank();
  const bool whole = axes.is_every() || axes.count() == static_cast<int>(rank);
  return whole && are_axes(axes, rank, false) ? nullptr : "the axes of its input";
}
const char* places_fit(const Inference& call) {
  const Axes& axes = call.option<AxesOptions>().axes;
  const std::size_t rank =
      call.input(0).shape.rank() + static_cast<std::size_t>(std::max(axes.count(), 0));
  return !axes.is_every() && rank <= Shape::max_rank && are_axes(axes, rank, false)
             ? nullptr
             : "axes of its result";
}
const char* ones_fit(const Inference& call) {
  const Axes& axes = call.option<AxesOptions>().axes;
  const Shape& shape = call.input(0).shape;
  bool fits = !axes.is_every() && are_axes(axes, shape.rank(), false);
  for (int i = 0; fits && i < axes.count(); ++i) fits = shape.data()[axes[i]] == 1;
  return fits ? nullptr : "axes of length 1";
}

Tensor changed(Op& op, const Operand& x, const Axes& axes) { return run(op, x, AxesOptions{axes}); }

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
}  // namespace

constinit Op reshape_op{.name = "reshape",
                        .shape = reshape_shape,
                        .options = &options_type<ShapeOptions>,
                        .check = elements_fit,
                        .fusion = Fusion::layout,
                        .moves = true,
                        .samples = reshape_samples};
constinit Op transpose_op{.name = "transpose",
                          .shape = transpose_shape,
                          .options = &options_type<AxesOptions>,
                          .check = order_fits,
                          .fusion = Fusion::layout,
                          .moves = true,
                          .samples = transpose_samples};
constinit Op expand_dims_op{.name = "expand_dims",
                            .shape = expand_dims_shape,
                            .options = &options_type<AxesOptions>,
                            .check = places_fit,
                            .fusion = Fusion::layout,
                            .moves = true,
                            .samples = expand_dims_samples};
constinit Op squeeze_op{.name = "squeeze",
                        .shape = squeeze_shape,
                        .options = &options_type<AxesOptions>,
                        .check = ones_fit,
                        .fusion = Fusion::layout,
                        .moves = true,
                        .samples = squeeze_samples};
constinit Op broadcast_to_op{.name = "broadcast_to",
                             .shape = broadcast_to_shape,
                             .options = &options_type<ShapeOptions>,
                             .check = shape_fits,
                             .fusion = Fusion::layout,
                             .moves = true,
                             .samples = broadcast_to_samples};

Tensor reshape(Operand x, Shape shape) {
  return run(reshape_op, x,
             ShapeOptions{completed(reshape_op, shape_of(reshape_op, x), shape, x.caller())});
}
Tensor Tensor::reshape(Shape shape, Caller caller) const {
  return reel::reshape(Operand(*this, caller), shape);
}
Tensor transpose(Operand x) {
  Context& context = Context::here();
  Body* const whole = body_of(x);
  if (!whole || transpose_op.composite) return changed(transpose_op, x, Axes::every());
  const auto at_once = [&context, whole](const auto& begin) {
    Body* const view = allocate_view(context, whole);
    Tensor result = Access::adopt(view);
    if (!view) return result;
    begin();
    reverse_axes(*whole, *view);
    view->contiguous = is_row_major(view->shape, view->strides);
    return result;
  };
  Tensor result = short_cut(context, transpose_op, at_once, x);
  if (result.defined()) return result;
  return changed(transpose_op, x, Axes::every());
}
Tensor transpose(Operand x, Axes axes) {
  const std::size_t rank = shape_of(transpose_op, x).rank();
  if (axes.is_every()) return transpose(x);
  if (normal_axes(transpose_op, axes, rank, x.caller()).count() != static_cast<int>(rank))
    fail<ShapeError>(x.caller(), transpose_op.name, "axes", to_text(rank) + " axes",
                     to_text(axes.count()));
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
                     to_text(rank));
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
                       "axis " + to_text(chosen[i]) + " of " + to_text(shape));
  }
  return changed(squeeze_op, x, Axes(std::span<const int>(ones, count)));
}
Tensor broadcast_to(Operand x, Shape shape) { return run(broadcast_to_op, x, ShapeOptions{shape}); }

const Entry reshape_ops[] = {&reshape_op, &transpose_op,    &expand_dims_op,
                             &squeeze_op, &broadcast_to_op, nullptr};
}  // namespace reel
