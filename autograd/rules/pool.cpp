// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/convolution.hpp"
#include "lib/table/options/gather.hpp"

namespace reel {
namespace {
/// [batch, spatial axes as one, channels]
Shape flat(const Shape& shape) {
  const std::int64_t batch = shape.data()[0], channels = shape.end()[-1];
  std::int64_t pixels = 1;
  for (const std::int64_t* length = shape.begin() + 1; length < shape.end() - 1; ++length)
    pixels *= *length;
  return {batch, pixels, channels};
}
// y = x at the places of the largest elements        dx at these places += dy
void max_pool_rule(GradientCall& call) {
  const Tensor places =
      run(core_ops.max_pool_places, Operand(call.input(0)), call.option<PoolGeometry>());
  const Shape images = flat(call.input_shape(0)), windows = flat(places.shape());
  const Tensor dx =
      run(core_ops.scatter_elements, {reshape(call.dy(), windows), reshape(places, windows)},
          UnTakeOptions{images, 1});
  call.give(0, reshape(dx, call.input_shape(0)));
}
}  // namespace

const NamedRule pool_rules[] = {{"max_pool", max_pool_rule}, {nullptr, nullptr}};
}  // namespace reel
