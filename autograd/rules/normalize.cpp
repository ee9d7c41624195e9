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
  // The mean is subtracted twice, because it is rounded. So equal elements give 0.
  const Tensor nearly = x - mean(x, -1, keepdims), centred = nearly - mean(nearly, -1, keepdims);
  const Tensor variance = mean(square(centred), -1, keepdims);
  const Tensor r = 1 / sqrt(variance + call.option<EpsilonOptions>().epsilon);
  const Tensor u = centred * r;
  call.give_sum(1, dy * u);
  if (!call.wants(0)) return;
  const Tensor du = dy * call.input(1);
  call.give(0, r * (du - mean(du, -1, keepdims) - u * mean(u * du, -1, keepdims)));
}

// y = s x with s = norm / max(|x|, norm)
// dx = s dy - x s (sum of all dy x) / |x|^2, without the second part where |x| <= norm
void limit_norm_rule(GradientCall& call) {
  const double norm = call.option<LimitNormOptions>().norm;
  Tensor squares, products;
  for (int i = 0; i < call.input_count(); ++i) {
    const Tensor x = cast(call.input(i), DType::float64), dy = cast(call.dy(i), DType::float64);
    const Tensor square_sum = sum(square(x)), product = sum(dy * x);
    squares = i ? squares + square_sum : square_sum;
    products = i ? products + product : product;
  }
  const Tensor most = maximum(squares, norm * norm), longer = squares > norm * norm;
  const Tensor length = sqrt(most), scale = where(longer, norm / length, 1.0);
  const Tensor along = where(longer, scale * products / length, 0.0);
  for (int i = 0; i < call.input_count(); ++i) {
    if (!call.wants(i)) continue;
    const DType dtype = call.input_dtype(i);
    // |x|^2 would be too large for float32.
    const Tensor direction = call.input(i) / cast(where(longer, length, 1.0), dtype);
    call.give(i, cast(scale, dtype) * call.dy(i) - cast(along, dtype) * direction);
  }
}
}  // namespace

const NamedRule normalize_rules[] = {
    {"layer_norm", layer_norm_rule}, {"limit_norm", limit_norm_rule}, {nullptr, nullptr}};
}  // namespace reel
