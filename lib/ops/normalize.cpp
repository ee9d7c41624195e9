// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/normalize.hpp>

#include <cmath>
#include <utility>

#include <reel/ops/reshape.hpp>

#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
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
      // A row of equal elements has no variance. Differences there show only rounding.
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

void limit_norm_shape(Inference& call) {
  for (int i = 0; i < call.input_count; ++i) {
    require_floating(call, i);
    call.output(call.input(i).dtype, call.input(i).shape);
  }
  const double norm = call.option<LimitNormOptions>().norm;
  if (!(norm > 0)) fail<Error>(call.caller, call.op.name, "norm", "more than 0", to_text(norm));
}
void limit_norm_samples(SampleList out) {
  for (const double norm : {0.5, 1000.0})  // below and above every length
    for (const auto& [shape, layout] : varied(0)) {
      const Draw away{1, 2};
      sample(out, {drawn(shape, layout, away), drawn({3}, away, 5)},
             [norm](const std::vector<Tensor>& in) {
               const std::vector<Tensor> y = limit_norm(in, norm);
               return concat({y[0].reshape({-1}), y[1]});
             });
    }
}
}  // namespace

constinit Op layer_norm_op{.name = "layer_norm",
                           .arity = 3,
                           .shape = layer_norm_shape,
                           .promote = Promote::numeric,
                           .options = &options_type<EpsilonOptions>,
                           .check = any_options,
                           .needs = {{need_input(0) | need_input(1), need_input(0), 0}},
                           .contiguous_inputs = true,
                           .autocast = Autocast::full,
                           .samples = layer_norm_samples,
                           .argument_names = "x, scale, shift"};

constinit Op limit_norm_op{.name = "limit_norm",
                           .arity = -1,
                           .shape = limit_norm_shape,
                           .options = &options_type<LimitNormOptions>,
                           .check = any_options,
                           .needs = {{0xff, 0xff, 0xff, 0xff}},  // every input
                           .contiguous_inputs = true,
                           .autocast = Autocast::full,
                           .samples = limit_norm_samples,
                           .argument_names = "x"};

Tensor layer_norm(Operand x, Operand scale, Operand shift, double epsilon) {
  return run(layer_norm_op, {x, scale, shift}, EpsilonOptions{epsilon});
}

std::vector<Tensor> limit_norm(Operands x, double norm) try {
  SmallVector<Operand, 8> operands;
  for (std::size_t i = 0; i < x.size(); ++i) operands.push_back(x[i]);
  SmallVector<Tensor, 2> outputs;
  if (x.size())
    run(limit_norm_op, {operands.data(), operands.size()}, LimitNormOptions{norm}, x.caller(),
        outputs);
  std::vector<Tensor> limited;
  limited.reserve(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) limited.push_back(std::move(outputs[i]));
  return limited;
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "limit_norm");
}

const Entry normalize_ops[] = {&layer_norm_op, &limit_norm_op, nullptr};
}  // namespace reel
