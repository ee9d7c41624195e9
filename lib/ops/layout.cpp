// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/layout.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <reel/ops.hpp>

#include "lib/body/room.hpp"
#include "lib/flow/context.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/table/options/create.hpp"
#include "lib/table/options/join.hpp"

namespace reel {
namespace {
std::size_t normal(int axis, const Shape& shape, Caller caller) {
  return static_cast<std::size_t>(normal_axis(slice_op, axis, shape.rank(), caller));
}
/// Elements start, start + step, ... of one axis.
Tensor part(const Operand& x, std::size_t axis, std::int64_t start, std::int64_t length,
            std::int64_t step = 1) {
  SliceOptions place = whole_slice(shape_of(slice_op, x));
  place.starts.data()[axis] = start;
  place.lengths.data()[axis] = length;
  place.steps.data()[axis] = step;
  return slice(x, place);
}
/// An offset of a diagonal: no matrix is larger, and all sums fit.
std::int64_t bounded(std::int64_t offset) {
  constexpr std::int64_t most = std::int64_t{1} << 59;
  return std::clamp(offset, -most, most);
}
/// The axes with two of them exchanged.
Tensor exchanged(const Operand& x, std::size_t first, std::size_t second) {
  int order[Shape::max_rank];
  std::iota(order, order + Shape::max_rank, 0);
  std::swap(order[first], order[second]);
  return transpose(x, Axes(std::span<const int>(order, shape_of(slice_op, x).rank())));
}
void require_matrices(const Operand& x, std::string_view function) {
  const Shape& shape = shape_of(slice_op, x);
  if (shape.rank() < 2)
    fail<ShapeError>(x.caller(), function, "x", "at least 2 axes", to_text(shape));
}
}  // namespace

Tensor swap_axes(Operand x, AxisNumber first, AxisNumber second) {
  const FunctionScope scope(x.caller(), "swap_axes");
  const Shape& shape = shape_of(slice_op, x);
  return exchanged(x, normal(first, shape, x.caller()), normal(second, shape, x.caller()));
}
Tensor matrix_transpose(Operand x) {
  const FunctionScope scope(x.caller(), "matrix_transpose");
  require_matrices(x, "matrix_transpose");
  const std::size_t rank = shape_of(slice_op, x).rank();
  return exchanged(x, rank - 2, rank - 1);
}

std::vector<Tensor> unbind(Operand x, AxisNumber axis) {
  const FunctionScope scope(x.caller(), "unbind");
  const Operand whole(x);  // a copy is no temporary, which the first slice could take over
  const Shape shape = shape_of(slice_op, x);
  const std::size_t at = normal(axis, shape, x.caller());
  SliceOptions place = whole_slice(shape);
  place.lengths.data()[at] = 1;
  place.dropped = std::uint64_t{1} << at;
  auto slices = room_for<Tensor>(static_cast<std::size_t>(shape.data()[at]), x.caller(), "unbind");
  for (std::int64_t& i = place.starts.data()[at]; i < shape.data()[at]; ++i)
    slices.push_back(slice(whole, place));
  return slices;
}

Tensor flip(Operand x, Axes axes) {
  const FunctionScope scope(x.caller(), "flip");
  const Shape& shape = shape_of(slice_op, x);
  const Axes chosen = normal_axes(slice_op, axes, shape.rank(), x.caller());
  SliceOptions place = whole_slice(shape);
  for (int i = 0; i < chosen.count(); ++i) {
    const int axis = chosen[i];
    if (shape.data()[axis] < 2) continue;
    place.starts.data()[axis] = shape.data()[axis] - 1;
    place.steps.data()[axis] = -1;
  }
  return slice(x, place);
}

Tensor diagonal(Operand x, CountNumber offset, AxisNumber first, AxisNumber second) {
  const FunctionScope scope(x.caller(), "diagonal");
  require_matrices(x, "diagonal");
  Shape shape = shape_of(slice_op, x);
  std::size_t row = normal(first, shape, x.caller()), column = normal(second, shape, x.caller());
  if (row == column)
    fail<ShapeError>(x.caller(), "diagonal", "axes", "two different axes",
                     to_text(first.value) + " and " + to_text(second.value));
  offset = bounded(offset);
  if (row > column) {  // the order in which they are more often one axis
    std::swap(row, column);
    offset = -offset;
  }
  int order[Shape::max_rank];
  std::size_t count = 0;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis)
    if (axis != row && axis != column) order[count++] = static_cast<int>(axis);
  order[count] = static_cast<int>(row);
  order[count + 1] = static_cast<int>(column);
  const Tensor matrices = column == count + 1 && row == count
                              ? x.value()
                              : transpose(x, Axes(std::span<const int>(order, shape.rank())));
  shape = matrices.shape();
  const std::int64_t rows = shape.data()[count], columns = shape.data()[count + 1];
  const std::int64_t start = offset < 0 ? -offset.value : offset.value;
  const std::int64_t length = std::max<std::int64_t>(
      0, offset < 0 ? std::min(rows - start, columns) : std::min(rows, columns - start));
  shape.resize(count + 1);
  shape.data()[count] = rows * columns;
  return part(reshape(matrices, shape), count, length == 0 ? 0 : start * (offset < 0 ? columns : 1),
              length, length > 1 ? columns + 1 : 1);
}

