// SPDX-License-Identifier: BSD-3-Clause
// Scans: element i of the result is computed from the elements 0 to i of x along an axis. The
// result has the shape of x. Throws ShapeError for an axis that x does not have.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// Options of scans.
struct ScanOptions {
  bool reverse = false;  // from the end of the axis to its beginning
};

/// The sum of the elements up to each one. Floating sums are made in float64 and rounded. bool,
/// uint8 and int32 are summed in int64. Along `axis`, the last one by default; the result has the
/// shape of x. A single number is a line of one element. Throws ShapeError for an axis that x does
/// not have.
///
///     cumsum(tensor({1, 2, 3}))            // [1, 3, 6]
///     cumsum(tensor({1, 2, 3}), 0, {.reverse = true})  // [6, 5, 3]
REEL_API Tensor cumsum(Operand x, AxisNumber axis = -1, ScanOptions options = {});
/// The product of the elements up to each one. The gradient is exact where elements are 0. Dtypes
/// are those of cumsum(). Along `axis`, the last one by default; the result has the shape of x. A
/// single number is a line of one element. Throws ShapeError for an axis that x does not have.
///
///     cumprod(tensor({1, 2, 3}))           // [1, 2, 6]
REEL_API Tensor cumprod(Operand x, AxisNumber axis = -1, ScanOptions options = {});
/// The largest element up to each one; NaN from the first NaN on. The gradient goes to the largest
/// element; of equal ones it goes to the last. Along `axis`, the last one by default; the result
/// has the shape of x. A single number is a line of one element. Throws ShapeError for an axis that
/// x does not have.
///
///     cummax(tensor({1, 3, 2}))            // [1, 3, 3]
REEL_API Tensor cummax(Operand x, AxisNumber axis = -1, ScanOptions options = {});
/// log(sum(exp(x))) of the elements up to each one, safe for large x. Integers become float32. The
/// gradient of an element that is -inf is 0. Along `axis`, the last one by default; the result has
/// the shape of x. A single number is a line of one element. Throws ShapeError for an axis that x
/// does not have.
///
///     logcumsumexp(tensor({0.0, 0.0}))     // [0.0000, 0.6931]
REEL_API Tensor logcumsumexp(Operand x, AxisNumber axis = -1, ScanOptions options = {});
}  // namespace reel
