// SPDX-License-Identifier: BSD-3-Clause
// Checks of options that nobody has checked: those of a file. See OptionsCheck.
#pragma once
#include <cmath>
#include <initializer_list>

#include "lib/table/op.hpp"

namespace reel {
/// For options whose every value is right, or is checked by the op's shape rule.
const char* any_options(const Inference&);
/// An axis from 0 of input 0. Axis is the first member of Options.
const char* axis_exists(const Inference& call, std::int64_t axis);
template <class Options>
const char* axis_fits(const Inference& call) {
  return axis_exists(call, call.option<Options>().axis);
}
/// Lengths of a tensor: at least 0, and not too many elements.
bool is_shape(const Shape& lengths);
/// ShapeOptions, where the shape rule checks the rest.
const char* shape_fits(const Inference& call);
/// Whether the numbers are from `least` to 2^31, and as many as `count`.
bool all_from(std::int64_t least, const Shape& numbers, std::size_t count);
/// Axes of `rank`, each once; `sorted`: in their order.
bool are_axes(const Axes& axes, std::size_t rank, bool sorted);
/// Whether positions from `first` on, with these lengths and steps, are in [0, count).
bool are_inside(std::int64_t first, const Shape& lengths, const std::int64_t* steps,
                std::int64_t count);
}  // namespace reel
