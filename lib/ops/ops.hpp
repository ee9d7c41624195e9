// SPDX-License-Identifier: BSD-3-Clause
// The entries of the op table, by family.
#pragma once
#include "lib/ops/entries.hpp"

namespace reel {
/// A view by start, length and step along each axis.
Tensor slice(const Operand& x, const struct SliceOptions& options);

/// The sum of squares in float64. So squares of float32 neither overflow nor vanish.
Tensor sum_of_squares(Operand x, Axes axes, Keepdims keep);

/// The positions of the true elements of a mask, as if it had one axis.
Tensor places_of_true(const Tensor& mask);

/// The positions of the elements of x that argsort() gives the ranks `first` to first + count - 1.
Tensor ranks_of(Operand x, std::int64_t axis, struct SortOptions options, std::int64_t first,
                std::int64_t count);

/// The list of entries of each family. It ends with null.
using Entry = Op*;
#define REEL_FAMILY(family, ...) extern const Entry family##_ops[];
#include "lib/table/families.def"
}  // namespace reel
