// SPDX-License-Identifier: BSD-3-Clause
// Losses: how far predictions are from their targets. x and target have the same shape, or one of
// them is a single number; other shapes throw ShapeError. Integers become float32. The result is
// the mean of the losses, a single number; the option Reduction gives their sum or all of them.
// There is one loss for each element, or for each row where the comment says so. The mean of no
// losses is NaN.
#pragma once                     // defined in lib/ops
#include <reel/ops/softmax.hpp>  // Reduction

namespace reel {
/// The square of x - target. x and target have the same shape, or one of them is a single number;
/// other shapes throw ShapeError. Integers become float32. The result is one number, the mean by
/// default.
///
///     mse_loss(tensor({1.0, 3.0}), tensor({2.0, 3.0}))     // 0.5
REEL_API Tensor mse_loss(Operand x, Operand target, Reduction reduction = Reduction::mean);
/// The absolute value of x - target. x and target have the same shape, or one of them is a single
/// number; other shapes throw ShapeError. Integers become float32. The result is one number, the
/// mean by default.
REEL_API Tensor l1_loss(Operand x, Operand target, Reduction reduction = Reduction::mean);

/// Options of huber_loss().
struct HuberOptions {
  double delta = 1;
  Reduction reduction = Reduction::mean;
};
/// With d = x - target: d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2). Throws Error
/// unless delta > 0. x and target have the same shape, or one of them is a single number; other
/// shapes throw ShapeError. Integers become float32. The result is one number, the mean by default.
///
///     huber_loss(tensor({0.5, 3.0}), 0.0, {.reduction = Reduction::none})     // [0.125, 2.5]
REEL_API Tensor huber_loss(Operand x, Operand target, HuberOptions options = {});

/// -(target log(x) + (1 - target) log(1 - x)), for probabilities x. A logarithm below -100 counts
/// as -100. The gradient divides by x and 1 - x, each at least 1e-12. The loss is NaN where x is
/// outside 0 to 1. For scores use binary_cross_entropy_with_logits(), which loses no precision. x
/// and target have the same shape, or one of them is a single number; other shapes throw
/// ShapeError. Integers become float32. The result is one number, the mean by default.
REEL_API Tensor binary_cross_entropy(Operand x, Operand target,
                                     Reduction reduction = Reduction::mean);
/// binary_cross_entropy(sigmoid(x), target), computed from the scores x without loss of precision.
/// The logarithms have no bound. x and target have the same shape, or one of them is a single
/// number; other shapes throw ShapeError. Integers become float32. The result is one number, the
/// mean by default.
///
///     binary_cross_entropy_with_logits(tensor({2.0, -1.0}), tensor({1.0, 0.0}))     // 0.2201
REEL_API Tensor binary_cross_entropy_with_logits(Operand x, Operand target,
                                                 Reduction reduction = Reduction::mean);
/// Options of binary_cross_entropy_with_logits().
struct BinaryCrossEntropyOptions {
  Tensor positive_weight = {};  // multiplies target log(sigmoid(x)), the loss of positive examples
  Reduction reduction = Reduction::mean;
};
/// The loss with a weight of positive examples, which broadcasts to the shape of x. An undefined
/// weight counts as 1. Integers become float32.
REEL_API Tensor binary_cross_entropy_with_logits(Operand x, Operand target,
                                                 BinaryCrossEntropyOptions options);
/// max(0, 1 - target x), the loss of support vector machines, for targets -1 and 1. x and target
/// have the same shape, or one of them is a single number; other shapes throw ShapeError. Integers
/// become float32. The result is one number, the mean by default.
REEL_API Tensor hinge_loss(Operand x, Operand target, Reduction reduction = Reduction::mean);

/// sum(target (log(target) - x)) over the last axis: the Kullback-Leibler divergence of each row. x
/// holds log probabilities, and target probabilities. Elements with target 0 add nothing. There is
/// one loss for each row, and their mean is PyTorch's "batchmean" only if x has two axes: that
/// divides the sum by the length of the first axis. Throws ShapeError for a single number. x and
/// target have the same shape. The result is one number, the mean by default.
///
///     kl_divergence(log_softmax(tensor({{0.0, 0.0}})), tensor({{0.0, 1.0}}))     // 0.6931
REEL_API Tensor kl_divergence(Operand x, Operand target, Reduction reduction = Reduction::mean);

/// sum(x y) / (|x| |y|) along an axis, the cosine of the angle between vectors. x and y broadcast.
/// A vector of zeros gives 0, and its gradient is that of a vector of length 1. Large and small
/// elements do not overflow or vanish. The result does not have the axis, the last one by default.
/// Integers become float32.
///
///     cosine_similarity(tensor({3.0, 4.0}), tensor({4.0, 3.0}))     // 0.96
REEL_API Tensor cosine_similarity(Operand x, Operand y, AxisNumber axis = -1);

/// Options of cosine_embedding_loss().
struct CosineEmbeddingOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};
/// One loss for each row: 1 - c if its target is 1, and max(0, c - margin) if it is -1, where c is
/// the cosine_similarity() of the rows of x and y. There is one target for each row; other shapes
/// throw ShapeError. Integers become float32.
REEL_API Tensor cosine_embedding_loss(Operand x, Operand y, Operand target,
                                      CosineEmbeddingOptions options = {});

