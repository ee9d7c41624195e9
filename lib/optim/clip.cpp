// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/math.hpp>
#include <reel/ops/normalize.hpp>
#include <reel/ops/reduce.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/optim/clip.hpp>

#include <cmath>
#include <utility>

#include "lib/body/room.hpp"
#include "lib/nn/check.hpp"

namespace reel::optim {
std::vector<Tensor> clip_by_value(std::vector<Tensor> gradients, double low, double high,
                                  Caller caller) {
  const CallerScope here(caller, "clip_by_value");
  check_number(!std::isnan(high), "clip_by_value", "high", "a number", high, caller);
  check_number(low <= high, "clip_by_value", "low", error_text("{} or less", high).view(), low,
               caller);
  for (Tensor& x : gradients) x = minimum(maximum(std::move(x), low), high);
  return gradients;
}

Tensor global_norm(const std::vector<Tensor>& gradients, Caller caller) {
  const CallerScope here(caller, "global_norm");
  Tensor total = tensor(0.0f, caller);
  for (const Tensor& x : gradients) total = std::move(total) + sum(square(x));
  return sqrt(std::move(total));
}

std::vector<Tensor> clip_by_global_norm(std::vector<Tensor> gradients, double norm, Caller caller) {
  const CallerScope here(caller, "clip_by_global_norm");
  check_number(norm > 0, "clip_by_global_norm", "norm", "more than 0", norm, caller);
  for (const Tensor& x : gradients)
    if (x.defined()) checked("clip_by_global_norm", x.dtype(), caller);
  return limit_norm(gradients, norm);
}
void detail::clip_rows(std::vector<RowGradient>& gradients, double norm, Caller caller) {
  auto values = room_for<Tensor>(gradients.size(), caller, "clip_by_global_norm");
  for (const RowGradient& x : gradients) values.push_back(x.values);
  values = clip_by_global_norm(std::move(values), norm, caller);
  for (std::size_t i = 0; i < values.size(); ++i) gradients[i].values = std::move(values[i]);
}
}  // namespace reel::optim
