// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"

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

// y = -log softmax(x)[label]        dx = (softmax x - one_hot label) dy, and 0 of an ignored row
void cross_entropy_rule(GradientCall& call) {
  const Tensor &scores = call.input(0), &labels = call.input(1), dy = expand_dims(call.dy(), -1);
  const std::int64_t classes = scores.shape()[-1];
  const auto& options = call.option<LabelOptions>();
  if (!options.ignores)
    return call.give(0, (softmax(scores) - one_hot(labels, classes, scores.dtype())) * dy);
  const Tensor counted = labels != options.ignored, rows = expand_dims(counted, -1);
  const Tensor target = one_hot(where(counted, labels, 0), classes, scores.dtype());
  call.give(0, where(rows, (softmax(where(rows, scores, 0)) - target) * dy, 0));
}
}  // namespace

const NamedRule softmax_rules[] = {{"cross_entropy", cross_entropy_rule},
                                   {"log_softmax", log_softmax_rule},
                                   {"softmax", softmax_rule},
                                   {nullptr, nullptr}};
}  // namespace reel
