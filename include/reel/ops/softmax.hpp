// SPDX-License-Identifier: BSD-3-Clause
// Scores into probabilities, and the loss of a classifier. Integers become float32.
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// What a loss function returns: the mean of the losses, their sum, or all losses.
enum class Reduction : std::uint8_t { mean, sum, none };

/// exp(x) / sum(exp(x)) along one axis. Safe for large x, because the largest is subtracted first.
/// A row in which all elements are -inf gives NaN. The axis is the last one by default. The result
/// has the shape of x and its dtype, float32 for integers. A single number gives 1.
///
///     softmax(tensor({1.f, 1.f}))          // [0.5, 0.5]
REEL_API Tensor softmax(Operand x, AxisNumber axis = -1);
/// log(softmax(x)), computed without loss of precision. The axis is the last one by default. The
/// result has the shape of x and its dtype, float32 for integers.
REEL_API Tensor log_softmax(Operand x, AxisNumber axis = -1);
/// -log(softmax(scores)[label]), one loss for each row. scores are [..., classes], without a
/// softmax. labels are integers [...], or the probabilities of the classes, floating and of the
/// shape of the scores: then the loss of a row is -sum(labels log(softmax(scores))). The mean of no
/// rows is NaN. Throws IndexError for a label outside 0 to classes - 1, and ShapeError for other
/// shapes. loss.hpp has a form with options.
///
///     cross_entropy(tensor({{0.0, 0.0}}), tensor({1}))     // 0.6931
REEL_API Tensor cross_entropy(Operand scores, Operand labels,
                              Reduction reduction = Reduction::mean);
}  // namespace reel
