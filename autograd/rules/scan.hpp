// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <reel/tensor.hpp>

namespace reel {
/// x moved by one position along an axis: towards the end, or towards the beginning if `back` is
/// set. The position that becomes free gets `value`.
Tensor moved_by_one(const Tensor& x, std::int64_t axis, bool back, double value);
}  // namespace reel
