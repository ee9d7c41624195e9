// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/normalize.hpp>

#include <cmath>

#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/options/normalize.hpp"

namespace reel {
namespace {
void require_epsilon(const Inference& call) {
  const double epsilon = call.option<EpsilonOptions>().epsilon;
  if (!(epsilon >= 0) || std::isinf(epsilon))
    fail<Error>(call.caller, call.op.name, "epsilon", "a finite number of at least 0",
                to_text(epsilon));
}

void layer_norm_shape(Inference& call) {
  for (int i = 0; i < 3; ++i) require_floating(call, i);
  require_rank(call, 0, 1);
  const Shape& x = call.input(0).shape;
  const Shape row({x.end()[-1]});
  for (int i : {1, 2})
    if (!(call.input(i).shape == row))
      fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i),
                       to_text(row) + ", the last axis of x " + to_text(x),
                       to_text(call.input(i).shape));
  require_epsilon(call);
  same_as_input(call);
}

void layer_norm_samples(SampleList out) {
  unsigned seed = 0;
  for (const double epsilon : {1e-5, 0.1})
    for (const auto& [shape, layout] : varied(1)) {
      const Shape row({shape.end()[-1]});
      // A row of one element, or of equal ones, has no variance: its slope is that of rounding.
      if (row.elements() == 1 || (shape.rank() == 1 && layout == Layout::repeated)) continue;
      sample(out,
             {drawn(shape, layout, {}, seed), drawn(row, Layout::reversed, {0.5, 2}, 4),
              drawn(row, {}, 9)},
             [epsilon](const std::vector<Tensor>& in) {
               return layer_norm(in[0], in[1], in[2], epsilon);
             });
      ++seed;
    }
}
}  // namespace

constinit Op layer_norm_op{.name = "layer_norm",
                           .arity = 3,
                           .shape = layer_norm_shape,
                           .promote = Promote::numeric,
                           .options = &options_type<EpsilonOptions>,
                           .needs = {{need_input(0) | need_input(1), need_input(0), 0}},
                           .contiguous_inputs = true,
                           .samples = layer_norm_samples,
                           .argument_names = "x, scale, shift"};

Tensor layer_norm(Operand x, Operand scale, Operand shift, double epsilon) try {
  return run(layer_norm_op, {x, scale, shift}, EpsilonOptions{epsilon});
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "layer_norm");
}

const Entry normalize_ops[] = {&layer_norm_op, nullptr};
}  // namespace reel
