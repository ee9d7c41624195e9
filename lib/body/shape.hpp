// SPDX-License-Identifier: BSD-3-Clause
// The number of elements of a shape.
#pragma once
#include <cstdint>
#include <string_view>

#include <reel/caller.hpp>
#include <reel/shape.hpp>

namespace reel {
/// count_elements() of shapes that are not small matrices.
std::int64_t count_all_elements(const Shape& shape, std::string_view op, Caller caller);
/// The product of the lengths. Throws ShapeError above 2^58.
inline std::int64_t count_elements(const Shape& shape, std::string_view op, Caller caller) {
  if (shape.rank() <= 2) {  // and none too long: 2^29 by 2^29 fits
    const std::int64_t rows = shape.rank() < 2 ? 1 : shape.data()[0];
    const std::int64_t columns = shape.rank() < 1 ? 1 : shape.end()[-1];
    if (!((rows | columns) >> 29)) return rows * columns;
  }
  return count_all_elements(shape, op, caller);
}
}  // namespace reel
