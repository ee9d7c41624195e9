// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/special.hpp>

#include <string>

#include "lib/formulas/special.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/pointwise.hpp"
#include "lib/ops/samples.hpp"

namespace reel {
namespace {
constexpr Draw positive{0.3, 12}, off_poles{.low = -3, .high = 3, .grid = 1, .offset = 0.5};

void polygamma_samples(SampleList out) {
  for (const int n : {0, 1, 2, 5})
    samples_of(out, 0, [n](const std::vector<Tensor>& in) { return polygamma(n, in[0]); },
               {0.5, 4});
}
}  // namespace

constinit Op lgamma_op = pointwise<formulas::LogGamma>(
    [](SampleList out) {
      unary_samples(out, lgamma, positive);
      unary_samples(out, lgamma, off_poles);
    },
    {.autocast = Autocast::full});
constinit Op digamma_op = pointwise<formulas::Digamma>(
    [](SampleList out) {
      unary_samples(out, digamma, positive);
      unary_samples(out, digamma, off_poles);
    },
    {.autocast = Autocast::full});
constinit Op polygamma_op =
    pointwise<formulas::Polygamma>(polygamma_samples, {.autocast = Autocast::full});

Tensor lgamma(Operand x) { return run_unary(lgamma_op, x); }
Tensor digamma(Operand x) { return run_unary(digamma_op, x); }
Tensor polygamma(CountNumber n, Operand x) {
  if (n < 0 || n > 100) fail<Error>(x.caller(), "polygamma", "n", "0 to 100", to_text(n.value));
  return run_binary(polygamma_op, x, static_cast<int>(n));
}

const Entry special_ops[] = {&lgamma_op, &digamma_op, &polygamma_op, nullptr};
}  // namespace reel
