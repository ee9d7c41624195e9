// SPDX-License-Identifier: BSD-3-Clause
// The fast path of pointwise ops of one and two inputs. The inputs have one dtype and are stored in
// row-major order on the CPU. An input of two may also be a C++ number, a tensor of one element, a
// row that is repeated, or a transposed matrix. All other calls go through run().
#include <optional>

#include "lib/body/live.hpp"
#include "lib/gate/marks.hpp"
#include "lib/gate/observed_call.hpp"
#include "lib/gate/recording.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/passes.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
namespace {
/// The body of a temporary that nothing else holds and that may be overwritten; null if there is
/// none.
inline Body* reusable(const Operand& x, Body* body, DType dtype) {
  if (x.kind() != Operand::Kind::temporary || body->dtype != dtype || body->owner) return nullptr;
  return references(*body) == 1 ? body : nullptr;
}

/// Takes the temporary's body over as the output. Its elements are lost then, so that the record of
/// this call must find memory.
inline Body* taken_over(Context& context, const Operand& x) {
  if (context.mode & recording) context.reel->reserve_record();
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
/// Which of two inputs of one shape is a transposed matrix beside one in order; null if none.
inline const Body* transposed_one(const Body& a, const Body& b) {
  if (is_plain(a) == is_plain(b)) return nullptr;
  const Body& other = is_plain(a) ? b : a;
  return walks_neighbours(other, other.shape) ? nullptr : &other;
}

/// Whether the fast path takes this number beside this tensor. Under a tape it does not: a record
/// needs the number as a tensor.
inline bool takes_number(const Context& context, const Op& op, const Body& tensor,
                         const Operand& number) {
  return number.kind() == Operand::Kind::scalar && !context.path_mode() && is_plain(tensor) &&
         is_floating(tensor.dtype) &&
         (op.promote != Promote::exact || holds(tensor.dtype, number.scalar()));
}
/// Stores the number as the tensor's dtype.
inline const void* stored_number(const Operand& number, DType dtype, double& memory) {
  if (is_half(dtype)) [[unlikely]]
    store_number(&memory, number.scalar(), dtype);
  else
    kernels::with_floating(
        dtype, [&]<class T>(Type<T>) { new (&memory) T(static_cast<T>(number.scalar().real())); });
  return &memory;
}
}  // namespace

namespace {
/// What may watch a call: nothing, at most a tape, a tape and observers, or any of tapes, marks,
/// interceptors and observers.
enum class Needed : std::uint8_t { by_none, by_tape, by_observers, by_any };

/// An op of one input.
template <Needed needed>
[[gnu::always_inline]] inline Tensor run_one(Context& context, Op& op, const Operand& x) {
  constexpr bool any = needed == Needed::by_any;
  Body* const a = body_of(x);
  if (!a || !is_plain(*a)) return run(op, x);
  const Pass pass = fast_pass_of(op, a->dtype);
  if (!pass || (any && needs_slow_path(context, &a, 1))) return run(op, x);
  Origin origin;
  if (needed == Needed::by_tape || (any && context.mode & recording))
    origin = origin_of(context, x, a);
  const DType dtype = op.result_dtype(a->dtype);
  const unsigned needs = origin.tapes ? op.gradient.needs.of[0] : 0;
  const bool reuses = !(needs & 1) && reusable(x, a, dtype);
  Tensor result = Access::adopt(reuses ? nullptr : allocate_like(context, dtype, *a));
  if (!reuses && !result.defined()) return run(op, x);
  const Operand* const operand = &x;
  const Body* const input = a;
  CallOf<any> call(context, op, &operand, &input, 1);
  call.begin();
  if (reuses) result = Access::adopt(taken_over(context, x));
  Body* const out = Access::body(result);
  const void* inputs[] = {a->data};
  run_pass(pass, a->elements, inputs, 1, a->dtype, 0, out->data, dtype);
  call.end(&out, 1);
  if (!origin.tapes) return result;
  const Caller caller = context.caller_of(x.caller());
  if (op.gradient.differentiable)
    call.recorded(
        leave_record_alike<1>(context, op, caller, &a, &origin, needs, out, origin.tapes));
  else
    note_cut(context, op, caller, &origin, 1);
  return result;
}
template <Needed needed>
[[gnu::noinline]] Tensor run_watched(Context& context, Op& op, const Operand& x) {
  return run_one<needed>(context, op, x);
}
}  // namespace

Tensor run_unary(Op& op, const Operand& x) {
  Context& context = Context::here();
  if (const int flags = context.dispatch_flags())
    return (flags == recording ? run_watched<Needed::by_tape>
                               : run_watched<Needed::by_any>)(context, op, x);
  return run_one<Needed::by_none>(context, op, x);
}

namespace {
/// Two inputs and what a pass over them needs to know.
struct Pair {
  Body *a, *b;                       // null for a number
  const Body* like;                  // whose shape and order the output has
  const Body* transposed = nullptr;  // the input that is a transposed matrix
  bool alike = false;                // both of one shape
  unsigned numbers = 0;              // bit i: input i is a number or has one element
  Pass pass;
  DType from, to;
  const void* inputs[2];
  double number;
};

/// False where the pair is none for the fast path.
[[gnu::always_inline]] inline bool find_pass(const Context& context, const Op& op, const Operand& x,
                                             const Operand& y, Pair& pair) {
  Body *const a = pair.a, *const b = pair.b;
  if (context.path_mode() & ~recording || (!a && !b)) [[unlikely]]
    return false;
  pair.like = a ? a : b;
  pair.from = pair.like->dtype;
  pair.to = op.result_dtype(pair.from);
  pair.pass = any_fast_pass_of(op, pair.from);
  if (!pair.pass) return false;
  if (!a || !b) {
    const Operand& number = a ? y : x;
    if (!takes_number(context, op, *pair.like, number)) return false;
    const void* const stored = stored_number(number, pair.from, pair.number);
    pair.numbers = a ? 2 : 1;
    pair.inputs[0] = a ? a->data : stored;
    pair.inputs[1] = a ? stored : b->data;
    return true;
  }
  if (b->dtype != pair.from) return false;
  pair.inputs[0] = a->data;
  pair.inputs[1] = b->data;
  pair.alike = a->shape == b->shape;
  if (is_plain(*a) && is_plain(*b)) [[likely]] {
    if (pair.alike || is_row_of(*b, *a)) return true;
    if (b->elements == 1 && b->rank() <= a->rank()) {
      pair.numbers = 2;
    } else if (a->elements == 1 && a->rank() <= b->rank()) {
      pair.numbers = 1;
      pair.like = b;
    }
    return pair.numbers;
  }
  if (!pair.alike || pair.to != pair.from || a->device_kind | b->device_kind) return false;
  pair.transposed = transposed_one(*a, *b);
  pair.like = pair.transposed == a ? b : a;
  return pair.transposed;
}

/// The result of a pass, in a temporary's memory where the gradient does not need it; undefined if
/// there is no memory.
template <class Call>
[[gnu::always_inline]] inline Tensor run_pair(Context& context, const Operand& x, const Operand& y,
                                              const Pair& p, unsigned needs, Call& call) {
  const Operand* reused = nullptr;
  if (p.like == p.a && !p.transposed && !(needs & 1) && reusable(x, p.a, p.to))
    reused = &x;
  else if ((p.alike || p.like == p.b) && !p.transposed && !(needs & 2) && reusable(y, p.b, p.to))
    reused = &y;
  Tensor result = Access::adopt(reused ? nullptr : allocate_like(context, p.to, *p.like));
  if (!reused && !result.defined()) return {};
  call.begin();
  if (reused) result = Access::adopt(taken_over(context, *reused));
  Body* const out = Access::body(result);
  if (p.alike && !p.transposed) [[likely]]
    run_pass(p.pass, out->elements, p.inputs, 2, p.from, 0, out->data, p.to);
  else if (p.numbers)
    run_pass(p.pass, out->elements, p.inputs, 2, p.from, p.numbers, out->data, p.to);
  else if (p.transposed)
    host_backend().run_transposed(p.pass, *p.transposed, *p.like, p.transposed == p.a, *out);
  else
    host_backend().run_rows(p.pass, *p.a, *p.b, *out);
  call.end(&out, 1);
  return result;
}

/// A number as a tensor, for observers.
inline void set_number(Body& header, const Pair& pair) {
  header.references = 1;
  header.dtype = pair.from;
  header.contiguous = true;
  header.leaf = no_record;
  header.elements = 1;
  header.data = reinterpret_cast<std::byte*>(const_cast<double*>(&pair.number));
}

/// Every pair that the fast path takes.
template <Needed needed>
[[gnu::noinline]] Tensor run_any_pair(Context& context, Op& op, const Operand& x,
                                      const Operand& y) {
  constexpr bool any = needed == Needed::by_any;
  Pair pair;
  pair.a = body_of(x);
  pair.b = body_of(y);
  if (any && context.is_watchful() &&
      ((pair.a && may_give_marks(context, *pair.a)) ||
       (pair.b && may_give_marks(context, *pair.b))))
    return run(op, x, y);
  if (!find_pass(context, op, x, y, pair)) return run(op, x, y);
  Body* const bodies[] = {pair.a, pair.b};
  Origin origins[2];
  if (needed == Needed::by_tape || (any && context.mode & recording))
    for (int i = 0; i < 2; ++i) origins[i] = origin_of(context, i ? y : x, bodies[i]);
  const std::uint64_t tapes = origins[0].tapes | origins[1].tapes;
  const Operand* const operands[] = {&x, &y};
  std::optional<Body> number;
  if (any && (!pair.a || !pair.b)) set_number(number.emplace(), pair);
  Body* const of_number = number ? &*number : nullptr;
  const Body* const inputs[] = {pair.a ? pair.a : of_number, pair.b ? pair.b : of_number};
  CallOf<any> call(context, op, operands, inputs, 2);
  const unsigned needs = tapes ? needs_of(op, origins, 2) : 0;
  Tensor result = run_pair(context, x, y, pair, needs, call);
  if (!result.defined()) return run(op, x, y);
  if (!tapes) return result;
  const Caller caller = context.caller_of(x.caller());
  Body* const out = Access::body(result);
  if (op.gradient.differentiable && pair.alike && !pair.transposed)
    call.recorded(leave_record_alike<2>(context, op, caller, bodies, origins, needs, out, tapes));
  else if (op.gradient.differentiable)
    leave_record(context, op, {}, caller, bodies, origins, 2, &out, 1, tapes);
  else
    note_cut(context, op, caller, origins, 2);
  return result;
}

/// A tensor and a number while nothing watches: the same in fewer instructions.
[[gnu::noinline, gnu::flatten]] Tensor run_with_number(Context& context, Op& op, const Operand& x,
                                                       const Operand& y, Body* a, Body* b) {
  Body* const tensor = a ? a : b;
  const Operand& number = a ? y : x;
  if (!tensor || !takes_number(context, op, *tensor, number)) return run(op, x, y);
  const Pass pass = fast_pass_of(op, tensor->dtype);
  if (!pass) return run(op, x, y);
  const DType dtype = op.result_dtype(tensor->dtype);
  const Operand& other = a ? x : y;
  Body* const out = reusable(other, tensor, dtype) ? taken_over(context, other)
                                                   : allocate_like(context, dtype, *tensor);
  if (!out) return run(op, x, y);
  double memory;
  const void* const stored = stored_number(number, tensor->dtype, memory);
  const void* inputs[] = {a ? a->data : stored, b ? b->data : stored};
  run_pass(pass, tensor->elements, inputs, 2, tensor->dtype, a ? 2 : 1, out->data, dtype);
  return Access::adopt(out);
}

/// The commonest pairs, in the fewest instructions: tensors of one shape in order, without a
/// temporary or under a tape.
template <Needed needed>
[[gnu::always_inline]] inline Tensor run_alike(Context& context, Op& op, const Operand& x,
                                               const Operand& y) {
  constexpr bool recorded = needed != Needed::by_none, watched = needed == Needed::by_observers;
  constexpr Needed at_most = watched ? Needed::by_any : needed;
  Body* const bodies[] = {body_of(x), body_of(y)};
  Body *const a = bodies[0], *const b = bodies[1];
  if (!recorded && (!a || !b)) [[unlikely]]
    return run_with_number(context, op, x, y, a, b);
  if (!a || !b || a->dtype != b->dtype || !is_plain(*a) || !is_plain(*b) ||
      !(a->shape == b->shape) || (recorded && !op.gradient.differentiable)) [[unlikely]]
    return run_any_pair<at_most>(context, op, x, y);
  const Pass pass = fast_pass_of(op, a->dtype);
  const DType dtype = recorded ? a->dtype : op.result_dtype(a->dtype);
  if (!pass || (!recorded && (reusable(x, a, dtype) || reusable(y, b, dtype))))
    return run_any_pair<at_most>(context, op, x, y);
  const void* inputs[] = {a->data, b->data};
  if constexpr (!recorded) {
    Body* const out = allocate_like(context, dtype, *a);
    if (!out) [[unlikely]]
      return run(op, x, y);
    run_pass(pass, a->elements, inputs, 2, a->dtype, 0, out->data, dtype);
    return Access::adopt(out);
  } else {
    const Origin origins[] = {origin_of(context, x, a), origin_of(context, y, b)};
    const std::uint64_t tapes = origins[0].tapes | origins[1].tapes;
    const unsigned needs = needs_of(op, origins, 2);
    const Operand* const operands[] = {&x, &y};
    CallOf<watched> call(context, op, operands, bodies, 2);
    Body* out;
    if (!(needs & 1) && reusable(x, a, dtype))
      call.begin(), out = taken_over(context, x);
    else if (!(needs & 2) && reusable(y, b, dtype))
      call.begin(), out = taken_over(context, y);
    else if (!(out = allocate_like(context, dtype, *a)))
      return run(op, x, y);
    else if constexpr (watched)
      try {
        call.begin();
      } catch (...) {
        release(out);
        throw;
      }
    Tensor result = Access::adopt(out);
    run_pass(pass, out->elements, inputs, 2, dtype, 0, out->data, dtype);
    call.end(&out, 1);
    if (tapes)
      call.recorded(leave_record_alike<2>(context, op, context.caller_of(x.caller()), bodies,
                                          origins, needs, out, tapes));
    return result;
  }
}
[[gnu::noinline]] Tensor run_recorded_pair(Context& context, Op& op, const Operand& x,
                                           const Operand& y) {
  return run_alike<Needed::by_tape>(context, op, x, y);
}
[[gnu::noinline]] Tensor run_observed_pair(Context& context, Op& op, const Operand& x,
                                           const Operand& y) {
  return run_alike<Needed::by_observers>(context, op, x, y);
}
}  // namespace

Tensor run_binary(Op& op, const Operand& x, const Operand& y) {
  Context& context = Context::here();
  if (const int flags = context.dispatch_flags())
    return (flags == recording                ? run_recorded_pair
            : flags == (recording | observed) ? run_observed_pair
                                              : run_any_pair<Needed::by_any>)(context, op, x, y);
  return run_alike<Needed::by_none>(context, op, x, y);
}
}  // namespace reel
