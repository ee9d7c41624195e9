// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/options/axis.hpp"

namespace reel {
namespace {
int axis_of(GradientCall& call) { return static_cast<int>(call.option<AxisOptions>().axis); }

// y = softmax x        dx = y (dy - sum(dy y))
void softmax_rule(GradientCall& call) {
  const Tensor &dy = call.dy(), &y = call.output();
  call.give(0, y * (dy - sum(dy * y, axis_of(call), keepdims)));
}

// y = log softmax x        dx = dy - exp(y) sum dy
void log_softmax_rule(GradientCall& call) {
  const Tensor& dy = call.dy();
  call.give(0, dy - exp(call.output()) * sum(dy, axis_of(call), keepdims));
}

// y = -log softmax(x)[label]        dx = (softmax x - one_hot label) dy
void cross_entropy_rule(GradientCall& call) {
  const Tensor& scores = call.input(0);
  const Tensor target = one_hot(call.input(1), scores.shape()[1], scores.dtype());
  call.give(0, (softmax(scores, 1) - target) * expand_dims(call.dy(), 1));
}
}  // namespace

const NamedRule softmax_rules[] = {{"cross_entropy", cross_entropy_rule},
                                   {"log_softmax", log_softmax_rule},
                                   {"softmax", softmax_rule},
                                   {nullptr, nullptr}};
}  // namespace reel
