// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <span>

#include "lib/gate/gate.hpp"
#include "lib/table/options/join.hpp"

namespace reel {
/// What a list of indices picks from a tensor of some shape.
struct Selection {
  SliceOptions slice;                 // positions leave their axis, newaxis adds one
  bool whole = true;                  // the slice is everything as it is
  const Tensor* positions = nullptr;  // a tensor among the indices,
  int positions_axis = 0;             // and its axis in the result
};
/// Throws IndexError for a position outside its axis and for too many indices.
Selection select(const Shape& shape, std::span<const Index> indices, std::string_view op);
/// What the indices pick from x, a tensor or a Variable: always a new tensor.
Tensor view(const Operand& x, std::span<const Index> indices);
}  // namespace reel