namespace {
Tensor triangle(const Operand& x, std::int64_t offset, bool lower, std::string_view function) {
  const FunctionScope scope(x.caller(), function);
  require_matrices(x, function);
  const Shape& shape = shape_of(slice_op, x);
  const PlaceScope place(Context::here(), x);
  const std::int64_t rows = shape[-2], columns = shape[-1];
  if (rows == 0 || columns == 0) return reshape(x, shape);
  // Above a lower triangle is an upper one.
  const Tensor triangle = run(fill_op,
                              FillOptions{.kind = FillOptions::Kind::triangle,
                                          .first = bounded(offset) - !lower,
                                          .dtype = DType::boolean,
                                          .shape = Shape({rows, columns}, x.caller())},
                              x.caller());
  const Tensor zero = zeros({}, {.dtype = dtype_of(slice_op, x)});
  return lower ? where(triangle, x, zero) : where(triangle, zero, x);
}
}  // namespace

Tensor tril(Operand x, CountNumber offset) { return triangle(x, offset, true, "tril"); }
Tensor triu(Operand x, CountNumber offset) { return triangle(x, offset, false, "triu"); }

Tensor roll(Operand x, CountNumber shift, AxisNumber axis) {
  const FunctionScope scope(x.caller(), "roll");
  const Operand whole(x);
  const Shape& shape = shape_of(slice_op, x);
  const std::size_t at = normal(axis, shape, x.caller());
  const std::int64_t length = shape.data()[at];
  shift = length ? (shift % length + length) % length : 0;
  if (shift == 0) return reshape(x, shape);  // a result is never x itself
  return concat({part(whole, at, length - shift, shift), part(whole, at, 0, length - shift)},
                static_cast<int>(at));
}

namespace {
/// Each block of the axes from `axis` on, repeated `count` times, in this shape.
Tensor copies(const Tensor& x, std::size_t axis, std::int64_t count, const Shape& shape,
              Caller caller) {
  std::int64_t blocks = 1, block = 1;
  for (std::size_t i = 0; i < x.rank(); ++i) (i < axis ? blocks : block) *= x.shape().data()[i];
  const Tensor apart = reshape(x, Shape({blocks, 1, block}, caller));
  return reshape(broadcast_to(apart, Shape({blocks, count, block}, caller)), shape);
}
std::int64_t times(std::int64_t length, std::int64_t count, std::string_view function,
                   Caller caller) {
  if (count < 0)
    fail<ShapeError>(caller, function, "count", "a count of at least 0", to_text(count));
  if (__builtin_mul_overflow(length, count, &length))
    fail<ShapeError>(caller, function, "count", "at most 2^58 elements", to_text(count));
  return length;
}
}  // namespace

Tensor tile(Operand x, Shape counts) {
  const FunctionScope scope(x.caller(), "tile");
  Shape shape = shape_of(slice_op, x);
  const auto added = static_cast<int>(counts.rank()) - static_cast<int>(shape.rank());
  if (added > 0) {
    Shape longer;
    longer.resize(counts.rank());
    std::copy(shape.begin(), shape.end(), longer.data() + added);
    shape = longer;
  }
  Tensor y = reshape(x, shape);
  // Begins at the last axis, so that the largest copy has the longest blocks.
  for (int axis = static_cast<int>(shape.rank()), i = static_cast<int>(counts.rank()); i-- > 0;) {
    std::int64_t& length = shape.data()[--axis];
    const std::int64_t count = counts.data()[i], longer = times(length, count, "tile", x.caller());
    if (count == 1) continue;
    length = longer;
    y = copies(y, static_cast<std::size_t>(axis), count, shape, x.caller());
  }
  return y;
}

Tensor repeat(Operand x, Extent count, AxisNumber axis) {
  const FunctionScope scope(x.caller(), "repeat");
  Shape shape = shape_of(slice_op, x);
  const std::size_t at = normal(axis, shape, x.caller());
  shape.data()[at] = times(shape.data()[at], count.value, "repeat", x.caller());
  return copies(x.value(), at + 1, count.value, shape, x.caller());
}
namespace {
Tensor repeat_each(const Operand& x, std::span<const std::int64_t> counts, int axis) try {
  const FunctionScope scope(x.caller(), "repeat");
  const Shape& shape = shape_of(slice_op, x);
  const std::size_t at = normal(axis, shape, x.caller());
  const std::int64_t length = shape.data()[at];
  if (counts.size() == 1) return repeat(x, counts[0], axis);
  if (static_cast<std::int64_t>(counts.size()) != length)
    fail<ShapeError>(x.caller(), "repeat", "counts", "1 or " + to_text(length) + " counts",
                     to_text(counts.size()));
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t count = counts[static_cast<std::size_t>(i)];
    times(1, count, "repeat", x.caller());
    places.insert(places.end(), static_cast<std::size_t>(count), i);
  }
  const PlaceScope place(Context::here(), x);
  return take(x, tensor(places), static_cast<int>(at));
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "repeat");
} catch (const std::length_error&) {
  fail_memory(x.caller(), "repeat");
}
}  // namespace
Tensor repeat(Operand x, const std::vector<std::int64_t>& counts, AxisNumber axis) {
  return repeat_each(x, counts, axis);
}
Tensor repeat(Operand x, std::initializer_list<std::int64_t> counts, AxisNumber axis) {
  return repeat_each(x, std::span(counts.begin(), counts.size()), axis);
}

