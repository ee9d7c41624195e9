// SPDX-License-Identifier: BSD-3-Clause
// Results whose shape depends on the values of x. The call reads the number of elements: it waits
// for the device, and a traced function has a branch for each number.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// The positions (int64) of the elements that are not 0, in row-major order: [count, rank of x].
/// NaN is not 0.
///
///     nonzero(tensor({{0, 7}, {5, 0}}))    // [[0, 1], [1, 0]]
REEL_API Tensor nonzero(Operand x);
/// The elements of x where the mask (bool) is true, in row-major order, as one axis. x and the mask
/// broadcast. The gradient is 0 elsewhere. Throws DTypeError for a mask that is not bool.
///
///     masked_select(tensor({1, 2, 3}), tensor({true, false, true}))  // [1, 3]
REEL_API Tensor masked_select(Operand x, Operand mask);
/// The different elements of x, sorted, as one axis. All NaNs count as one, which is last. x has
/// any dtype, and the result has its dtype.
///
///     unique(tensor({{3, 1}, {3, 2}}))     // [1, 2, 3]
REEL_API Tensor unique(Operand x);
}  // namespace reel
