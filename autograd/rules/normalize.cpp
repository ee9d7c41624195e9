// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/options/normalize.hpp"

namespace reel {
namespace {
// u = (x - mean x) r, r = 1 / sqrt(variance + epsilon), y = u scale + shift
// dx = r (du - mean du - u mean(u du)) with du = dy scale        dscale = dy u        dshift = dy
void layer_norm_rule(GradientCall& call) {
  const Tensor& dy = call.dy();
  call.give_sum(2, dy);
  if (!call.wants(0) && !call.wants(1)) return;
  const Tensor& x = call.input(0);
  // Twice, as the mean is rounded: so equal elements are 0.
  const Tensor nearly = x - mean(x, -1, keepdims), centred = nearly - mean(nearly, -1, keepdims);
  const Tensor variance = mean(square(centred), -1, keepdims);
  const Tensor r = 1 / sqrt(variance + call.option<EpsilonOptions>().epsilon);
  const Tensor u = centred * r;
  call.give_sum(1, dy * u);
  if (!call.wants(0)) return;
  const Tensor du = dy * call.input(1);
  call.give(0, r * (du - mean(du, -1, keepdims) - u * mean(u * du, -1, keepdims)));
}
}  // namespace

const NamedRule normalize_rules[] = {{"layer_norm", layer_norm_rule}, {nullptr, nullptr}};
}  // namespace reel
