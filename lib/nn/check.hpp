// SPDX-License-Identifier: BSD-3-Clause
// How layers and optimizers refuse an argument.
#pragma once
#include <reel/error.hpp>
#include <reel/format.hpp>  // a Shape in a text
#include <reel/operand.hpp>
#include <reel/shape.hpp>
#include <reel/variable.hpp>

#include <cstdint>
#include <string_view>

#include "lib/body/format.hpp"

namespace reel {
/// `size`, if it is the size of a layer. The end keeps sums and products of sizes within int64.
inline std::int64_t checked(std::string_view layer, std::string_view argument, Extent size,
                            Caller caller) {
  constexpr std::int64_t end = std::int64_t{1} << 40;
  if (size.value >= 1 && size.value < end) return size.value;
  fail<ShapeError>(caller, layer, argument, "1 or more (and below 2^40)", to_text(size.value));
}

/// `dtype`, if it is floating.
inline DType checked(std::string_view layer, DType dtype, Caller caller) {
  if (is_floating(dtype)) return dtype;
  fail<DTypeError>(caller, layer, "dtype", "a floating dtype", name_of(dtype));
}

/// A Variable with the value that `make` returns; errors name the layer.
template <class Make>
Variable parameter(std::string_view layer, std::string_view name, Caller caller, Make make) {
  const CallerScope here(caller, layer);
  return Variable(name, make(), caller);
}

/// The shape of a layer's input; null for a number, which the layer's op refuses.
inline const Shape* shape_of_input(std::string_view layer, std::string_view argument,
                                   const Operand& x) {
  if (x.kind() == Operand::Kind::scalar) return nullptr;
  if (x.kind() == Operand::Kind::variable) return &x.variable().shape();
  if (!x.tensor().defined())
    fail<Error>(x.caller(), layer, argument, "a tensor", "an undefined Tensor");
  return &x.tensor().shape();
}
/// Throws ShapeError unless the last axis of a layer's input has length `width`.
inline void check_width(std::string_view layer, std::string_view argument, const Operand& x,
                        std::int64_t width) {
  const Shape* const shape = shape_of_input(layer, argument, x);
  if (!shape || (shape->rank() > 0 && shape->end()[-1] == width)) return;
  fail<ShapeError>(x.caller(), layer, argument, error_text("last length {}", width),
                   to_text(*shape));
}
/// Throws ShapeError unless a cell's input is (batch, width) and its state (batch, hidden).
inline void check_cell(std::string_view cell, const Operand& x, std::int64_t width,
                       const Operand& h, std::int64_t hidden) {
  const Shape* const shape = shape_of_input(cell, "x", x);
  if (shape && (shape->rank() != 2 || shape->end()[-1] != width))
    fail<ShapeError>(x.caller(), cell, "x", error_text("shape (batch, {})", width),
                     to_text(*shape));
  const Shape* const state = shape_of_input(cell, "h", h);
  if (shape && state && (state->rank() != 2 || (*state)[0] != (*shape)[0] || (*state)[1] != hidden))
    fail<ShapeError>(x.caller(), cell, "h", error_text("shape ({}, {})", (*shape)[0], hidden),
                     to_text(*state));
}
/// Throws ShapeError unless a layer's input is (time, batch, width).
inline void check_sequence(std::string_view layer, const Operand& x, std::int64_t width) {
  const Shape* const shape = shape_of_input(layer, "x", x);
  if (shape && (shape->rank() != 3 || shape->end()[-1] != width))
    fail<ShapeError>(x.caller(), layer, "x", error_text("shape (time, batch, {})", width),
                     to_text(*shape));
}

/// NaN is refused too.
inline void check_number(bool good, std::string_view name, std::string_view argument,
                         std::string_view expected, double got, Caller caller) {
  if (!good) fail<Error>(caller, name, argument, expected, error_text("{}", got));
}
}  // namespace reel
