// SPDX-License-Identifier: BSD-3-Clause
#include "lib/tensor/indexing.hpp"

#include <algorithm>

#include <reel/ops.hpp>

#include "lib/ops/ops.hpp"

namespace reel {
namespace {
std::int64_t clipped(std::int64_t position, std::int64_t length, std::int64_t low,
                     std::int64_t high) {
  if (position < 0) position += length;
  return position < low ? low : position > high ? high : position;
}

/// Python's rules: ends are clipped to the axis, open ends depend on the direction.
void pick_range(const Range& range, std::int64_t length, std::size_t axis, SliceOptions& slice,
                std::string_view op, Caller caller) {
  const std::int64_t step = range.step;
  if (step == 0) fail<IndexError>(caller, op, "range", "a step other than 0", "0");
  const bool up = step > 0;
  const std::int64_t low = up ? 0 : -1, high = up ? length : length - 1;
  const std::int64_t start =
      range.start.open ? (up ? low : high) : clipped(range.start.value, length, low, high);
  const std::int64_t stop =
      range.stop.open ? (up ? high : low) : clipped(range.stop.value, length, low, high);
  const std::int64_t distance = up ? stop - start : start - stop;
  const std::int64_t stride = up ? step : -std::max(step, -INT64_MAX);
  const std::int64_t count = distance > 0 ? (distance - 1) / stride + 1 : 0;
  slice.starts.data()[axis] = count ? start : 0;
  slice.lengths.data()[axis] = count;
  slice.steps.data()[axis] = count > 1 ? step : 1;
}

void pick_position(std::int64_t position, std::int64_t length, std::size_t axis,
                   SliceOptions& slice, std::string_view op, Caller caller) {
  if (position < -length || position >= length)
    fail<IndexError>(
        caller, op, "axis " + std::to_string(axis),
        "an index in [-" + std::to_string(length) + ", " + std::to_string(length) + ")",
        std::to_string(position));
  slice.starts.data()[axis] = position < 0 ? position + length : position;
  slice.lengths.data()[axis] = 1;
}

void add_length(Shape& shape, std::int64_t length, std::string_view op, Caller caller) {
  if (shape.rank() == Shape::max_rank)
    fail<ShapeError>(caller, op, "indices", "at most 8 axes in the result", "more");
  shape.resize(shape.rank() + 1);
  shape.data()[shape.rank() - 1] = length;
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
}  // namespace

Selection select(const Shape& shape, std::span<const Index> indices, std::string_view op) {
  Selection selection;
  bool has_ellipsis = false;
  const std::size_t axes = axes_of(indices, shape.rank(), op, has_ellipsis);
  SliceOptions& slice = selection.slice;
  slice.lengths = shape;
  slice.starts.resize(shape.rank());
  slice.steps.resize(shape.rank());
  for (std::size_t i = 0; i < shape.rank(); ++i) slice.starts.data()[i] = 0;
  std::size_t axis = 0;
  const auto add_axis = [&](std::int64_t length) {
    add_length(selection.shape, length, op, indices[0].caller());
  };
  const auto keep_axis = [&] { add_axis(slice.lengths.data()[axis++]); };
  for (const Index& index : indices) {
    const std::int64_t length = axis < shape.rank() ? shape.data()[axis] : 0;
    switch (index.kind()) {
      case Index::Kind::position:
        pick_position(index.position(), length, axis++, slice, op, index.caller());
        break;
      case Index::Kind::range:
        pick_range(index.range(), length, axis, slice, op, index.caller());
        keep_axis();
        break;
      case Index::Kind::all:
        keep_axis();
        break;
      case Index::Kind::newaxis:
        add_axis(1);
        break;
      case Index::Kind::ellipsis:
        for (std::size_t skipped = shape.rank() - axes; skipped > 0; --skipped) keep_axis();
        break;
      case Index::Kind::tensor:
        if (selection.positions)
          fail<IndexError>(index.caller(), op, "indices", "at most one tensor", "two",
                           "Use take or gather one after the other.");
        selection.positions = &index.tensor();
        selection.positions_axis = static_cast<int>(selection.shape.rank());
        keep_axis();
        break;
    }
  }
  while (axis < shape.rank()) keep_axis();
  selection.whole = slice.lengths == shape;
  for (std::size_t i = 0; i < shape.rank(); ++i) selection.whole &= slice.steps.data()[i] == 1;
  return selection;
}

Tensor Tensor::view(const Index* indices, std::size_t count) const {
  const Caller caller = indices->caller();
  const Operand x(*this, caller);
  const Selection selection = select(shape_of(slice_op, x), {indices, count}, "index");
  Tensor result = selection.whole ? *this : slice(x, selection.slice);
  if (!(result.shape() == selection.shape))
    result = reel::reshape(Operand(result, caller), selection.shape);
  if (!selection.positions) return result;
  return take(Operand(result, caller), Operand(*selection.positions, caller),
              selection.positions_axis);
}
}  // namespace reel
