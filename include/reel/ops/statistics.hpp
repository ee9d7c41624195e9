// SPDX-License-Identifier: BSD-3-Clause
// Products, positions, spread and size over axes. Axes and `keepdims` are those of sum().
#pragma once  // defined in lib/ops
#include <reel/tensor.hpp>

namespace reel {
/// The product; 1 if there are no elements. bool, uint8 and int32 are multiplied in int64. The
/// gradient is exact where elements are 0. Floating elements are multiplied in their dtype, in an
/// order that depends on the shape: a part of the product may overflow to inf where the whole one
/// would not, and inf times 0 is NaN. exp(sum(log(x))) of positive elements avoids this. Of all
/// axes by default, else of one axis or several; with `keepdims` they stay, with length 1.
///
///     prod(tensor({{1, 2}, {3, 4}}), 1)    // [2, 12]
REEL_API Tensor prod(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As prod(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor prod(Operand x, Keepdims keep);
/// The position (int64) of the smallest element along one axis, or in the flattened tensor if no
/// axis is given. Of several smallest elements it is the first. NaN counts as the smallest. Throws
/// ShapeError for no elements or several axes.
///
///     argmin(tensor({{5, 1}, {2, 7}}), 1)  // [1, 0]
REEL_API Tensor argmin(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As argmin(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor argmin(Operand x, Keepdims keep);
/// The number of elements that are not 0 (int64). NaN is not 0. Of all axes by default, else of one
/// axis or several; with `keepdims` they stay, with length 1.
///
///     count_nonzero(tensor({3, 0, 5}))     // 2
REEL_API Tensor count_nonzero(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As count_nonzero(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor count_nonzero(Operand x, Keepdims keep);

/// Options of var() and stddev().
struct VarianceOptions {
  double correction = 0;  // 1: the estimate from a sample (PyTorch's default)
};
/// The variance: the sum of the squared distances from the mean, divided by n - correction for n
/// elements. Integers become float32. The result is NaN if there are no elements. Of all axes by
/// default, else of one axis or several; with `keepdims` they stay, with length 1.
///
///     var(tensor({1.0, 2.0, 3.0, 4.0}))    // 1.25
REEL_API Tensor var(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no,
                    VarianceOptions options = {});
/// As var(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor var(Operand x, Keepdims keep, VarianceOptions options = {});
/// The square root of var(). The gradient is 0 where all elements are equal. Of all axes by
/// default, else of one axis or several; with `keepdims` they stay, with length 1. Integers become
/// float32.
///
///     stddev(tensor({1.0, 3.0}))           // 1.0
REEL_API Tensor stddev(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no,
                       VarianceOptions options = {});
/// As stddev(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor stddev(Operand x, Keepdims keep, VarianceOptions options = {});

/// Options of norm().
struct NormOptions {
  double p = 2;  // above 0; infinity gives the largest absolute value
};
/// (sum of |x|^p)^(1/p), by default the Euclidean length. The powers of large and small elements do
/// not overflow or vanish. Integers become float32. The gradient is 0 where the norm is 0. It is
/// NaN where an element is infinite, and overflows where 1 / norm does: below 3e-39 in float32.
/// Throws Error unless p > 0, and ShapeError if p is infinite and there are no elements. Of all
/// axes by default, else of one axis or several; with `keepdims` they stay, with length 1.
///
///     norm(tensor({3.0, 4.0}))             // 5.0
///     norm(tensor({3.0, -4.0}), 0, Keepdims::no, {.p = 1})  // 7.0
REEL_API Tensor norm(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no,
                     NormOptions options = {});
/// As norm(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor norm(Operand x, Keepdims keep, NormOptions options = {});
/// log(sum(exp(x))), without overflow for large x. Integers become float32. The gradient is
/// softmax(x), so NaN where an element is +inf. If there are no elements, or all are -inf, the
/// result is -inf and the gradient 0. Of all axes by default, else of one axis or several; with
/// `keepdims` they stay, with length 1.
///
///     logsumexp(tensor({1000.0, 1000.0}))  // 1000.69
REEL_API Tensor logsumexp(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As logsumexp(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor logsumexp(Operand x, Keepdims keep);

/// The middle of the sorted elements, or the mean of the two in the middle; NaN if one is NaN.
/// Integers become float32. Throws ShapeError for no elements. Of all axes by default, else of one
/// axis or several; with `keepdims` they stay, with length 1.
///
///     median(tensor({7, 1, 3, 2}))         // 2.5
REEL_API Tensor median(Operand x, Axes axes = Axes::every(), Keepdims keep = Keepdims::no);
/// As median(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor median(Operand x, Keepdims keep);
/// The value at the position q (n - 1) of the n sorted elements, interpolated between the elements
/// on both sides; NaN if an element is NaN. Integers become float32. Throws Error unless 0 <= q <=
/// 1, and ShapeError for no elements. Of all axes by default, else of one axis or several; with
/// `keepdims` they stay, with length 1.
///
///     quantile(tensor({1.0, 2.0, 3.0}), 0.25)  // 1.5
REEL_API Tensor quantile(Operand x, double q, Axes axes = Axes::every(),
                         Keepdims keep = Keepdims::no);
/// As quantile(x), with its dtype; all axes stay, with length 1.
REEL_API Tensor quantile(Operand x, double q, Keepdims keep);
}  // namespace reel
