// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/arithmetic.hpp>

#include "lib/dispatch/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
// Truth values add and multiply (or, and); they have no difference, remainder or sign.
void numbers(Inference& call) {
  broadcast(call);
  if (call.made(0).dtype == DType::boolean)
    fail<DTypeError>(call.caller, call.op.name, argument_name(call.op, 0), "numbers", "bool",
                     "Cast it first, or use logical_xor, logical_not.");
}

// Equal numbers are kinks of maximum and minimum: x and y lie on grids between each other's.
constexpr Draw even{.grid = 0.25}, odd{.grid = 0.25, .offset = 0.125};
constexpr Draw positive{0.5, 3};
}  // namespace

constinit Op add_op{.name = "add",
                    .arity = 2,
                    .shape = broadcast,
                    .promote = Promote::numeric,
                    .fusion = Fusion::pointwise,
                    .passes = 0b11,
                    .samples = [](SampleList out) { binary_samples(out, add); }};
constinit Op subtract_op{.name = "subtract",
                         .arity = 2,
                         .shape = numbers,
                         .promote = Promote::numeric,
                         .fusion = Fusion::pointwise,
                         .passes = 0b01,
                         .samples = [](SampleList out) { binary_samples(out, subtract); }};
constinit Op multiply_op{.name = "multiply",
                         .arity = 2,
                         .shape = broadcast,
                         .promote = Promote::numeric,
                         .needs = {{need_input(1), need_input(0)}},
                         .fusion = Fusion::pointwise,
                         .samples = [](SampleList out) { binary_samples(out, multiply); }};
constinit Op divide_op{
    .name = "divide",
    .arity = 2,
    .shape = broadcast,
    .promote = Promote::floating,
    .needs = {{need_input(1), need_input(0) | need_input(1)}},
    .fusion = Fusion::pointwise,
    .samples = [](SampleList out) { binary_samples(out, divide, {}, positive); }};
constinit Op remainder_op{.name = "remainder",
                          .arity = 2,
                          .shape = numbers,
                          .promote = Promote::numeric,
                          .needs = {{0, need_input(0) | need_input(1) | need_output()}},
                          .fusion = Fusion::pointwise,
                          .passes = 0b01,
                          .samples = [](SampleList out) {
                            binary_samples(out, remainder, odd, {2.5, 3.5});
                          }};
constinit Op negative_op{.name = "negative",
                         .shape = numbers,
                         .promote = Promote::numeric,
                         .fusion = Fusion::pointwise,
                         .samples = [](SampleList out) { unary_samples(out, negative); }};
constinit Op maximum_op{.name = "maximum",
                        .arity = 2,
                        .shape = broadcast,
                        .promote = Promote::numeric,
                        .needs = {{need_input(0) | need_input(1), need_input(0) | need_input(1)}},
                        .fusion = Fusion::pointwise,
                        .samples = [](SampleList out) { binary_samples(out, maximum, even, odd); }};
constinit Op minimum_op{.name = "minimum",
                        .arity = 2,
                        .shape = broadcast,
                        .promote = Promote::numeric,
                        .needs = {{need_input(0) | need_input(1), need_input(0) | need_input(1)}},
                        .fusion = Fusion::pointwise,
                        .samples = [](SampleList out) { binary_samples(out, minimum, even, odd); }};
constinit Op power_op{
    .name = "power",
    .arity = 2,
    .shape = broadcast,
    .promote = Promote::floating,
    .needs = {{need_input(0) | need_input(1), need_input(0) | need_input(1) | need_output()}},
    .fusion = Fusion::pointwise,
    .samples = [](SampleList out) {
      binary_samples(out, power, positive, {-2, 3});
    }};

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

void add_arithmetic(OpTable& ops) {
  for (Op* op : {&add_op, &subtract_op, &multiply_op, &divide_op, &remainder_op, &negative_op,
                 &maximum_op, &minimum_op, &power_op})
    ops.add(*op);
}
}  // namespace reel
