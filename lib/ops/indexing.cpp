// SPDX-License-Identifier: BSD-3-Clause
#include "lib/ops/indexing.hpp"

#include <algorithm>
#include <vector>

#include <reel/ops.hpp>

#include "lib/body/slice.hpp"
#include "lib/flow/context.hpp"
#include "lib/gate/observed_call.hpp"
#include "lib/ops/ops.hpp"
#include "lib/table/options/join.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
namespace {
/// A tensor of positions or a mask, and the axis of the slice from which it picks. A mask picks
/// from as many axes as it has.
struct TensorIndex {
  Tensor tensor;
  std::size_t axis;
  bool is_mask() const { return Access::body(tensor)->dtype == DType::boolean; }
  std::size_t axes() const { return is_mask() ? Access::body(tensor)->shape.rank() : 1; }
};
/// The elements that a list of indices picks from a tensor of some shape.
struct Selection {
  SliceOptions slice;                     // positions leave their axis, newaxis adds one
  bool whole = true;                      // the slice is everything as it is
  std::vector<TensorIndex> tensors = {};  // they pick from the slice
  bool apart = false;                     // there are whole axes or new ones between them
};

std::int64_t clipped(std::int64_t position, std::int64_t length, std::int64_t low,
                     std::int64_t high) {
  if (position < 0) position += length;
  return position < low ? low : position > high ? high : position;
}

struct Picked {
  std::int64_t start, length, step;
};
/// Python's rules: ends are clipped to the axis, open ends depend on the direction.
inline Picked pick_range(const Index& index, std::int64_t length) {
  const Range& range = index.range();
  const std::int64_t step = range.step;
  if (step == 0) [[unlikely]]
    fail<IndexError>(index.caller(), index_name, "range", "a step other than 0", "0");
  for (const Bound& end : {range.start, range.stop})
    if (end.wrapped && end.value > length) [[unlikely]]
      fail<IndexError>(index.caller(), index_name, "range", "signed ends",
                       "an unsigned number that stands for a negative one",
                       "Convert it first: range(-std::int64_t(n), {}).");
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
inline std::int64_t pick_position(const Index& index, std::int64_t length, std::size_t axis) {
  const std::int64_t position = index.position();
  if (position < -length || position >= length) [[unlikely]]
    fail<IndexError>(index.caller(), index_name, "axis " + to_text(axis),
                     one_of("index", -length, length), to_text(position));
  return position < 0 ? position + length : position;
}

/// The number of axes of x that this index takes.
std::size_t axes_of(const Index& index) {
  if (index.kind() == Index::Kind::other_axes || index.kind() == Index::Kind::new_axis) return 0;
  if (index.kind() != Index::Kind::tensor) return 1;
  const TensorIndex chosen{index.tensor(), 0};
  if (!chosen.tensor.defined())
    fail<Error>(index.caller(), index_name, "indices", "a tensor", "an undefined Tensor");
  if (chosen.axes() == 0)
    fail<IndexError>(index.caller(), index_name, "mask", "at least one axis",
                     "a single truth value", "where() takes one.");
  return chosen.axes();
}
std::size_t axes_of(std::span<const Index> indices, std::size_t rank) {
  std::size_t axes = 0;
  bool has_ellipsis = false;
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::other_axes && has_ellipsis)
      fail<IndexError>(index.caller(), index_name, "indices", "one ellipsis", "two");
    has_ellipsis |= index.kind() == Index::Kind::other_axes;
    axes += axes_of(index);
  }
  if (axes > rank)
    fail<IndexError>(indices[0].caller(), index_name, "indices", "at most " + to_text(rank),
                     to_text(axes) + " for a tensor of " + to_text(rank) + " axes");
  return axes;
}
void check_rank(std::size_t rank, Caller caller) {
  if (rank > Shape::max_rank)
    fail<ShapeError>(caller, index_name, "indices", "at most 8 axes in the result", "more");
}

