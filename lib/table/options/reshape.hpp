// SPDX-License-Identifier: BSD-3-Clause
// Options of ops that change shapes and dtypes.
#pragma once
#include <reel/dtype.hpp>
#include <reel/shape.hpp>

namespace reel {
struct AxesOptions {
  Axes axes = Axes::every();
  void fields(auto&& field) { field("axes", axes); }
};
struct ShapeOptions {
  Shape shape;
  void fields(auto&& field) { field("shape", shape); }
};
struct DTypeOptions {
  DType dtype = DType::float32;
  void fields(auto&& field) { field("dtype", dtype); }
};
}  // namespace reel
