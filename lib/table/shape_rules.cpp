// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>

#include <reel/error.hpp>

#include "lib/table/options/reduce.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
Text argument_name(const Op& op, int i) {
  std::string_view rest = op.argument_names;
  if (op.arity < 0 && rest.find(',') == rest.npos) return Text(rest) + " " + to_text(i);
  for (int skipped = 0; skipped < i; ++skipped) {
    const std::size_t comma = rest.find(", ");
    if (comma == rest.npos) return "input " + to_text(i);
    rest.remove_prefix(comma + 2);
  }
  return rest.substr(0, rest.find(", "));
}

void fail_floating(const Inference& call, int i) {
  fail<DTypeError>(call.caller, call.op.name, argument_name(call.op, i), "a floating dtype",
                   name_of(call.input(i).dtype), "Convert it first: x.to(DType::float32).");
}

void fail_arithmetic(const Op& op, const Text& argument, DType dtype, Caller caller) {
  fail<DTypeError>(caller, op.name, argument, "a dtype with arithmetic", name_of(dtype),
                   "Convert it first: x.to(DType::int32) or x.to(DType::float32).");
}

void require_integer(const Inference& call, int i, const char* argument) {
  const DType dtype = call.input(i).dtype;
  if (has_arithmetic(dtype) && dtype != DType::boolean && !is_floating(dtype)) return;
  fail<DTypeError>(call.caller, call.op.name, argument ? argument : argument_name(call.op, i),
                   "uint8, int32 or int64", name_of(dtype),
                   dtype == DType::boolean ? "To choose by truth values use where(condition, x, y)."
                   : !is_floating(dtype)   ? "Convert it first: x.to(DType::int32)."
                                           : "Convert it first: x.to(DType::int64). x / y of "
                                             "integers is float32; floor_divide(x, y) is not.");
}

void fail_rank(const Inference& call, int i, int at_least) {
  fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i),
                   "at least " + to_text(at_least) + (at_least == 1 ? " axis" : " axes"),
                   to_text(call.input(i).shape));
}

void same_as_input(Inference& call) { call.output(call.input(0).dtype, call.input(0).shape); }

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  const std::int64_t* last = to.end() - from.rank();
  for (std::size_t i = 0; i < from.rank(); ++i)
    if (from.data()[i] != 1 && from.data()[i] != last[i]) return false;
  return true;
}

Shape broadcast_shapes(const Inference& call, int first, int count) {
  Shape out = call.input(first).shape;
  for (int i = first + 1; i < first + count; ++i) {
    const Shape& shape = call.input(i).shape;
    if (shape == out) continue;
    const std::size_t rank = std::max(out.rank(), shape.rank());
    Shape joined;
    joined.resize(rank);
    for (std::size_t k = 0; k < rank; ++k) {  // from the last axis
      const std::int64_t a = k < out.rank() ? out.end()[-1 - static_cast<int>(k)] : 1;
      const std::int64_t b = k < shape.rank() ? shape.end()[-1 - static_cast<int>(k)] : 1;
      if (a != b && a != 1 && b != 1)
        fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i),
                         "a shape that broadcasts with " + to_text(out), to_text(shape),
                         "Lengths, from the last, must be equal or 1.");
      joined.data()[rank - 1 - k] = a == 1 ? b : a;
    }
    out = joined;
  }
  return out;
}

namespace {
// Truth values add and multiply (or, and); they have no difference, remainder or sign.
void require_domain(const Inference& call) {
  const DType dtype = call.made(0).dtype;
  if (call.op.domain == formulas::Domain::numbers && dtype == DType::boolean)
    fail<DTypeError>(call.caller, call.op.name, argument_name(call.op, 0), "numbers", "bool",
                     call.op.bool_advice);
  if (call.op.domain == formulas::Domain::bits && is_floating(dtype))
    fail<DTypeError>(call.caller, call.op.name, "operands", "bool or integers", name_of(dtype),
                     "logical_and(), logical_or() and logical_not() take any number.");
}
}  // namespace

void broadcast(Inference& call) {
  if (call.op.result == ResultDType::boolean)
    for (int i = 0; i < call.input_count; ++i) require_arithmetic(call, i);
  const DType dtype = call.op.result_dtype(call.input(std::countr_zero(call.op.promoted)).dtype);
  call.output(dtype, broadcast_shapes(call, 0, call.input_count));
  require_domain(call);
}

void reduced(Inference& call) { reduced_to(call, call.input(0).dtype); }
void reduced_to(Inference& call, DType dtype) {
  require_arithmetic(call, 0);
  const auto& option = call.option<ReduceOptions>();
  const Body& x = call.input(0);
  Shape out;
  out.resize(x.shape.rank());
  std::size_t rank = 0;
  int next = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool gone = option.axes.is_every() ||
                      (next < option.axes.count() && option.axes[next] == axis && ++next);
    if (gone && option.keep == Keepdims::no) continue;
    out.data()[rank++] = gone ? 1 : x.shape.data()[axis];
  }
  out.resize(rank);
  call.output(dtype, out);
}
Axes normal_axes(const Op& op, const Axes& axes, std::size_t rank, Caller caller) {
  const int count = static_cast<int>(rank);
  bool chosen[Shape::max_rank] = {};
  for (int i = 0; i < axes.count(); ++i) {
    const auto axis = static_cast<std::size_t>(normal_axis(op, axes[i], rank, caller));
    if (chosen[axis])
      fail<ShapeError>(caller, op.name, "axes", "each axis once", to_text(axes[i]) + " again");
    chosen[axis] = true;
  }
  int sorted[Shape::max_rank] = {};
  std::size_t found = 0;
  for (int axis = 0; axis < count; ++axis)
    if (axes.is_every() || chosen[axis]) sorted[found++] = axis;
  return Axes(std::span<const int>(sorted, found), caller);
}
std::int64_t normal_axis(const Op& op, std::int64_t axis, std::size_t rank, Caller caller) {
  const auto count = static_cast<std::int64_t>(rank);
  if (count == 0)
    fail<ShapeError>(caller, op.name, "axis", argument_name(op, 0) + " with at least one axis",
                     "()");
  if (axis < -count || axis >= count)
    fail<ShapeError>(caller, op.name, "axis", one_of("axis", -count, count), to_text(axis));
  return axis < 0 ? axis + count : axis;
}
}  // namespace reel
