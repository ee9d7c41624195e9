// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/options/axis.hpp"

namespace reel {
namespace {
/// One truth value for each slice along an axis, to broadcast with the slices.
Tensor of_slices(const Tensor& truths, std::size_t rank, std::int64_t axis) {
  Shape shape = truths.shape();
  shape.resize(shape.rank() + rank - 1 - static_cast<std::size_t>(axis));
  return reshape(truths, shape);
}
// y = x, y[i] = u        dx = dy where no u is, du = dy[i] of the last u
void scatter_assign_rule(GradientCall& call) {
  const Tensor &dy = call.dy(), &indices = call.input(2);
  const DeviceScope device(dy.device());
  const std::int64_t axis = call.option<AxisOptions>().axis;
  const Tensor order = arange(std::int64_t{0}, indices.size());
  const Tensor none = full({dy.shape(static_cast<int>(axis))}, std::int64_t{-1});
  const Tensor last = scatter(none, reshape(indices, order.shape()), order);
  if (call.wants(0)) call.give(0, where(of_slices(last >= 0, dy.rank(), axis), 0, dy));
  if (!call.wants(1)) return;
  const Tensor counts = take(last, indices) == reshape(order, indices.shape());
  const Tensor chosen = take(dy, indices, static_cast<int>(axis));
  call.give(1, where(of_slices(counts, dy.rank(), axis), chosen, 0));
}
// y = max(x, all u of the place)        dx, du = dy / k for each of the k that are equal to y
void scatter_extreme_rule(GradientCall& call) {
  const auto axis = static_cast<int>(call.option<AxisOptions>().axis);
  const Tensor &dy = call.dy(), &y = call.output(), &indices = call.input(2);
  const Tensor x_wins = cast(call.input(0) == y, dy.dtype());
  const Tensor u_wins = cast(call.input(1) == take(y, indices, axis), dy.dtype());
  const Tensor share = dy / maximum(scatter_add(x_wins, indices, u_wins, axis), 1);
  if (call.wants(0)) call.give(0, x_wins * share);
  if (call.wants(1)) call.give(1, u_wins * take(share, indices, axis));
}
}  // namespace

const NamedRule scatter_rules[] = {{"scatter_assign", scatter_assign_rule},
                                   {"scatter_max", scatter_extreme_rule},
                                   {"scatter_min", scatter_extreme_rule},
                                   {nullptr, nullptr}};
}  // namespace reel
