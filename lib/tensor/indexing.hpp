// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "lib/gate/gate.hpp"
#include "lib/table/options/join.hpp"

namespace reel {
/// A tensor of positions or a mask, and the axis of the slice from which it picks. A mask picks
/// from as many axes as it has.
struct TensorIndex {
  Tensor tensor;
  std::size_t axis;
  bool is_mask() const { return Access::body(tensor)->dtype == DType::boolean; }
  std::size_t axes() const { return is_mask() ? Access::body(tensor)->shape.rank() : 1; }
};
/// The elements that a list of indices picks from a tensor of some shape.
struct Selection {
  SliceOptions slice;                // positions leave their axis, newaxis adds one
  bool whole = true;                 // the slice is everything as it is
  std::vector<TensorIndex> tensors;  // they pick from the slice
  bool apart = false;                // there are whole axes or new ones between them
};
/// What errors call an index expression.
inline constexpr std::string_view index_name = "x(...)";
/// Throws IndexError for a position outside its axis and for too many indices.
Selection select(const Shape& shape, std::span<const Index> indices, std::string_view op);
/// What the indices pick from x, a tensor or a Variable: always a new tensor.
Tensor view(const Operand& x, std::span<const Index> indices);
}  // namespace reel
