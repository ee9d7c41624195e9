// SPDX-License-Identifier: BSD-3-Clause
#include "lib/tensor/indexing.hpp"

#include <algorithm>

#include <reel/ops.hpp>

#include "lib/dispatch/context.hpp"
#include "lib/dispatch/crossing.hpp"
#include "lib/ops/ops.hpp"

namespace reel {
namespace {
std::int64_t clipped(std::int64_t position, std::int64_t length, std::int64_t low,
                     std::int64_t high) {
  if (position < 0) position += length;
  return position < low ? low : position > high ? high : position;
}

struct Picked {
  std::int64_t start, length, step;
};
/// Python's rules: ends are clipped to the axis, open ends depend on the direction.
Picked pick(const Range& range, std::int64_t length, std::string_view op, Caller caller) {
  const std::int64_t step = range.step;
  if (step == 0) fail<IndexError>(caller, op, "range", "a step other than 0", "0");
  const bool up = step > 0;
  const std::int64_t low = up ? 0 : -1, high = up ? length : length - 1;
  const std::int64_t start =
      range.start.open ? (up ? low : high) : clipped(range.start.value, length, low, high);
  const std::int64_t stop =
      range.stop.open ? (up ? high : low) : clipped(range.stop.value, length, low, high);
  const std::int64_t distance = up ? stop - start : start - stop;
  if (distance <= 0) return {0, 0, 1};
  if (step == 1 || distance == 1) return {start, distance, 1};
  const std::int64_t stride = up ? step : -std::max(step, -INT64_MAX);
  const std::int64_t count = (distance - 1) / stride + 1;
  return {start, count, count > 1 ? step : 1};
}
std::int64_t pick(std::int64_t position, std::int64_t length, std::size_t axis, std::string_view op,
                  Caller caller) {
  if (position < -length || position >= length)
    fail<IndexError>(caller, op, "axis " + std::to_string(axis), one_of("index", -length, length),
                     std::to_string(position));
  return position < 0 ? position + length : position;
}

std::size_t axes_of(std::span<const Index> indices, std::size_t rank, std::string_view op,
                    bool& has_ellipsis) {
  std::size_t axes = 0;
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::ellipsis && has_ellipsis)
      fail<IndexError>(index.caller(), op, "indices", "one ellipsis", "two");
    has_ellipsis |= index.kind() == Index::Kind::ellipsis;
    axes += index.kind() != Index::Kind::ellipsis && index.kind() != Index::Kind::newaxis;
  }
  if (axes > rank)
    fail<IndexError>(indices[0].caller(), op, "indices", "at most " + std::to_string(rank),
                     std::to_string(axes));
  return axes;
}
void require_room(std::size_t rank, Caller caller, std::string_view op) {
  if (rank > Shape::max_rank)
    fail<ShapeError>(caller, op, "indices", "at most 8 axes in the result", "more");
}

/// The same view as by select() and slice(), without options to record: nobody listens.
Tensor view_unheard(Context& context, Body& x, std::span<const Index> indices,
                    std::string_view op) try {
  const int x_rank = x.rank();
  Body* view = allocate_view(context, &x);
  if (!view) fail<MemoryError>(indices[0].caller(), op, "result", "memory for a view", "none");
  Tensor result = Access::adopt(view);
  std::int64_t lengths[Shape::max_rank];
  int axis = 0;
  std::size_t rank = 0;
  std::int64_t offset = 0, elements = 1;
  const auto keep = [&](const Picked& picked, std::int64_t stride) {
    require_room(rank + 1, indices[0].caller(), op);
    offset += picked.start * stride;
    elements *= picked.length;
    lengths[rank] = picked.length;
    view->strides[rank++] = picked.step * stride;
  };
  const auto keep_whole = [&](int end) {
    for (; axis < end; ++axis) keep({0, x.shape.data()[axis], 1}, x.strides[axis]);
  };
  for (const Index& index : indices) {
    const Index::Kind kind = index.kind();
    if (kind == Index::Kind::newaxis) {
      keep({0, 1, 1}, 1);
      continue;
    }
    if (axis == x_rank || kind == Index::Kind::ellipsis) {
      bool has_ellipsis = false;
      const std::size_t axes = axes_of(indices, x.shape.rank(), op, has_ellipsis);
      if (kind == Index::Kind::ellipsis) {
        keep_whole(axis + x_rank - static_cast<int>(axes));
        continue;
      }
    }
    const std::int64_t length = x.shape.data()[axis], stride = x.strides[axis];
    if (kind == Index::Kind::position)
      offset += pick(index.position(), length, static_cast<std::size_t>(axis), op, index.caller()) *
                stride;
    else if (kind == Index::Kind::range)
      keep(pick(index.range(), length, op, index.caller()), stride);
    else
      keep({0, length, 1}, stride);
    ++axis;
  }
  keep_whole(x_rank);
  view->shape.resize(rank);
  std::copy_n(lengths, rank, view->shape.data());
  view->elements = elements;
  view->data += offset * size_of(x.dtype);
  view->contiguous = is_row_major(view->shape, view->strides);
  return result;
} catch (const std::bad_alloc&) {
  fail_memory(indices[0].caller(), op);
}
}  // namespace

