// SPDX-License-Identifier: BSD-3-Clause
// Options of slice and of its gradient.
#pragma once
#include <cstdint>

#include <reel/shape.hpp>

namespace reel {
/// A view by start, length and step along each axis of the input.
struct SliceOptions {
  Shape starts, lengths, steps;  // steps may be negative
  std::uint64_t dropped = 0;     // bit i: axis i, of length 1, is not in the result
  std::uint64_t added = 0;       // bit i: axis i of the result is a new one
  bool keeps_axes() const { return !(dropped | added); }
  void fields(auto&& field) {
    field("starts", starts);
    field("lengths", lengths);
    field("steps", steps);
    field("dropped", dropped);
    field("added", added);
  }
};
/// All of a tensor of this shape.
inline SliceOptions whole_slice(const Shape& shape) {
  SliceOptions slice{.starts = shape, .lengths = shape, .steps = shape};
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    slice.starts.data()[i] = 0;
    slice.steps.data()[i] = 1;
  }
  return slice;
}
/// The slice's place in a tensor of this shape; the slice keeps its axes.
struct UnsliceOptions {
  SliceOptions slice;
  Shape shape;
  void fields(auto&& field) {
    slice.fields(field);
    field("shape", shape);
  }
};
/// Where the elements of a view are in a row-major tensor.
struct PlaceOptions {
  std::int64_t start = 0;
  Shape lengths, steps;  // in elements; they may be negative
  void fields(auto&& field) {
    field("start", start);
    field("lengths", lengths);
    field("steps", steps);
  }
};
}  // namespace reel