/// Options of triplet_margin_loss().
struct TripletOptions {
  double margin = 1;
  Reduction reduction = Reduction::mean;
};
/// max(0, |anchor - positive| - |anchor - negative| + margin), one loss for each row, where |v| is
/// the Euclidean length of a row. The gradient of the length of a row of zeros is 0. Integers
/// become float32.
REEL_API Tensor triplet_margin_loss(Operand anchor, Operand positive, Operand negative,
                                    TripletOptions options = {});

/// Options of cross_entropy().
struct CrossEntropyOptions {
  std::int64_t ignored_label = -100;  // rows with this label have no loss, and the gradient 0
  Tensor class_weights = {};  // [classes], multiplies the losses of each class; 1 if undefined
  double smoothing = 0;       // this share of each target is spread over all classes
  Reduction reduction = Reduction::mean;
};
/// cross_entropy() of softmax.hpp with options, as PyTorch defines them. The mean is the sum of the
/// weighted losses divided by the sum of their class weights; ignored rows count in neither. With
/// probabilities in place of labels, no row is ignored, and the mean divides by the number of rows.
/// Throws ShapeError unless there is one weight for each class, and Error unless 0 <= smoothing
/// <= 1.
///
///     cross_entropy(zeros({2, 3}), tensor({1, -1}), {.ignored_label = -1})     // 1.0986
REEL_API Tensor cross_entropy(Operand scores, Operand labels, CrossEntropyOptions options);

/// Options of ctc_loss().
struct CTCOptions {
  std::int64_t blank = 0;  // the class that means "no label"
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;  // a loss that is infinite counts as 0
};
/// The connectionist temporal classification loss (Graves et al. 2006), as PyTorch defines it. It
/// aligns a sequence of labels with a longer sequence of steps. A path has one class for each step;
/// if repeated classes are merged and blanks are removed, the labels must remain. The loss is minus
/// the logarithm of the probability of all such paths. It is inf, with a gradient of 0, if there
/// are too few steps; PyTorch's gradient is NaN then, unless zero_infinity is set. The gradient for
/// log_probs is that of the loss alone. PyTorch's adds exp(log_probs), which log_softmax() removes.
///
/// log_probs are the log probabilities [time, batch, classes], from log_softmax(). labels are
/// [batch, longest], and both lengths are [batch]. Labels after the length of a sequence are not
/// read. The mean first divides each loss by its number of labels, at least 1. Throws ShapeError
/// for other shapes, and IndexError for a blank, a label or a length outside its range.
REEL_API Tensor ctc_loss(Operand log_probs, Operand labels, Operand input_lengths,
                         Operand label_lengths, CTCOptions options = {});
}  // namespace reel
