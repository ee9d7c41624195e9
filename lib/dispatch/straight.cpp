// SPDX-License-Identifier: BSD-3-Clause
// The straight path of pointwise ops: inputs of one dtype and shape in row-major order, or a C++
// number beside one. Anything else goes through run().
#include "lib/dispatch/crossing.hpp"
#include "lib/dispatch/pointwise.hpp"
#include "lib/dispatch/promotion.hpp"
#include "lib/dispatch/recording.hpp"
#include "lib/tensor/live.hpp"

namespace reel {
namespace {
/// The body of a temporary that nobody else holds, to be written over; null if there is none.
inline Body* reusable(const Operand& x, Body* body, DType dtype) {
  if (x.kind() != Operand::Kind::temporary || body->dtype != dtype || body->owner) return nullptr;
  return references(*body) == 1 ? body : nullptr;
}

/// Takes the temporary's body over as the output. Its elements are lost then, so that the record of
/// this call must find memory.
inline Body* taken_over(Context& context, const Operand& x) {
  if (context.mode) context.reel.reserve_record();
  Body* body = Access::detach(const_cast<Tensor&>(x.tensor()));
  body->id = {};
  body->leaf = no_record;
  return body;
}

/// Whether y is one row, repeated for every row of x.
inline bool is_row_of(const Body& y, const Body& x) {
  const int rank = x.rank();
  return rank >= 1 && y.rank() >= 1 && y.rank() <= rank && y.elements > 1 &&
         y.elements == x.shape.data()[rank - 1] && y.shape.data()[y.rank() - 1] == y.elements;
}

void run_rows(const Tiles& tiles, Tile tile, const Body& x, const Body& row, Body& out) {
  const std::int64_t n = row.elements;
  const std::int64_t from_step = n * size_of(x.dtype), to_step = n * size_of(out.dtype);
  parallel_passes(x.elements, n, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      const void* inputs[] = {x.data + i * from_step, row.data};
      run_pass(tiles, tile, n, inputs, 2, x.dtype, 0, out.data + i * to_step, out.dtype);
    }
  });
}

inline DType result_dtype(const Op& op, DType input) {
  return op.shape == broadcast_to_bool ? DType::boolean : input;
}
}  // namespace

Tensor run_unary(Op& op, const Operand& x) {
  Context& context = Context::here();
  Body* a = body_of(x);
  if (!a || !is_plain(*a) || !op.straight) return run(op, x);
  if ((context.attention() & ~recording) && detours(context, &a, 1)) return run(op, x);
  const Tile tile = op.straight->value[static_cast<int>(a->dtype)];
  if (!tile) return run(op, x);
  Origin origin;
  if (context.mode) origin = origin_of(context, x, a);
  const DType dtype = result_dtype(op, a->dtype);
  const unsigned needs = origin.tapes ? op.needs.of[0] : 0;
  Body* reused = needs & 1 ? nullptr : reusable(x, a, dtype);
  Body* out = reused ? taken_over(context, x) : allocate_like(context, dtype, *a);
  if (!out) return run(op, x);
  Tensor result = Access::adopt(out);
  const void* inputs[] = {a->data};
  run_pass(*op.straight, tile, a->elements, inputs, 1, a->dtype, 0, out->data, dtype);
  if (origin.tapes && !op.differentiable)
    note_cut(context, op, context.site_of(x.caller()), &origin, 1);
  else if (origin.tapes)
    leave_record_alike<1>(context, op, context.site_of(x.caller()), &a, &origin, needs, out,
                          origin.tapes);
  return result;
}

