// SPDX-License-Identifier: BSD-3-Clause
// What the ops that pick and scatter slices share.
#pragma once
#include "lib/table/shape_rules.hpp"

namespace reel {
/// x's shape with the axis replaced by the axes of the positions. Throws ShapeError.
Shape taken_shape(const Inference& call, const Shape& x, const Shape& indices, std::int64_t axis);
}  // namespace reel
