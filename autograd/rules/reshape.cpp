// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
namespace {
// y holds x's elements        dx = dy, in x's shape
void shape_rule(GradientCall& call) { call.give(0, reshape(call.dy(), call.input_shape(0))); }

// y = x with its axes in another order        dx = dy with them back
void transpose_rule(GradientCall& call) {
  const Axes& axes = call.option<AxesOptions>().axes;
  if (axes.is_every()) return call.give(0, transpose(call.dy()));
  int back[Shape::max_rank] = {};
  for (int i = 0; i < axes.count(); ++i) back[axes[i]] = i;
  call.give(0, transpose(call.dy(),
                         Axes(std::span<const int>(back, static_cast<std::size_t>(axes.count())))));
}

// y = x repeated        dx = sum of dy over the copies
void broadcast_to_rule(GradientCall& call) {
  call.give(0, core_ops.sum_to, {call.dy()}, ShapeOptions{call.input_shape(0)});
}
}  // namespace

const NamedRule reshape_rules[] = {
    {"reshape", shape_rule},       {"expand_dims", shape_rule},         {"squeeze", shape_rule},
    {"transpose", transpose_rule}, {"broadcast_to", broadcast_to_rule}, {nullptr, nullptr}};
}  // namespace reel
