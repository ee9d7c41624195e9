// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/compare.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <reel/ops/activation.hpp>
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/math.hpp>
#include <reel/ops/reshape.hpp>

#include "lib/flow/context.hpp"
#include "lib/formulas/bitwise.hpp"
#include "lib/formulas/compare.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/pointwise.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
void where_shape(Inference& call) {
  if (call.input(0).dtype != DType::boolean)
    fail<DTypeError>(call.caller, call.op.name, argument_name(call.op, 0), "bool",
                     name_of(call.input(0).dtype), "Compare it with something first.");
  broadcast(call);
}

// On one grid, so that some pairs are equal.
constexpr Draw coarse{.grid = 0.5};
Tensor where_larger(Operand x, Operand y) {
  return where(stop_gradient(x) > stop_gradient(y), x, y);
}
void where_samples(SampleList out) {
  binary_samples(out, where_larger, {.grid = 0.25}, {.grid = 0.25, .offset = 0.125});
  for (Layout layout : {Layout::transposed, Layout::repeated})
    sample(out, {drawn({2, 3}, layout), drawn({3}), drawn({2, 1})},
           [](const std::vector<Tensor>& in) {
             return where(stop_gradient(in[0]) > 0.1, in[1], in[2]);
           });
}

/// int64 and float64, on either side.
void order_shape(Inference& call) {
  const DType x = call.input(0).dtype, y = call.input(1).dtype;
  const bool either =
      (x == DType::int64 && y == DType::float64) || (x == DType::float64 && y == DType::int64);
  if (!either)
    fail<DTypeError>(call.caller, call.op.name, "operands", "int64 and float64",
                     Text(name_of(x)) + " and " + Text(name_of(y)));
  call.output(DType::float32, broadcast_shapes(call, 0, 2));
}

/// Calls of f on the pairs of binary_samples(), with these dtypes.
void pair_samples(SampleList out, Binary f, DType x, DType y) {
  std::vector<Sample> pairs;
  binary_samples(pairs, f, {-8, 8, 1}, {-8, 8, 1});
  for (const Sample& pair : pairs)
    if (pair.inputs.size() == 2)
      sample(out, {cast(pair.inputs[0], x), cast(pair.inputs[1], y)}, pair.call);
}
void bits_samples(SampleList out, Binary f) {
  pair_samples(out, f, DType::int64, DType::int32);
  pair_samples(out, f, DType::boolean, DType::boolean);
}
void bitwise_not_samples(SampleList out) {
  for (const DType dtype : {DType::boolean, DType::uint8, DType::int32})
    for (const auto& [shape, layout] : varied())
      sample(out, {cast(drawn(shape, layout, {0, 8, 1}), dtype)},
             [](const std::vector<Tensor>& in) { return ~in[0]; });
}
void shift_samples(SampleList out, Binary f) {
  pair_samples(out, f, DType::int64, DType::int32);
  pair_samples(out, f, DType::uint8, DType::uint8);
}
Tensor order(Operand x, Operand y) {
  const auto wide = [](Operand a) {
    return is_floating(dtype_of(order_op, a)) ? cast(a, DType::float64) : a.value();
  };
  return run(order_op, wide(x), wide(y));
}
void order_samples(SampleList out) {
  pair_samples(out, order, DType::int64, DType::float64);
  pair_samples(out, order, DType::float64, DType::int64);
}

void compare_samples(SampleList out, Binary f) { binary_samples(out, f, coarse, coarse); }
}  // namespace

constinit Op equal_op = comparison<formulas::Equal>(
    [](SampleList out) { compare_samples(out, operator==); }, Promote::exact);
constinit Op not_equal_op = comparison<formulas::NotEqual>(
    [](SampleList out) { compare_samples(out, operator!=); }, Promote::exact);
constinit Op less_op = comparison<formulas::Less>(
    [](SampleList out) { compare_samples(out, operator<); }, Promote::exact);
constinit Op less_equal_op = comparison<formulas::LessEqual>(
    [](SampleList out) { compare_samples(out, operator<=); }, Promote::exact);
constinit Op greater_op = comparison<formulas::Greater>(
    [](SampleList out) { compare_samples(out, operator>); }, Promote::exact);
constinit Op greater_equal_op = comparison<formulas::GreaterEqual>(
    [](SampleList out) { compare_samples(out, operator>=); }, Promote::exact);