Selection select(const Shape& shape, std::span<const Index> indices, std::string_view op) try {
  Selection selection;
  bool has_ellipsis = false;
  const std::size_t axes = axes_of(indices, shape.rank(), op, has_ellipsis);
  SliceOptions& slice = selection.slice;
  slice.lengths = slice.starts = slice.steps = shape;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    slice.starts.data()[i] = 0;
    slice.steps.data()[i] = 1;
  }
  std::size_t axis = 0, rank = 0;
  for (const Index& index : indices) {
    const std::int64_t length = axis < shape.rank() ? shape.data()[axis] : 0;
    switch (index.kind()) {
      case Index::Kind::position:
        slice.starts.data()[axis] = pick(index.position(), length, axis, op, index.caller());
        slice.lengths.data()[axis] = 1;
        slice.dropped |= std::uint64_t{1} << axis++;
        continue;
      case Index::Kind::range: {
        const Picked picked = pick(index.range(), length, op, index.caller());
        slice.starts.data()[axis] = picked.start;
        slice.lengths.data()[axis] = picked.length;
        slice.steps.data()[axis] = picked.step;
        break;
      }
      case Index::Kind::all:
        break;
      case Index::Kind::newaxis:
        slice.added |= std::uint64_t{1} << rank++;
        continue;
      case Index::Kind::ellipsis:
        axis += shape.rank() - axes;
        rank += shape.rank() - axes;
        continue;
      case Index::Kind::tensor:
        if (selection.positions)
          fail<IndexError>(index.caller(), op, "indices", "at most one tensor", "two",
                           "Use take or gather one after the other.");
        selection.positions = &index.tensor();
        selection.positions_axis = static_cast<int>(rank);
        break;
    }
    ++axis;
    ++rank;
  }
  require_room(rank + shape.rank() - axis, indices[0].caller(), op);
  selection.whole = slice.keeps_axes() && slice.lengths == shape;
  for (std::size_t i = 0; i < shape.rank(); ++i) selection.whole &= slice.steps.data()[i] == 1;
  return selection;
} catch (const std::bad_alloc&) {
  fail_memory(indices[0].caller(), op);
}

Tensor view(const Operand& x, std::span<const Index> indices) try {
  const Caller caller = indices[0].caller();
  Context& context = Context::here();
  bool positions = false;
  for (const Index& index : indices) positions |= index.kind() == Index::Kind::tensor;
  Body* const body = body_of(x);
  if (!positions && body && !slice_op.composite && unheard(context, *body))
    return view_unheard(context, *body, indices, "index");
  const FunctionScope scope(caller, "index");
  const Selection selection = select(shape_of(slice_op, x), indices, "index");
  if (!selection.positions) return slice(x, selection.slice);
  const Operand chosen(*selection.positions, caller);
  if (selection.whole) return take(x, chosen, selection.positions_axis);
  return take(Operand(slice(x, selection.slice), caller), chosen, selection.positions_axis);
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "index");
}
Tensor Tensor::view(const Index* indices, std::size_t count) const {
  return reel::view(Operand(*this, indices->caller()), {indices, count});
}
}  // namespace reel
