// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <reel/ops.hpp>
#include <reel/ops/scan.hpp>
#include <reel/ops/statistics.hpp>

#include "autograd/install.hpp"
#include "autograd/rules/scan.hpp"
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

// y = sum x / n        dx = dy / n, which has no elements where n is 0; then also its gradient is 0
void mean_rule(GradientCall& call) {
  const Tensor dy = with_axes(call.dy(), call);
  const std::int64_t kept = dy.shape().elements();
  const std::int64_t count = kept ? call.input_shape(0).elements() / kept : 1;
  const auto divisor = static_cast<double>(std::max<std::int64_t>(count, 1));
  call.give(0, broadcast_to(dy / divisor, call.input_shape(0)));
}

// y = sum x^2, in float64        dx = 2 x dy
void sum_squares_rule(GradientCall& call) {
  call.give(0, call.input(0) * cast(2 * with_axes(call.dy(), call), call.input_dtype(0)));
}

// y = max x        dx = dy / k where x is one of the k largest, else 0
void extreme_rule(GradientCall& call) {
  const auto& option = call.option<ReduceOptions>();
  const Tensor& dy = call.dy();
  const Tensor chosen = cast(call.input(0) == with_axes(call.output(), call), call.input_dtype(0));
  const Tensor count = sum(chosen, option.axes, keepdims);
  call.give(0, chosen * (with_axes(dy, call) / count));
}

// y = prod x        dx = dy times the product of the other elements
void prod_rule(GradientCall& call) {
  const Axes& axes = call.option<ReduceOptions>().axes;
  Tensor rest = call.input(0), dx = with_axes(call.dy(), call);
  for (int axis = 0; axis < static_cast<int>(rest.rank()); ++axis) {
    bool gone = axes.is_every();
    for (int i = 0; i < axes.count(); ++i) gone |= axes[i] == axis;
    if (!gone) continue;
    const Tensor before = moved_by_one(cumprod(rest, axis), axis, false, 1);
    dx = dx * (before * moved_by_one(cumprod(rest, axis, {.reverse = true}), axis, true, 1));
    rest = prod(rest, axis, keepdims);
  }
  call.give(0, dx);
}

// y = sum of x over what broadcasting added        dx = dy
void sum_to_rule(GradientCall& call) { call.give(0, broadcast_to(call.dy(), call.input_shape(0))); }
}  // namespace

const NamedRule reduce_rules[] = {{"max", extreme_rule},   {"mean", mean_rule},
                                  {"min", extreme_rule},   {"prod", prod_rule},
                                  {"sum", sum_rule},       {"sum_squares", sum_squares_rule},
                                  {"sum_to", sum_to_rule}, {nullptr, nullptr}};
}  // namespace reel
