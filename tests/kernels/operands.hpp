// SPDX-License-Identifier: BSD-3-Clause
// Operands of products in many layouts.
#pragma once
#include <random>

#include "kernels/kernels.hpp"

namespace reel::tests {
enum class Layout {
  row_major,
  transposed,
  gaps,
  reversed,
  every_other,
  broadcast_rows,
  transposed_gaps,
  overlapping
};
inline constexpr Layout layouts[] = {
    Layout::row_major, Layout::row_major,   Layout::transposed,
    Layout::gaps,      Layout::transposed,  Layout::reversed,
    Layout::gaps,      Layout::every_other, Layout::broadcast_rows};

/// A stack of matrices with its own memory, seen through a body of some layout.
template <class T>
struct Operand {
  Array<T> memory;
  Body body;

  Operand(std::mt19937& random, std::int64_t stack, std::int64_t rows, std::int64_t columns,
          Layout layout)
      : memory({stack * (rows + 3) * (columns + 5) * 2 + 8}) {
    using Drawn = std::conditional_t<sizeof(T) == 2, float, T>;
    for (auto& x : memory.elements) x = T(Drawn(0x1p-31) * Drawn(random()) - 1);  // in [-1, 1]
    const std::int64_t step = (rows + 3) * (columns + 5) * 2;
    const auto see = [&](std::int64_t row, std::int64_t column, std::int64_t start) {
      body = memory.view({stack, rows, columns}, {step, row, column}, start);
    };
    switch (layout) {
      case Layout::row_major:
        see(columns, 1, 0);
        body.strides[0] = rows * columns;
        body.contiguous = true;
        break;
      case Layout::transposed:
        see(1, rows, 1);
        break;
      case Layout::gaps:
        see(columns + 5, 1, 2);
        break;
      case Layout::reversed:
        see(-columns, 1, (rows + 1) * columns);
        break;
      case Layout::every_other:
        see(2 * columns, 2, 0);
        break;
      case Layout::broadcast_rows:
        see(0, 1, 0);
        break;
      case Layout::transposed_gaps:  // neither rows nor columns are contiguous
        see(2, 2 * rows, 0);
        break;
      case Layout::overlapping:  // columns that begin inside of the column before
        see(1, rows - rows / 4, 0);
        break;
    }
  }
  double at(std::int64_t stack, std::int64_t row, std::int64_t column) const {
    return static_cast<double>(
        body.as<T>()[stack * body.strides[0] + row * body.strides[1] + column * body.strides[2]]);
  }
  /// One matrix that is used for the whole stack.
  Body matrix() const {
    Body one = body;
    one.shape = {body.shape[1], body.shape[2]};
    one.elements = one.shape.elements();
    one.strides[0] = body.strides[1];
    one.strides[1] = body.strides[2];
    return one;
  }
};
}  // namespace reel::tests
