// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/math.hpp>

#include "lib/dispatch/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
constexpr Draw positive{0.3, 3};
constexpr Draw off_zero{.grid = 0.25, .offset = 0.125};
}  // namespace

constinit Op abs_op{.name = "abs",
                    .shape = broadcast,
                    .promote = Promote::numeric,
                    .needs = {{need_input(0)}},
                    .fusion = Fusion::pointwise,
                    .samples = [](SampleList out) { unary_samples(out, abs, off_zero); }};
constinit Op exp_op{.name = "exp",
                    .shape = broadcast,
                    .promote = Promote::floating,
                    .needs = {{need_output()}},
                    .fusion = Fusion::pointwise,
                    .samples = [](SampleList out) { unary_samples(out, exp); }};
constinit Op log_op{.name = "log",
                    .shape = broadcast,
                    .promote = Promote::floating,
                    .needs = {{need_input(0)}},
                    .fusion = Fusion::pointwise,
                    .samples = [](SampleList out) { unary_samples(out, log, positive); }};
constinit Op square_op{.name = "square",
                       .shape = broadcast,
                       .promote = Promote::numeric,
                       .needs = {{need_input(0)}},
                       .fusion = Fusion::pointwise,
                       .samples = [](SampleList out) { unary_samples(out, square); }};
constinit Op sqrt_op{.name = "sqrt",
                     .shape = broadcast,
                     .promote = Promote::floating,
                     .needs = {{need_output()}},
                     .fusion = Fusion::pointwise,
                     .samples = [](SampleList out) { unary_samples(out, sqrt, positive); }};

Tensor abs(Operand x) { return run_unary(abs_op, x); }
Tensor exp(Operand x) { return run_unary(exp_op, x); }
Tensor log(Operand x) { return run_unary(log_op, x); }
Tensor square(Operand x) { return run_unary(square_op, x); }
Tensor sqrt(Operand x) { return run_unary(sqrt_op, x); }

void add_math(OpTable& ops) {
  for (Op* op : {&abs_op, &exp_op, &log_op, &square_op, &sqrt_op}) ops.add(*op);
}
}  // namespace reel