/// The view that select() and slice() make, without options to record.
Tensor view_of(Context& context, Body& x, std::span<const Index> indices) {
  const int x_rank = x.rank();
  Body* view = allocate_view(context, &x);
  if (!view)
    fail<MemoryError>(indices[0].caller(), index_name, "result", "memory for a view", "none");
  Tensor result = Access::adopt(view);
  Slicer slicer(x, *view);
  int axis = 0;
  const auto check_space = [&] { check_rank(slicer.rank() + 1, indices[0].caller()); };
  const auto keep_whole = [&](int end) {
    for (; axis < end; ++axis) {
      check_space();
      slicer.keep_whole();
    }
  };
  for (const Index& index : indices) {
    const Index::Kind kind = index.kind();
    if (kind == Index::Kind::new_axis) {
      check_space();
      slicer.add();
      continue;
    }
    if (axis == x_rank || kind == Index::Kind::other_axes) {
      const std::size_t axes = axes_of(indices, x.shape.rank());
      if (kind == Index::Kind::other_axes) {
        keep_whole(axis + x_rank - static_cast<int>(axes));
        continue;
      }
    }
    const std::int64_t length = x.shape.data()[axis];
    if (kind == Index::Kind::position) {
      slicer.drop(pick_position(index, length, static_cast<std::size_t>(axis)));
    } else {
      const Picked picked =
          kind == Index::Kind::range ? pick_range(index, length) : Picked{0, length, 1};
      check_space();
      slicer.keep(picked.start, picked.length, picked.step);
    }
    ++axis;
  }
  keep_whole(x_rank);
  slicer.finish();
  return result;
}
/// Throws IndexError for a position outside its axis and for too many indices.
Selection select(const Shape& shape, std::span<const Index> indices) {
  Selection selection{.slice = whole_slice(shape)};
  SliceOptions& slice = selection.slice;
  std::size_t axis = 0, rank = 0;
  bool gap = false;  // since the last tensor
  for (const Index& index : indices) {
    const Index::Kind kind = index.kind();
    if (kind == Index::Kind::new_axis) {
      slice.added |= std::uint64_t{1} << rank++;
      selection.whole = false;
      gap = true;
      continue;
    }
    if (axis == shape.rank() || kind == Index::Kind::other_axes || kind == Index::Kind::tensor) {
      const std::size_t axes = axes_of(indices, shape.rank());
      if (kind == Index::Kind::other_axes) {
        axis += shape.rank() - axes;
        rank += shape.rank() - axes;
        gap = true;
        continue;
      }
    }
    const std::int64_t length = shape.data()[axis];
    if (kind == Index::Kind::tensor) {
      selection.apart |= gap && !selection.tensors.empty();
      gap = false;
      selection.tensors.push_back({index.tensor(), rank});
      const TensorIndex& chosen = selection.tensors.back();
      const Shape& lengths = Access::body(chosen.tensor)->shape;
      if (chosen.is_mask() && !std::equal(lengths.begin(), lengths.end(), shape.begin() + axis))
        fail<ShapeError>(
            index.caller(), index_name, "mask",
            "the lengths of x " + to_text(shape) + " from axis " + to_text(axis) + " on",
            to_text(lengths));
      axis += chosen.axes();
      rank += chosen.axes();
      continue;
    }
    if (kind == Index::Kind::position) {
      slice.starts.data()[axis] = pick_position(index, length, axis);
      slice.lengths.data()[axis] = 1;
      slice.dropped |= std::uint64_t{1} << axis++;
      selection.whole = false;
      continue;
    }
    if (kind == Index::Kind::range) {
      const Picked picked = pick_range(index, length);
      slice.starts.data()[axis] = picked.start;
      slice.lengths.data()[axis] = picked.length;
      slice.steps.data()[axis] = picked.step;
      selection.whole &= picked.length == length && picked.step == 1;
    }
    gap = true;
    ++axis;
    ++rank;
  }
  check_rank(rank + shape.rank() - axis, indices[0].caller());
  return selection;
}

