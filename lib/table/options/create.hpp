// SPDX-License-Identifier: BSD-3-Clause
// Options of fill.
#pragma once
#include <cstdint>

#include <reel/dtype.hpp>
#include <reel/shape.hpp>

namespace reel {
struct FillOptions {
  /// triangle: a matrix of bools, true where column <= row + first.
  enum class Kind : std::int64_t { constant, range, identity, triangle };
  Kind kind = Kind::constant;
  double start = 0, step = 0;          // floating results
  std::int64_t first = 0, stride = 0;  // integer results
  DType dtype = DType::float32;
  Shape shape = {};
  void fields(auto&& field) {
    field("kind", kind);
    field("start", start);
    field("step", step);
    field("first", first);
    field("stride", stride);
    field("dtype", dtype);
    field("shape", shape);
  }
};
}  // namespace reel