namespace {
/// The position in x whose element is at `place` of the padded axis. The axis has elements.
std::int64_t source(PadMode mode, std::int64_t place, std::int64_t length) {
  if (mode == PadMode::replicate || length == 1)
    return std::clamp<std::int64_t>(place, 0, length - 1);
  const std::int64_t period = mode == PadMode::reflect ? 2 * (length - 1) : length;
  const std::int64_t within = (place % period + period) % period;
  return within < length ? within : period - within;
}
/// The elements that pad() adds to an axis, for the places from `start` on. Undefined if they must
/// be found by take().
Tensor added_part(const Tensor& x, std::size_t axis, std::int64_t start, std::int64_t count,
                  PadMode mode) {
  const std::int64_t length = x.shape().data()[axis];
  const std::int64_t first = source(mode, start, length);
  if (mode == PadMode::replicate || length == 1) {
    Shape shape = x.shape();
    shape.data()[axis] = count;
    return broadcast_to(part(x, axis, first, 1), shape);
  }
  if (count > length - (mode == PadMode::reflect)) return {};
  return part(x, axis, first, count, mode == PadMode::reflect && count > 1 ? -1 : 1);
}
Tensor padded(const Tensor& x, std::size_t axis, std::int64_t before, std::int64_t after,
              const PadOptions& options, const Tensor& value, Caller caller) {
  const std::int64_t length = x.shape().data()[axis];
  const int along = static_cast<int>(axis);
  Tensor head, tail;
  if (options.mode == PadMode::constant) {
    Shape shape = x.shape();
    shape.data()[axis] = before;
    head = broadcast_to(value, shape);
    shape.data()[axis] = after;
    tail = broadcast_to(value, shape);
  } else if (length == 0) {
    fail<ShapeError>(caller, "pad", "x", "elements along axis " + to_text(axis),
                     to_text(x.shape()));
  } else {
    head = added_part(x, axis, -before, before, options.mode);
    tail = added_part(x, axis, length, after, options.mode);
  }
  if (head.defined() && tail.defined()) return concat({head, x, tail}, along);
  std::vector<std::int64_t> places;
  {
    const PlaceScope host(Context::here(), cpu());
    places = arange(-before, length + after, 1, caller).to_vector<std::int64_t>();
  }
  for (std::int64_t& place : places) place = source(options.mode, place, length);
  return take(x, tensor(places), along);
}
}  // namespace

Tensor pad(Operand x, const std::vector<Padding>& widths, PadOptions options) try {
  const FunctionScope scope(x.caller(), "pad");
  const Shape& shape = shape_of(slice_op, x);
  if (widths.size() != shape.rank())
    fail<ShapeError>(x.caller(), "pad", "widths", to_text(shape.rank()) + " pairs, one an axis",
                     to_text(widths.size()));
  constexpr std::int64_t most = std::int64_t{1} << 58;
  for (const auto& [before, after] : widths)
    for (const std::int64_t width : {before.value, after.value})
      if (width < 0 || width > most)
        fail<ShapeError>(x.caller(), "pad", "widths", "widths from 0 to 2^58", to_text(width),
                         "A slice makes an axis shorter.");
  const PlaceScope place(Context::here(), x);
  const Tensor value = options.mode == PadMode::constant
                           ? full({}, options.value, {.dtype = dtype_of(slice_op, x)})
                           : Tensor();
  const double number = options.value.real();
  if (value.defined() && number == 0 && !std::signbit(number)) {  // one pass for all axes
    UnsliceOptions place{whole_slice(shape), shape};
    for (std::size_t axis = 0; axis < widths.size(); ++axis) {
      place.slice.starts.data()[axis] = widths[axis].before.value;
      place.shape.data()[axis] += widths[axis].before.value + widths[axis].after.value;
    }
    return run(unslice_op, {x}, place);
  }
  Tensor y = reshape(x, shape);
  for (std::size_t axis = widths.size(); axis-- > 0;)
    if (const auto& [before, after] = widths[axis]; before.value || after.value)
      y = padded(y, axis, before.value, after.value, options, value, x.caller());
  return y;
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "pad");
} catch (const std::length_error&) {
  fail_memory(x.caller(), "pad");
}
}  // namespace reel
