// SPDX-License-Identifier: BSD-3-Clause
// Options of the ops that pick and scatter.
#pragma once
#include <cstdint>

#include <reel/dtype.hpp>
#include <reel/shape.hpp>

namespace reel {
/// Where a gradient of taken slices belongs: along an axis of a tensor of this shape.
struct UnTakeOptions {
  Shape shape;
  std::int64_t axis = 0;
  void fields(auto&& field) {
    field("shape", shape);
    field("axis", axis);
  }
};
struct OneHotOptions {
  std::int64_t depth = 0;
  DType dtype = DType::float32;
  void fields(auto&& field) {
    field("depth", depth);
    field("dtype", dtype);
  }
};
}  // namespace reel