// Rounding leaves truths as they are.
constinit Op logical_and_op = comparison<formulas::LogicalAnd>(
    [](SampleList out) { compare_samples(out, logical_and); }, Promote::numeric);
constinit Op logical_or_op = comparison<formulas::LogicalOr>(
    [](SampleList out) { compare_samples(out, logical_or); }, Promote::numeric);
constinit Op logical_xor_op = comparison<formulas::LogicalXor>(
    [](SampleList out) { compare_samples(out, logical_xor); }, Promote::numeric);
constinit Op logical_not_op = comparison<formulas::LogicalNot>(
    [](SampleList out) { unary_samples(out, logical_not, coarse); }, Promote::numeric);
constinit Op isfinite_op = comparison<formulas::IsFinite>(
    [](SampleList out) { unary_samples(out, isfinite); }, Promote::numeric);
constinit Op isinf_op = comparison<formulas::IsInf>(
    [](SampleList out) { unary_samples(out, isinf); }, Promote::numeric);
constinit Op isnan_op = comparison<formulas::IsNan>(
    [](SampleList out) { unary_samples(out, isnan); }, Promote::numeric);
constinit Op bitwise_and_op =
    pointwise<formulas::BitwiseAnd>([](SampleList out) { bits_samples(out, operator&); });
constinit Op bitwise_or_op =
    pointwise<formulas::BitwiseOr>([](SampleList out) { bits_samples(out, operator|); });
constinit Op bitwise_xor_op =
    pointwise<formulas::BitwiseXor>([](SampleList out) { bits_samples(out, operator^); });
constinit Op bitwise_not_op = pointwise<formulas::BitwiseNot>(bitwise_not_samples);
constinit Op left_shift_op =
    pointwise<formulas::LeftShift>([](SampleList out) { shift_samples(out, left_shift); });
constinit Op right_shift_op =
    pointwise<formulas::RightShift>([](SampleList out) { shift_samples(out, right_shift); });
constinit Op order_op{.name = "order",
                      .arity = 2,
                      .shape = order_shape,
                      .fusion = Fusion::pointwise,
                      .differentiable = false,
                      .samples = order_samples};
constinit Op where_op{.name = "where",
                      .arity = 3,
                      .shape = where_shape,
                      .promote = Promote::numeric,
                      .promoted = 0b110,
                      .needs = {{0, need_input(0), need_input(0)}},
                      .fusion = Fusion::pointwise,
                      .moves = true,
                      .samples = where_samples,
                      .argument_names = "condition, x, y"};

Tensor operator==(Operand x, Operand y) { return run_binary(equal_op, x, y); }
Tensor operator!=(Operand x, Operand y) { return run_binary(not_equal_op, x, y); }
Tensor operator<(Operand x, Operand y) { return run_binary(less_op, x, y); }
Tensor operator<=(Operand x, Operand y) { return run_binary(less_equal_op, x, y); }
Tensor operator>(Operand x, Operand y) { return run_binary(greater_op, x, y); }
Tensor operator>=(Operand x, Operand y) { return run_binary(greater_equal_op, x, y); }
Tensor less(Operand x, Operand y) { return run_binary(less_op, x, y); }
Tensor less_equal(Operand x, Operand y) { return run_binary(less_equal_op, x, y); }
Tensor greater(Operand x, Operand y) { return run_binary(greater_op, x, y); }
Tensor greater_equal(Operand x, Operand y) { return run_binary(greater_equal_op, x, y); }
Tensor equal_to(Operand x, Operand y) { return run_binary(equal_op, x, y); }
Tensor not_equal(Operand x, Operand y) { return run_binary(not_equal_op, x, y); }
Tensor isfinite(Operand x) { return run_unary(isfinite_op, x); }
Tensor isinf(Operand x) { return run_unary(isinf_op, x); }
Tensor isnan(Operand x) { return run_unary(isnan_op, x); }

