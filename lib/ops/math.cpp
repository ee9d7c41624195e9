// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/math.hpp>

#include "lib/formulas/math.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/pointwise.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
constexpr Draw positive{0.3, 3};
constexpr Draw off_zero{.grid = 0.25, .offset = 0.125};
}  // namespace

constinit Op abs_op =
    pointwise<formulas::Abs>([](SampleList out) { unary_samples(out, abs, off_zero); });
constinit Op exp_op = pointwise<formulas::Exp>([](SampleList out) { unary_samples(out, exp); });
constinit Op log_op =
    pointwise<formulas::Log>([](SampleList out) { unary_samples(out, log, positive); });
constinit Op square_op =
    pointwise<formulas::Square>([](SampleList out) { unary_samples(out, square); });
constinit Op sqrt_op =
    pointwise<formulas::Sqrt>([](SampleList out) { unary_samples(out, sqrt, positive); });

Tensor abs(Operand x) { return run_unary(abs_op, x); }
Tensor exp(Operand x) { return run_unary(exp_op, x); }
Tensor log(Operand x) { return run_unary(log_op, x); }
Tensor square(Operand x) { return run_unary(square_op, x); }
Tensor sqrt(Operand x) { return run_unary(sqrt_op, x); }

const Entry math_ops[] = {&abs_op, &exp_op, &log_op, &square_op, &sqrt_op, nullptr};
}  // namespace reel