/// Undefined where an index is a tensor.
template <class Begin>
Tensor view_at_once(Context& context, Body* x, std::span<const Index> indices, const Begin& begin) {
  for (const Index& index : indices)
    if (index.kind() == Index::Kind::tensor) return {};
  if (!x || slice_op.composite) return {};
  Tensor result = view_of(context, *x, indices);
  begin();
  return result;
}
/// The slices of x at the positions that the index tensors name together.
Tensor picked(Tensor x, const Selection& selection, Caller caller) {
  const std::vector<TensorIndex>& tensors = selection.tensors;
  const Shape shape = x.shape();
  int order[Shape::max_rank];
  std::size_t rank = 0;
  Shape lengths;  // from which each tensor picks
  lengths.resize(tensors.size());
  const std::size_t before = selection.apart ? 0 : tensors[0].axis;
  std::size_t axes = 0;
  for (std::size_t i = 0; i < before; ++i) order[rank++] = static_cast<int>(i);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (std::size_t k = 0; k < tensors[i].axes(); ++k) {
      const std::size_t axis = tensors[i].axis + k;
      lengths.data()[i] *= shape.data()[axis];
      order[rank++] = static_cast<int>(axis);
      ++axes;
    }
  for (std::size_t axis = before; axis < shape.rank(); ++axis)
    if (std::find(order, order + rank, static_cast<int>(axis)) == order + rank)
      order[rank++] = static_cast<int>(axis);
  if (selection.apart) x = transpose(x, Axes(std::span<const int>(order, rank)));

  const int along = static_cast<int>(before);
  std::vector<Tensor> places;
  for (const TensorIndex& chosen : tensors)
    places.push_back(chosen.is_mask() ? places_of_true(chosen.tensor) : chosen.tensor);
  if (axes == 1) return take(x, places[0], along);
  // A single axis replaces the indexed axes.
  Shape merged;
  merged.resize(rank - axes + 1);
  for (std::size_t i = 0, to = 0; i < rank; ++i) {
    if (i > before && i < before + axes) {
      merged.data()[to - 1] *= shape.data()[order[i]];
      continue;
    }
    merged.data()[to++] = shape.data()[order[i]];
  }
  const Tensor flat = places.size() == 1
                          ? places[0]
                          : run(flat_positions_op, Operands(places, caller), ShapeOptions{lengths});
  return take(reshape(x, merged), flat, along);
}
/// The mask, if the only index is a single truth value: all of x is picked, or nothing.
Tensor truth_value(std::span<const Index> indices) {
  if (indices.size() != 1 || indices[0].kind() != Index::Kind::tensor) return {};
  Tensor mask = indices[0].tensor();
  if (mask.defined() && mask.rank() == 0 && mask.dtype() == DType::boolean) return mask;
  return {};
}
/// Indexes by ops, which tapes and interceptors see.
Tensor view_by_ops(const Operand& x, std::span<const Index> indices) try {
  const Caller caller = indices[0].caller();
  const FunctionScope scope(caller, index_name);
  if (const Tensor mask = truth_value(indices); mask.defined()) {
    const Tensor slices = expand_dims(x, 0);
    return take(slices, places_of_true(mask), 0);
  }
  const Selection selection = select(shape_of(slice_op, x), indices);
  if (selection.tensors.empty()) return slice(x, selection.slice);
  const TensorIndex& first = selection.tensors[0];
  if (selection.whole && selection.tensors.size() == 1 && !first.is_mask())
    return take(x, Operand(first.tensor, caller), static_cast<int>(first.axis));
  return picked(selection.whole ? x.value() : slice(x, selection.slice), selection, caller);
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), index_name);
}
}  // namespace

Tensor view(const Operand& x, std::span<const Index> indices) {
  Context& context = Context::here();
  const auto at_once = [&](const auto& begin) {
    return view_at_once(context, body_of(x), indices, begin);
  };
  Tensor result = short_cut(context, slice_op, at_once, x);
  return result.defined() ? std::move(result) : view_by_ops(x, indices);
}
Tensor Tensor::view(const Index* first, std::size_t count) const {
  Context& context = Context::here();
  const std::span<const Index> indices(first, count);
  Tensor result;
  if (!context.dispatch_flags()) result = view_at_once(context, body_, indices, [] {});
  return result.defined() ? std::move(result)
                          : reel::view(Operand(*this, first->caller()), indices);
}
}  // namespace reel
