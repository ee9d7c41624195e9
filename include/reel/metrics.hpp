// SPDX-License-Identifier: BSD-3-Clause
// Measures of a model's quality. scores are [..., classes]; labels are [...], integers from 0 to
// classes - 1, as in cross_entropy(). Results are float64. Shapes that do not fit throw ShapeError,
// and labels that are not integers DTypeError.
#pragma once  // defined in lib/nn
#include <reel/tensor.hpp>

namespace reel::metrics {
/// The share of the examples whose label has the largest score. Of equal scores the first counts. A
/// label that is not a class, or whose score is NaN, counts as wrong.
///
///     metrics::accuracy(tensor({{2.0, 0.5}, {0.1, 0.9}}), tensor({0, 0}))     // 0.5
REEL_API Tensor accuracy(Operand scores, Operand labels);
/// The share of the examples whose label is among the k largest scores. Of equal scores the first
/// ones count as larger, and NaN counts as larger than any number. A label whose score is NaN
/// counts as wrong. Throws Error unless k >= 1, and IndexError for a label that is not a class.
REEL_API Tensor top_k_accuracy(Operand scores, Operand labels, CountNumber k);
/// A matrix [classes, classes] of counts (int64): row i and column j hold the number of examples
/// with the label i and the prediction j. Throws IndexError for a label or prediction that is not a
/// class.
///
///     metrics::confusion_matrix(tensor({0, 1, 1}), tensor({0, 1, 0}), 2)      // [[1, 1], [0, 1]]
REEL_API Tensor confusion_matrix(Operand predictions, Operand labels, Extent classes);
/// How f1() combines the numbers of the classes.
enum class Averaging : std::uint8_t {
  macro,  ///< the mean over the classes
  micro,  ///< one number, from counts that are summed over the classes
  none    ///< no combination: a vector with one number for each class
};
/// The F1 score, 2 TP / (2 TP + FP + FN), from the true positives, false positives and false
/// negatives of each class. It is 0 for a class without examples and predictions. Throws IndexError
/// for a label or prediction that is not a class.
REEL_API Tensor f1(Operand predictions, Operand labels, Extent classes,
                   Averaging averaging = Averaging::macro);
/// The area under the ROC curve: the probability that an example of class 1 has a larger score than
/// an example of class 0; equal scores count half. scores and labels have one shape. The result is
/// NaN if a score is NaN, or if a class has no example. The call reads the elements on the host.
/// Throws Error unless the labels are 0 and 1, or bools.
///
///     metrics::auc(tensor({0.1, 0.4, 0.35, 0.8}), tensor({0, 0, 1, 1}))       // 0.75
REEL_API Tensor auc(Operand scores, Operand labels);
/// exp(cross_entropy(scores, labels)): 1 for a perfect model, and the number of classes for equal
/// scores.
REEL_API Tensor perplexity(Operand scores, Operand labels);
}  // namespace reel::metrics