namespace {
/// A number beside a tensor, with nobody listening: a record would need the number as a tensor.
[[gnu::noinline]] Tensor run_with_number(Context& context, Op& op, const Operand& x,
                                         const Operand& y, Body* a, Body* b) {
  const Operand &number = a ? y : x, &other = a ? x : y;
  Body* tensor = a ? a : b;
  if (number.kind() != Operand::Kind::scalar || !op.straight || !is_plain(*tensor) ||
      !is_floating(tensor->dtype))
    return run(op, x, y);
  const Tile tile = op.straight->value[static_cast<int>(tensor->dtype)];
  if (!tile || (op.promote == Promote::exact && !holds(tensor->dtype, number.scalar())))
    return run(op, x, y);
  const DType dtype = result_dtype(op, tensor->dtype);
  Body* out = reusable(other, tensor, dtype) ? taken_over(context, other)
                                             : allocate_like(context, dtype, *tensor);
  if (!out) return run(op, x, y);
  Tensor result = Access::adopt(out);
  double wide;
  float narrow;
  const void* stored = &wide;
  if (tensor->dtype == DType::float64) {
    wide = number.scalar().real();
  } else {
    narrow = static_cast<float>(number.scalar().real());
    stored = &narrow;
  }
  const void* inputs[] = {a ? a->data : stored, b ? b->data : stored};
  run_pass(*op.straight, tile, tensor->elements, inputs, 2, tensor->dtype, a ? 2 : 1, out->data,
           dtype);
  return result;
}

/// Which of two inputs alike lies across the other, as a transposed matrix does; null if none.
inline Body* lying_across(Body* a, Body* b) {
  if (is_plain(*a) == is_plain(*b)) return nullptr;
  Body* const other = is_plain(*a) ? b : a;
  return walks_neighbours(*other, other->shape) ? nullptr : other;
}

/// run_binary() where y is a row that is repeated for every row of x, where one input lies across
/// the other, or with nobody listening an input can be reused.
[[gnu::noinline]] Tensor run_less_straight(Context& context, Op& op, const Operand& x,
                                           const Operand& y) {
  Body* a = body_of(x);
  Body* b = body_of(y);
  if (context.mode & ~recording || !op.straight || a->dtype != b->dtype) return run(op, x, y);
  Body* bodies[] = {a, b};
  const bool alike = a->shape == b->shape;
  const DType dtype = result_dtype(op, a->dtype);
  Body* const across = alike && dtype == a->dtype ? lying_across(a, b) : nullptr;
  Body* const in_order = across == a ? b : a;
  if (!across && !(is_plain(*a) && is_plain(*b))) return run(op, x, y);
  const Tile tile = op.straight->value[static_cast<int>(a->dtype)];
  if (!tile || (!alike && !is_row_of(*b, *a))) return run(op, x, y);
  Origin origins[2];
  if (context.mode) {
    origins[0] = origin_of(context, x, a);
    origins[1] = origin_of(context, y, b);
  }
  const std::uint64_t tapes = origins[0].tapes | origins[1].tapes;
  const unsigned needs = tapes ? needs_of(op, origins, 2) : 0;
  Body* out;
  if (!across && !(needs & 1) && reusable(x, a, dtype))
    out = taken_over(context, x);
  else if (!across && alike && !(needs & 2) && reusable(y, b, dtype))
    out = taken_over(context, y);
  else if (!(out = allocate_like(context, dtype, *in_order)))
    return run(op, x, y);
  Tensor result = Access::adopt(out);
  if (across) {
    run_across(*op.straight, tile, *across, *in_order, across == a, *out);
  } else if (alike) {
    const void* inputs[] = {a->data, b->data};
    run_pass(*op.straight, tile, a->elements, inputs, 2, a->dtype, 0, out->data, dtype);
  } else {
    run_rows(*op.straight, tile, *a, *b, *out);
  }
  if (!tapes) return result;
  if (op.differentiable)
    leave_record(context, op, {}, context.site_of(x.caller()), bodies, origins, 2, &out, 1, tapes);
  else
    note_cut(context, op, context.site_of(x.caller()), origins, 2);
  return result;
}

/// run_binary() where a tape listens.
[[gnu::noinline]] Tensor run_recorded(Context& context, Op& op, const Operand& x,
                                      const Operand& y) {
  Body* const bodies[] = {body_of(x), body_of(y)};
  const Body *a = bodies[0], *b = bodies[1];
  if (!a || !b) return run(op, x, y);
  if (context.mode != recording || !op.straight || !op.differentiable || a->dtype != b->dtype ||
      !is_plain(*a) || !is_plain(*b) || !(a->shape == b->shape))
    return run_less_straight(context, op, x, y);
  const Tile tile = op.straight->value[static_cast<int>(a->dtype)];
  if (!tile) return run(op, x, y);
  Origin origins[] = {origin_of(context, x, bodies[0]), origin_of(context, y, bodies[1])};
  const std::uint64_t tapes = origins[0].tapes | origins[1].tapes;
  const unsigned needs = needs_of(op, origins, 2);
  Body* out;
  if (!(needs & 1) && reusable(x, bodies[0], a->dtype))
    out = taken_over(context, x);
  else if (!(needs & 2) && reusable(y, bodies[1], a->dtype))
    out = taken_over(context, y);
  else if (!(out = allocate_like(context, a->dtype, *a)))
    return run(op, x, y);
  Tensor result = Access::adopt(out);
  const void* inputs[] = {a->data, b->data};
  run_pass(*op.straight, tile, out->elements, inputs, 2, a->dtype, 0, out->data, a->dtype);
  if (tapes)
    leave_record_alike<2>(context, op, context.site_of(x.caller()), bodies, origins, needs, out,
                          tapes);
  return result;
}

/// run_binary() where other threads have tapes.
[[gnu::noinline]] Tensor run_watchful(Context& context, Op& op, const Operand& x,
                                      const Operand& y) {
  Body *a = body_of(x), *b = body_of(y);
  if ((a && may_cross(context, *a)) || (b && may_cross(context, *b))) return run(op, x, y);
  if (context.mode) return run_recorded(context, op, x, y);
  if (a && b) return run_less_straight(context, op, x, y);
  return a || b ? run_with_number(context, op, x, y, a, b) : run(op, x, y);
}
}  // namespace

Tensor run_binary(Op& op, const Operand& x, const Operand& y) {
  Context& context = Context::here();
  if (const std::uint16_t attention = context.attention())
    return (attention >> 8 ? run_watchful : run_recorded)(context, op, x, y);
  Body* a = body_of(x);
  Body* b = body_of(y);
  if (!a || !b) [[unlikely]]
    return a || b ? run_with_number(context, op, x, y, a, b) : run(op, x, y);
  if (!op.straight || a->dtype != b->dtype || !is_plain(*a) || !is_plain(*b) ||
      !(a->shape == b->shape)) [[unlikely]]
    return run_less_straight(context, op, x, y);
  const Tile tile = op.straight->value[static_cast<int>(a->dtype)];
  const DType dtype = result_dtype(op, a->dtype);
  if (!tile || reusable(x, a, dtype) || reusable(y, b, dtype))
    return run_less_straight(context, op, x, y);
  Body* out = allocate_like(context, dtype, *a);
  if (!out) [[unlikely]]
    return run_less_straight(context, op, x, y);
  const void* inputs[] = {a->data, b->data};
  run_pass(*op.straight, tile, a->elements, inputs, 2, a->dtype, 0, out->data, dtype);
  return Access::adopt(out);
}
}  // namespace reel
