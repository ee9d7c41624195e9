// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/options/reduce.hpp"

namespace reel {
namespace {
/// A reduced value with its axes back, as one number for each group of the input's elements.
Tensor with_axes(const Tensor& y, GradientCall& call) {
  const auto& option = call.option<ReduceOptions>();
  if (option.keep == Keepdims::yes || y.size() == 1) return y;
  Shape kept = call.input_shape(0);
  for (int i = 0; i < option.axes.count(); ++i) kept.data()[option.axes[i]] = 1;
  return reshape(y, kept);
}

// y = sum x        dx = dy
void sum_rule(GradientCall& call) {
  call.give(0, broadcast_to(with_axes(call.dy(), call), call.input_shape(0)));
}

// y = sum x / n        dx = dy / n
void mean_rule(GradientCall& call) {
  const Tensor dy = with_axes(call.dy(), call);
  const std::int64_t kept = dy.shape().elements();
  const std::int64_t count = kept ? call.input_shape(0).elements() / kept : 1;
  call.give(0, broadcast_to(dy / static_cast<double>(count), call.input_shape(0)));
}

// y = max x        dx = dy / k where x is one of the k largest, else 0
void extreme_rule(GradientCall& call) {
  const auto& option = call.option<ReduceOptions>();
  const Tensor& dy = call.dy();
  const Tensor chosen = cast(call.input(0) == with_axes(call.output(), call), call.input_dtype(0));
  const Tensor count = sum(chosen, option.axes, keepdims);
  call.give(0, chosen * (with_axes(dy, call) / count));
}

// y = sum of x over what broadcasting added        dx = dy
void sum_to_rule(GradientCall& call) { call.give(0, broadcast_to(call.dy(), call.input_shape(0))); }
}  // namespace

const NamedRule reduce_rules[] = {{"max", extreme_rule},   {"mean", mean_rule},
                                  {"min", extreme_rule},   {"sum", sum_rule},
                                  {"sum_to", sum_to_rule}, {nullptr, nullptr}};
}  // namespace reel
