// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/arithmetic.hpp>

#include "lib/formulas/arithmetic.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/pointwise.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
// Equal numbers are kinks of maximum and minimum: x and y lie on grids between each other's.
constexpr Draw even{.grid = 0.25}, odd{.grid = 0.25, .offset = 0.125};
constexpr Draw positive{0.5, 3};
}  // namespace

constinit Op add_op = pointwise<formulas::Add>([](SampleList out) { binary_samples(out, add); });
constinit Op subtract_op =
    pointwise<formulas::Subtract>([](SampleList out) { binary_samples(out, subtract); });
constinit Op multiply_op =
    pointwise<formulas::Multiply>([](SampleList out) { binary_samples(out, multiply); });
constinit Op divide_op =
    pointwise<formulas::Divide>([](SampleList out) { binary_samples(out, divide, {}, positive); });
constinit Op remainder_op = pointwise<formulas::Remainder>([](SampleList out) {
  binary_samples(out, remainder, odd, {2.5, 3.5});
});
constinit Op negative_op =
    pointwise<formulas::Negative>([](SampleList out) { unary_samples(out, negative); });
constinit Op maximum_op =
    pointwise<formulas::Maximum>([](SampleList out) { binary_samples(out, maximum, even, odd); });
constinit Op minimum_op =
    pointwise<formulas::Minimum>([](SampleList out) { binary_samples(out, minimum, even, odd); });
constinit Op power_op = pointwise<formulas::Power>([](SampleList out) {
  binary_samples(out, power, positive, {-2, 3});
});

Tensor add(Operand x, Operand y) { return run_binary(add_op, x, y); }
Tensor subtract(Operand x, Operand y) { return run_binary(subtract_op, x, y); }
Tensor multiply(Operand x, Operand y) { return run_binary(multiply_op, x, y); }
Tensor divide(Operand x, Operand y) { return run_binary(divide_op, x, y); }
Tensor remainder(Operand x, Operand y) { return run_binary(remainder_op, x, y); }
Tensor negative(Operand x) { return run_unary(negative_op, x); }
Tensor maximum(Operand x, Operand y) { return run_binary(maximum_op, x, y); }
Tensor minimum(Operand x, Operand y) { return run_binary(minimum_op, x, y); }
Tensor power(Operand x, Operand y) { return run_binary(power_op, x, y); }

Tensor operator+(Operand x, Operand y) { return run_binary(add_op, x, y); }
Tensor operator-(Operand x, Operand y) { return run_binary(subtract_op, x, y); }
Tensor operator*(Operand x, Operand y) { return run_binary(multiply_op, x, y); }
Tensor operator/(Operand x, Operand y) { return run_binary(divide_op, x, y); }
Tensor operator%(Operand x, Operand y) { return run_binary(remainder_op, x, y); }
Tensor operator-(Operand x) { return run_unary(negative_op, x); }

namespace {
// x gives its buffer away, so that an unshared one is used again.
Tensor& combine(Op& op, Tensor& x, const Operand& y) try {
  return x = run_binary(op, Operand(std::move(x), y.caller()), y);
} catch (const std::bad_alloc&) {
  fail_memory(y.caller(), op.name);
}
}  // namespace
Tensor& operator+=(Tensor& x, Operand y) { return combine(add_op, x, y); }
Tensor& operator-=(Tensor& x, Operand y) { return combine(subtract_op, x, y); }
Tensor& operator*=(Tensor& x, Operand y) { return combine(multiply_op, x, y); }
Tensor& operator/=(Tensor& x, Operand y) { return combine(divide_op, x, y); }

const Entry arithmetic_ops[] = {&add_op,      &subtract_op, &multiply_op, &divide_op, &remainder_op,
                                &negative_op, &maximum_op,  &minimum_op,  &power_op,  nullptr};
}  // namespace reel
