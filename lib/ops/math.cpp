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
constexpr Draw even{.grid = 0.5};
}  // namespace

constinit Op abs_op =
    pointwise<formulas::Abs>([](SampleList out) { unary_samples(out, abs, off_zero); });
constinit Op exp_op = pointwise<formulas::Exp>(
    [](SampleList out) { unary_samples(out, exp); },
    {.autocast = Autocast::full,
     .not_finite = "exp of float32 overflows from 88.8 on, of float64 from 709.8 on."});
constinit Op log_op =
    pointwise<formulas::Log>([](SampleList out) { unary_samples(out, log, positive); },
                             {.autocast = Autocast::full,
                              .not_finite = "log(0) is -inf; log of a negative number is nan.",
                              .slope_not_finite = "The slope of log at 0 is infinite."});
constinit Op square_op =
    pointwise<formulas::Square>([](SampleList out) { unary_samples(out, square); });
constinit Op sqrt_op =
    pointwise<formulas::Sqrt>([](SampleList out) { unary_samples(out, sqrt, positive); },
                              {.not_finite = "sqrt of a negative number is nan.",
                               .slope_not_finite = "The slope of sqrt at 0 is infinite."});
constinit Op exp2_op = pointwise<formulas::Exp2>([](SampleList out) { unary_samples(out, exp2); },
                                                 {.autocast = Autocast::full});
constinit Op expm1_op = pointwise<formulas::Expm1>(
    [](SampleList out) { unary_samples(out, expm1); }, {.autocast = Autocast::full});
constinit Op log1p_op = pointwise<formulas::Log1p>(
    [](SampleList out) {
      unary_samples(out, log1p, {-0.7, 3});
    },
    {.autocast = Autocast::full,
     .not_finite = "log1p(-1) is -inf; below -1 it is nan.",
     .slope_not_finite = "The slope of log1p at -1 is infinite."});
constinit Op log2_op =
    pointwise<formulas::Log2>([](SampleList out) { unary_samples(out, log2, positive); },
                              {.autocast = Autocast::full,
                               .not_finite = "log2(0) is -inf; log2 of a negative number is nan.",
                               .slope_not_finite = "The slope of log2 at 0 is infinite."});
constinit Op reciprocal_op = pointwise<formulas::Reciprocal>(
    [](SampleList out) { unary_samples(out, reciprocal, positive); },
    {.autocast = Autocast::full,
     .not_finite = "reciprocal(0) is infinite.",
     .slope_not_finite = "The slope of reciprocal at 0 is infinite."});
constinit Op rsqrt_op =
    pointwise<formulas::Rsqrt>([](SampleList out) { unary_samples(out, rsqrt, positive); },
                               {.autocast = Autocast::full,
                                .not_finite = "rsqrt(0) is inf; rsqrt of a negative number is nan.",
                                .slope_not_finite = "The slope of rsqrt at 0 is infinite."});
constinit Op erf_op = pointwise<formulas::Erf>([](SampleList out) { unary_samples(out, erf); });
constinit Op erfc_op = pointwise<formulas::Erfc>([](SampleList out) { unary_samples(out, erfc); });
constinit Op ceil_op =
    pointwise<formulas::Ceil>([](SampleList out) { unary_samples(out, ceil, off_zero); });
constinit Op floor_op =
    pointwise<formulas::Floor>([](SampleList out) { unary_samples(out, floor, off_zero); });
constinit Op round_op =
    pointwise<formulas::Round>([](SampleList out) { unary_samples(out, round, off_zero); });
constinit Op trunc_op =
    pointwise<formulas::Trunc>([](SampleList out) { unary_samples(out, trunc, off_zero); });
constinit Op sign_op =
    pointwise<formulas::Sign>([](SampleList out) { unary_samples(out, sign, off_zero); });
constinit Op logaddexp_op = pointwise<formulas::LogAddExp>(
    [](SampleList out) { binary_samples(out, logaddexp, even, even); },
    {.autocast = Autocast::full});
constinit Op hypot_op =
    pointwise<formulas::Hypot>([](SampleList out) { binary_samples(out, hypot, {}, positive); });
constinit Op floor_divide_op = pointwise<formulas::FloorDivide>([](SampleList out) {
  binary_samples(out, floor_divide, off_zero, {2.5, 3.5});
});

Tensor abs(Operand x) { return run_unary(abs_op, x); }
Tensor exp(Operand x) { return run_unary(exp_op, x); }
Tensor log(Operand x) { return run_unary(log_op, x); }
Tensor square(Operand x) { return run_unary(square_op, x); }
Tensor sqrt(Operand x) { return run_unary(sqrt_op, x); }
Tensor exp2(Operand x) { return run_unary(exp2_op, x); }
Tensor expm1(Operand x) { return run_unary(expm1_op, x); }
Tensor log1p(Operand x) { return run_unary(log1p_op, x); }
Tensor log2(Operand x) { return run_unary(log2_op, x); }
Tensor reciprocal(Operand x) { return run_unary(reciprocal_op, x); }
Tensor rsqrt(Operand x) { return run_unary(rsqrt_op, x); }
Tensor erf(Operand x) { return run_unary(erf_op, x); }
Tensor erfc(Operand x) { return run_unary(erfc_op, x); }
Tensor ceil(Operand x) { return run_unary(ceil_op, x); }
Tensor floor(Operand x) { return run_unary(floor_op, x); }
Tensor round(Operand x) { return run_unary(round_op, x); }
Tensor trunc(Operand x) { return run_unary(trunc_op, x); }
Tensor sign(Operand x) { return run_unary(sign_op, x); }
Tensor logaddexp(Operand x, Operand y) { return run_binary(logaddexp_op, x, y); }
Tensor hypot(Operand x, Operand y) { return run_binary(hypot_op, x, y); }
Tensor floor_divide(Operand x, Operand y) { return run_binary(floor_divide_op, x, y); }

const Entry math_ops[] = {&abs_op,          &exp_op,   &log_op,   &square_op,    &sqrt_op,
                          &exp2_op,         &expm1_op, &log1p_op, &log2_op,      &reciprocal_op,
                          &rsqrt_op,        &erf_op,   &erfc_op,  &ceil_op,      &floor_op,
                          &round_op,        &trunc_op, &sign_op,  &logaddexp_op, &hypot_op,
                          &floor_divide_op, nullptr};
}  // namespace reel