Tensor logical_and(Operand x, Operand y) { return run_binary(logical_and_op, x, y); }
Tensor logical_or(Operand x, Operand y) { return run_binary(logical_or_op, x, y); }
Tensor logical_xor(Operand x, Operand y) { return run_binary(logical_xor_op, x, y); }
Tensor logical_not(Operand x) { return run_unary(logical_not_op, x); }
Tensor operator&(Operand x, Operand y) { return run_binary(bitwise_and_op, x, y); }
Tensor operator|(Operand x, Operand y) { return run_binary(bitwise_or_op, x, y); }
Tensor operator^(Operand x, Operand y) { return run_binary(bitwise_xor_op, x, y); }
Tensor operator~(Operand x) { return run_unary(bitwise_not_op, x); }
namespace {
Tensor shift(Op& op, const Operand& x, const Operand& n) {
  if (dtype_of(op, x) == DType::boolean && dtype_of(op, n, 1) == DType::boolean)
    fail<DTypeError>(x.caller(), op.name, "operands", "integers", name_of(DType::boolean));
  return run_binary(op, x, n);
}
}  // namespace
Tensor left_shift(Operand x, Operand n) { return shift(left_shift_op, x, n); }
Tensor right_shift(Operand x, Operand n) { return shift(right_shift_op, x, n); }

Tensor where(Operand condition, Operand x, Operand y) { return run(where_op, {condition, x, y}); }

namespace {
/// |a - b| in float64. Integers of 64 bits are subtracted before they are rounded.
Tensor distance_of(const Tensor& a, const Tensor& b) {
  const bool a_floats = is_floating(a.dtype()), b_floats = is_floating(b.dtype());
  const Tensor distance = abs(cast(a, DType::float64) - cast(b, DType::float64));
  if (a_floats == b_floats) {
    if (a_floats) return distance;
    const Tensor i = cast(a, DType::int64), k = cast(b, DType::int64);
    const Tensor exact = maximum(i, k) - minimum(i, k);  // negative where it wraps
    return where(exact < 0, distance, cast(exact, DType::float64));
  }
  if (a_floats) return distance_of(b, a);
  if (a.dtype() != DType::int64) return distance;
  // A double cannot hold the last 11 bits of an integer. They are added after the subtraction.
  constexpr std::int64_t most = std::int64_t{1} << 53;
  const Tensor rest = where((a > most) | (a < -most), a & 2047, 0);
  return abs(cast(a - rest, DType::float64) - cast(b, DType::float64) + cast(rest, DType::float64));
}

/// Argument i: a tensor, or a number with all its digits.
Tensor value_of(const Operand& x, int i) {
  const bool floating = is_floating(dtype_of(subtract_op, x, i));
  if (floating && x.kind() == Operand::Kind::scalar) return cast(x, DType::float64);
  return stop_gradient(x);
}
}  // namespace

bool allclose(Operand x, Operand y, Tolerance tolerance) {
  const FunctionScope scope(x.caller(), "allclose");
  for (const auto& [name, value] : {std::pair("rtol", tolerance.rtol), {"atol", tolerance.atol}})
    if (!(value >= 0)) fail<Error>(x.caller(), "allclose", name, "at least 0", to_text(value));
  const Tensor a = value_of(x, 0), b = value_of(y, 1);
  // Computed in float64, because differences of unsigned or large integers would wrap around. Equal
  // infinities are close.
  const Tensor size = abs(cast(b, DType::float64));
  const Tensor near = distance_of(a, b) <= tolerance.atol + tolerance.rtol * size;
  if (!is_floating(b.dtype())) return static_cast<bool>(all(near));
  const Tensor finite = size < std::numeric_limits<double>::infinity();
  Tensor close = (near & finite) | (a == b);
  if (tolerance.equal_nan) close = close | (isnan(a) & isnan(b));
  return static_cast<bool>(all(close));
}

bool equal(Operand x, Operand y) {
  const FunctionScope scope(x.caller(), "equal");
  if (!(shape_of(equal_op, x) == shape_of(equal_op, y, 1))) return false;
  return static_cast<bool>(all(x == y));
}

const Entry compare_ops[] = {&isfinite_op,      &isinf_op,       &isnan_op,       &equal_op,
                             &not_equal_op,     &less_op,        &less_equal_op,  &greater_op,
                             &greater_equal_op, &logical_and_op, &logical_or_op,  &logical_xor_op,
                             &logical_not_op,   &bitwise_and_op, &bitwise_or_op,  &bitwise_xor_op,
                             &bitwise_not_op,   &left_shift_op,  &right_shift_op, &order_op,
                             &where_op,         nullptr};
}  // namespace reel
