// SPDX-License-Identifier: BSD-3-Clause
// The losses that the forms of cross_entropy() share.
#pragma once
#include "lib/gate/gate.hpp"
#include "lib/table/options/gather.hpp"

namespace reel {
/// Whether the labels of cross_entropy() are probabilities: floating, in the shape of the scores.
bool are_probabilities(const Operand& scores, const Operand& labels);
/// -log(softmax(scores)[label]), one for each row, in the shape of the labels. An ignored row has
/// the loss 0, and the gradient 0, whatever its scores. Throws ShapeError and IndexError.
Tensor row_losses(const Operand& scores, const Operand& labels, const LabelOptions& options);
}  // namespace reel
