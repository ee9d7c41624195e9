// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/trigonometry.hpp>

#include "lib/formulas/trigonometry.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/pointwise.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
constinit Op acos_op = pointwise<formulas::Acos>(
    [](SampleList out) {
      unary_samples(out, acos, {-0.9, 0.9});
    },
    {.autocast = Autocast::full,
     .not_finite = "acos is nan outside of [-1, 1].",
     .slope_not_finite = "The slope of acos at -1 and 1 is infinite."});
constinit Op asin_op = pointwise<formulas::Asin>(
    [](SampleList out) {
      unary_samples(out, asin, {-0.9, 0.9});
    },
    {.autocast = Autocast::full,
     .not_finite = "asin is nan outside of [-1, 1].",
     .slope_not_finite = "The slope of asin at -1 and 1 is infinite."});
constinit Op atan_op = pointwise<formulas::Atan>([](SampleList out) { unary_samples(out, atan); });
constinit Op atan2_op = pointwise<formulas::Atan2>([](SampleList out) {
  binary_samples(out, atan2, {0.3, 2}, {-2, -0.3});
});
constinit Op cos_op = pointwise<formulas::Cos>([](SampleList out) { unary_samples(out, cos); });
constinit Op sin_op = pointwise<formulas::Sin>([](SampleList out) { unary_samples(out, sin); });
constinit Op tan_op = pointwise<formulas::Tan>(
    [](SampleList out) {
      unary_samples(out, tan, {-1, 1});
    },
    {.autocast = Autocast::full});
constinit Op acosh_op = pointwise<formulas::Acosh>(
    [](SampleList out) {
      unary_samples(out, acosh, {1.3, 3});
    },
    {.not_finite = "acosh is nan below 1.",
     .slope_not_finite = "The slope of acosh at 1 is infinite."});
constinit Op asinh_op =
    pointwise<formulas::Asinh>([](SampleList out) { unary_samples(out, asinh); });
constinit Op atanh_op = pointwise<formulas::Atanh>(
    [](SampleList out) {
      unary_samples(out, atanh, {-0.9, 0.9});
    },
    {.not_finite = "atanh is infinite at -1 and 1, and nan beyond."});
constinit Op cosh_op = pointwise<formulas::Cosh>([](SampleList out) { unary_samples(out, cosh); },
                                                 {.autocast = Autocast::full});
constinit Op sinh_op = pointwise<formulas::Sinh>([](SampleList out) { unary_samples(out, sinh); },
                                                 {.autocast = Autocast::full});

Tensor acos(Operand x) { return run_unary(acos_op, x); }
Tensor asin(Operand x) { return run_unary(asin_op, x); }
Tensor atan(Operand x) { return run_unary(atan_op, x); }
Tensor atan2(Operand y, Operand x) { return run_binary(atan2_op, y, x); }
Tensor cos(Operand x) { return run_unary(cos_op, x); }
Tensor sin(Operand x) { return run_unary(sin_op, x); }
Tensor tan(Operand x) { return run_unary(tan_op, x); }
Tensor acosh(Operand x) { return run_unary(acosh_op, x); }
Tensor asinh(Operand x) { return run_unary(asinh_op, x); }
Tensor atanh(Operand x) { return run_unary(atanh_op, x); }
Tensor cosh(Operand x) { return run_unary(cosh_op, x); }
Tensor sinh(Operand x) { return run_unary(sinh_op, x); }

const Entry trigonometry_ops[] = {&acos_op, &asin_op, &atan_op,  &atan2_op, &cos_op,
                                  &sin_op,  &tan_op,  &acosh_op, &asinh_op, &atanh_op,
                                  &cosh_op, &sinh_op, nullptr};
}  // namespace reel
