// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/arithmetic.hpp>

#include "lib/formulas/arithmetic.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/pointwise.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
// maximum and minimum have no derivative at equal numbers, so x and y are on two grids without a
// common number.
constexpr Draw even{.grid = 0.25}, odd{.grid = 0.25, .offset = 0.125};
constexpr Draw positive{0.5, 3};

Tensor clip_below(Operand x, Operand low);
Tensor clip_above(Operand x, Operand high);

void lerp_samples(SampleList out) {
  const auto call = [](const std::vector<Tensor>& in) { return lerp(in[0], in[1], in[2]); };
  unsigned seed = 0;
  for (const auto& [shape, layout] : varied()) {
    sample(out, {drawn(shape, layout, {}, seed), drawn(shape, {}, seed + 3), drawn(shape, {-1, 2})},
           call);
    const Shape last = shape.rank() ? Shape{shape.end()[-1]} : Shape{};
    sample(out,
           {drawn(last, {}, seed), drawn(shape, layout, {}, seed + 3), drawn({}, {0, 1}, seed)},
           call);
    ++seed;
  }
}
}  // namespace

constinit Op add_op = pointwise<formulas::Add>([](SampleList out) { binary_samples(out, add); });
constinit Op subtract_op =
    pointwise<formulas::Subtract>([](SampleList out) { binary_samples(out, subtract); },
                                  {.bool_advice = "Use x ^ y, or cast it first."});
constinit Op multiply_op =
    pointwise<formulas::Multiply>([](SampleList out) { binary_samples(out, multiply); });
constinit Op divide_op =
    pointwise<formulas::Divide>([](SampleList out) { binary_samples(out, divide, {}, positive); },
                                {.not_finite = "Was a number divided by 0?",
                                 .slope_not_finite = "Is the divisor 0, or very small?"});
constinit Op remainder_op = pointwise<formulas::Remainder>(
    [](SampleList out) {
      binary_samples(out, remainder, odd, {2.5, 3.5});
    },
    {.not_finite = "The remainder of a division by 0 is nan."});
constinit Op negative_op =
    pointwise<formulas::Negative>([](SampleList out) { unary_samples(out, negative); },
                                  {.bool_advice = "Use ~x, or cast it first."});
constinit Op maximum_op =
    pointwise<formulas::Maximum>([](SampleList out) { binary_samples(out, maximum, even, odd); });
constinit Op minimum_op =
    pointwise<formulas::Minimum>([](SampleList out) { binary_samples(out, minimum, even, odd); });
constinit Op power_op = pointwise<formulas::Power>(
    [](SampleList out) {
      binary_samples(out, power, positive, {-2, 3});
      binary_samples(out, power, positive, {-2, 3, 1});
    },
    {.autocast = Autocast::full,
     .not_finite = "0 to a negative power is inf; a negative number to a fraction is nan.",
     .slope_not_finite = "The slope of power(x, y) at 0 is infinite for y below 1."});
constinit Op clip_below_op = pointwise<formulas::ClipBelow>(
    [](SampleList out) { binary_samples(out, clip_below, even, odd); },
    {.internal = true, .argument_names = "x, low", .function = "clip"});
constinit Op clip_above_op = pointwise<formulas::ClipAbove>(
    [](SampleList out) { binary_samples(out, clip_above, even, odd); },
    {.internal = true, .argument_names = "x, high", .function = "clip"});
constinit Op lerp_op = pointwise<formulas::Lerp>(lerp_samples, {.argument_names = "x, y, weight"});

Tensor add(Operand x, Operand y) { return run_binary(add_op, x, y); }
Tensor subtract(Operand x, Operand y) { return run_binary(subtract_op, x, y); }
Tensor multiply(Operand x, Operand y) { return run_binary(multiply_op, x, y); }
Tensor divide(Operand x, Operand y) { return run_binary(divide_op, x, y); }
Tensor remainder(Operand x, Operand y) { return run_binary(remainder_op, x, y); }
Tensor negative(Operand x) { return run_unary(negative_op, x); }
Tensor maximum(Operand x, Operand y) { return run_binary(maximum_op, x, y); }
Tensor minimum(Operand x, Operand y) { return run_binary(minimum_op, x, y); }
Tensor power(Operand x, Operand y) { return run_binary(power_op, x, y); }

namespace {
Tensor clip_below(Operand x, Operand low) { return run_binary(clip_below_op, x, low); }
Tensor clip_above(Operand x, Operand high) { return run_binary(clip_above_op, x, high); }
}  // namespace
Tensor clip(Operand x, Operand low, Operand high) {
  const FunctionScope scope(x.caller(), "clip");
  return clip_above(clip_below(x, low), high);
}
Tensor lerp(Operand x, Operand y, Operand weight) { return run(lerp_op, {x, y, weight}); }

Tensor operator+(Operand x, Operand y) { return run_binary(add_op, x, y); }
Tensor operator-(Operand x, Operand y) { return run_binary(subtract_op, x, y); }
Tensor operator*(Operand x, Operand y) { return run_binary(multiply_op, x, y); }
Tensor operator/(Operand x, Operand y) { return run_binary(divide_op, x, y); }
Tensor operator%(Operand x, Operand y) { return run_binary(remainder_op, x, y); }
Tensor operator-(Operand x) { return run_unary(negative_op, x); }

namespace {
// x is moved, so that the op can reuse its memory if nothing else holds it.
Tensor& combine(Op& op, Tensor& x, const Operand& y) {
  return x = run_binary(op, Operand(std::move(x), y.caller()), y);
}
}  // namespace
Tensor& operator+=(Tensor& x, Operand y) { return combine(add_op, x, y); }
Tensor& operator-=(Tensor& x, Operand y) { return combine(subtract_op, x, y); }
Tensor& operator*=(Tensor& x, Operand y) { return combine(multiply_op, x, y); }
Tensor& operator/=(Tensor& x, Operand y) { return combine(divide_op, x, y); }

const Entry arithmetic_ops[] = {&add_op,       &subtract_op,   &multiply_op,   &divide_op,
                                &remainder_op, &negative_op,   &maximum_op,    &minimum_op,
                                &power_op,     &clip_below_op, &clip_above_op, &lerp_op,
                                nullptr};
}  // namespace reel
