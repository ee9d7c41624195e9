// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/passes.hpp"

namespace reel {
/// Below this number of elements, a pass costs more than a copy in row-major order.
constexpr std::int64_t short_row = 64;

bool walks_neighbours(const Body& input, const Shape& shape) {
  // Along the last axis of the output that is longer than 1, the step must be one element or none.
  if (input.contiguous) return true;
  const int rank = static_cast<int>(shape.rank());
  for (int axis = rank - 1; axis >= 0; --axis) {
    const int own = axis - rank + input.rank();
    if (shape.data()[axis] == 1) continue;
    if (own < 0 || input.shape.data()[own] == 1 || input.strides[own] == 0) return true;
    return input.strides[own] == 1 && shape.data()[axis] >= short_row;
  }
  return true;
}
}  // namespace reel
