// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/compare.hpp>

#include <limits>

#include <reel/ops/activation.hpp>
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/math.hpp>
#include <reel/ops/reshape.hpp>

#include "lib/dispatch/context.hpp"
#include "lib/dispatch/gate.hpp"
#include "lib/ops/ops.hpp"
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

constexpr Op comparison(std::string_view name, int arity, Samples samples) {
  return Op{.name = name,
            .arity = arity,
            .shape = broadcast_to_bool,
            .promote = Promote::numeric,
            .fusion = Fusion::pointwise,
            .differentiable = false,
            .samples = samples};
}
void compare_samples(SampleList out, Binary f) { binary_samples(out, f, coarse, coarse); }
}  // namespace

constinit Op equal_op =
    comparison("equal", 2, [](SampleList out) { compare_samples(out, operator==); });
constinit Op not_equal_op =
    comparison("not_equal", 2, [](SampleList out) { compare_samples(out, operator!=); });
constinit Op less_op =
    comparison("less", 2, [](SampleList out) { compare_samples(out, operator<); });
constinit Op less_equal_op =
    comparison("less_equal", 2, [](SampleList out) { compare_samples(out, operator<=); });
constinit Op greater_op =
    comparison("greater", 2, [](SampleList out) { compare_samples(out, operator>); });
constinit Op greater_equal_op =
    comparison("greater_equal", 2, [](SampleList out) { compare_samples(out, operator>=); });
constinit Op logical_and_op =
    comparison("logical_and", 2, [](SampleList out) { compare_samples(out, logical_and); });
constinit Op logical_or_op =
    comparison("logical_or", 2, [](SampleList out) { compare_samples(out, logical_or); });
constinit Op logical_xor_op =
    comparison("logical_xor", 2, [](SampleList out) { compare_samples(out, logical_xor); });
constinit Op logical_not_op =
    comparison("logical_not", 1, [](SampleList out) { unary_samples(out, logical_not, coarse); });
constinit Op where_op{.name = "where",
                      .arity = 3,
                      .shape = where_shape,
                      .promote = Promote::numeric,
                      .promoted = 0b110,
                      .needs = {{0, need_input(0), need_input(0)}},
                      .fusion = Fusion::pointwise,
                      .samples = where_samples,
                      .argument_names = "condition, x, y"};

Tensor operator==(Operand x, Operand y) { return run_binary(equal_op, x, y); }
Tensor operator!=(Operand x, Operand y) { return run_binary(not_equal_op, x, y); }
Tensor operator<(Operand x, Operand y) { return run_binary(less_op, x, y); }
Tensor operator<=(Operand x, Operand y) { return run_binary(less_equal_op, x, y); }
Tensor operator>(Operand x, Operand y) { return run_binary(greater_op, x, y); }
Tensor operator>=(Operand x, Operand y) { return run_binary(greater_equal_op, x, y); }

Tensor logical_and(Operand x, Operand y) { return run_binary(logical_and_op, x, y); }
Tensor logical_or(Operand x, Operand y) { return run_binary(logical_or_op, x, y); }
Tensor logical_xor(Operand x, Operand y) { return run_binary(logical_xor_op, x, y); }
Tensor logical_not(Operand x) { return run_unary(logical_not_op, x); }
Tensor operator&(Operand x, Operand y) { return run_binary(logical_and_op, x, y); }
Tensor operator|(Operand x, Operand y) { return run_binary(logical_or_op, x, y); }
Tensor operator~(Operand x) { return run_unary(logical_not_op, x); }

Tensor where(Operand condition, Operand x, Operand y) { return run(where_op, {condition, x, y}); }

bool allclose(Operand x, Operand y, Tolerance tolerance) {
  const FunctionScope scope(x.caller(), "allclose");
  for (const auto& [name, value] : {std::pair("rtol", tolerance.rtol), {"atol", tolerance.atol}})
    if (!(value >= 0)) fail<Error>(x.caller(), "allclose", name, "at least 0", to_text(value));
  const DType dtypes[] = {dtype_of(subtract_op, x), dtype_of(subtract_op, y, 1)};
  const bool integers = !is_floating(dtypes[0]) && !is_floating(dtypes[1]);
  // In float64: differences of unsigned or large integers would wrap. Equal infinities are close.
  const Tensor a = cast(stop_gradient(x), DType::float64);
  const Tensor b = cast(stop_gradient(y), DType::float64);
  Tensor distance = abs(a - b);
  if (integers) {
    const Tensor i = cast(x, DType::int64), k = cast(y, DType::int64);
    const Tensor exact = maximum(i, k) - minimum(i, k);  // negative where it wraps
    distance = where(exact < 0, distance, cast(exact, DType::float64));
  }
  const Tensor near = distance <= tolerance.atol + tolerance.rtol * abs(b);
  if (integers) return static_cast<bool>(all(near));
  const Tensor finite = abs(b) < std::numeric_limits<double>::infinity();
  return static_cast<bool>(all((near & finite) | (a == b)));
}

bool equal(Operand x, Operand y) {
  const FunctionScope scope(x.caller(), "equal");
  if (!(shape_of(equal_op, x) == shape_of(equal_op, y, 1))) return false;
  return static_cast<bool>(all(x == y));
}

void add_compare(OpTable& ops) {
  for (Op* op : {&equal_op, &not_equal_op, &less_op, &less_equal_op, &greater_op, &greater_equal_op,
                 &logical_and_op, &logical_or_op, &logical_xor_op, &logical_not_op, &where_op})
    ops.add(*op);
}
}  // namespace reel
