// SPDX-License-Identifier: BSD-3-Clause
// Options of the ops that pick and scatter elements.
#pragma once
#include <cstdint>

#include <reel/dtype.hpp>
#include <reel/shape.hpp>

namespace reel {
/// The tensor to which a gradient of taken slices is added: its shape, and the axis of the slices.
struct UnTakeOptions {
  Shape shape;
  std::int64_t axis = 0;
  void fields(auto&& field) {
    field("shape", shape);
    field("axis", axis);
  }
};
/// The integers from `least` to `most` are valid. Errors name their tensor `argument`. If there is
/// a text `expected`, the tensor is float64, and the finite numbers from `lowest` up are valid.
struct RangeOptions {
  std::int64_t least = 0, most = 0;
  const char* argument = "x";
  const char* expected = "";
  double lowest = 0;
  void fields(auto&& field) {
    field("least", least);
    field("most", most);
    field("argument", argument);
    field("expected", expected);
    field("lowest", lowest);
  }
  static constexpr RangeOptions finite(const char* argument, double lowest, const char* expected) {
    return {0, 0, argument, expected, lowest};
  }
};
/// Rows with the ignored label have no loss.
struct LabelOptions {
  bool ignores = false;
  std::int64_t ignored = 0;
  constexpr bool counts(std::int64_t label) const { return !ignores || label != ignored; }
  void fields(auto&& field) {
    field("ignores", ignores);
    field("ignored", ignored);
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
