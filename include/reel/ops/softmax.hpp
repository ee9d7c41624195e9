// SPDX-License-Identifier: BSD-3-Clause
// Turning scores into probabilities. Floating dtypes; integers become float32.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// What cross_entropy() makes of the losses of its rows.
enum class Reduction : std::uint8_t { mean, sum, none };

/// exp x / sum exp x along one axis. Safe for large x: the largest is taken out first. A row of
/// -inf only gives NaN.
///
///     softmax(tensor({1.f, 1.f}))          // [0.5, 0.5]
REEL_API Tensor softmax(Operand x, int axis = -1);
/// log softmax(x), without the loss of digits.
REEL_API Tensor log_softmax(Operand x, int axis = -1);
/// -log softmax(scores)[label] for each row: scores [..., classes], labels (integers) [...].
/// The mean over rows unless said; of no rows the mean is NaN. Throws IndexError for a label
/// outside 0 .. classes - 1.
REEL_API Tensor cross_entropy(Operand scores, Operand labels,
                              Reduction reduction = Reduction::mean);
}  // namespace reel
