// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/indexing.hpp>
#include <reel/metrics.hpp>
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/compare.hpp>
#include <reel/ops/create.hpp>
#include <reel/ops/gather.hpp>
#include <reel/ops/math.hpp>
#include <reel/ops/reduce.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/ops/scatter.hpp>
#include <reel/ops/select.hpp>
#include <reel/ops/softmax.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "lib/body/text.hpp"
#include "lib/nn/check.hpp"
#include "lib/ops/check.hpp"

namespace reel::metrics {
namespace {
/// Classes as int64.
Tensor classes_of(std::string_view name, std::string_view argument, const Operand& x) {
  if (!shape_of_input(name, argument, x))
    fail<Error>(x.caller(), name, argument, "a tensor", "a number");
  const Tensor classes = x.value();
  if (is_floating(classes.dtype()))
    fail<DTypeError>(x.caller(), name, argument, "integers", name_of(classes.dtype()),
                     "argmax(scores, -1) gives the classes of scores.");
  return cast(classes, DType::int64);
}
void check_same_shape(std::string_view name, std::string_view expected, const Shape& shape,
                      const Tensor& labels, Caller caller) {
  if (labels.shape() == shape) return;
  fail<ShapeError>(caller, name, "labels", error_text("{} {}", expected, shape),
                   to_text(labels.shape()));
}
/// Scores with an axis of classes, whose other axes are those of the labels.
Tensor scores_for(std::string_view name, const Operand& scores, const Tensor& labels) {
  const Shape* const shape = shape_of_input(name, "scores", scores);
  if (!shape || shape->rank() == 0)
    fail<ShapeError>(scores.caller(), name, "scores", "at least one axis",
                     shape ? to_text(*shape) : "a number");
  const Shape outer(std::span(shape->begin(), shape->rank() - 1));
  check_same_shape(name, "the shape of the scores without classes,", outer, labels,
                   scores.caller());
  return scores.value();
}
Tensor mean_of(const Tensor& right) { return mean(cast(right, DType::float64)); }

/// The confusion matrix, for the function `name`.
Tensor counts_of(std::string_view name, const Operand& predictions, const Operand& labels,
                 Extent classes) {
  const std::int64_t count = checked(name, "classes", classes, predictions.caller());
  Tensor guess = classes_of(name, "predictions", predictions);
  Tensor truth = classes_of(name, "labels", labels);
  check_same_shape(name, "the shape of the predictions,", guess.shape(), truth,
                   predictions.caller());
  guess = checked_integers(name, "predictions", guess, 0, count - 1, predictions.caller());
  truth = checked_integers(name, "labels", truth, 0, count - 1, predictions.caller());
  const Tensor cells = reshape(truth * count + guess, {-1});
  const Tensor none = zeros({count * count}, {DType::int64}).to(cells.device());
  return reshape(scatter_add(none, cells, ones_like(cells)), {count, count});
}

double area(const std::vector<double>& scores, const std::vector<std::int64_t>& labels) {
  std::vector<std::size_t> order(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (std::any_of(scores.begin(), scores.end(), [](double x) { return std::isnan(x); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double pairs = 0, zeros = 0, ones = 0;  // of class 0 below, and all of class 1
  for (std::size_t first = 0; first < order.size();) {
    double equal_zeros = 0, equal_ones = 0;
    const double score = scores[order[first]];
    for (; first < order.size() && scores[order[first]] == score; ++first)
      (labels[order[first]] ? equal_ones : equal_zeros) += 1;
    pairs += equal_ones * (zeros + equal_zeros / 2);
    zeros += equal_zeros;
    ones += equal_ones;
  }
  return pairs / (zeros * ones);
}
}  // namespace

Tensor accuracy(Operand scores, Operand labels) {
  const CallerScope here(scores.caller(), "accuracy");
  const Tensor truth = classes_of("accuracy", "labels", labels);
  const Tensor x = scores_for("accuracy", scores, truth), largest = max(x, -1);
  return mean_of((argmax(x, -1) == truth) & (largest == largest));  // NaN is never right
}

Tensor top_k_accuracy(Operand scores, Operand labels, CountNumber k) {
  constexpr std::string_view name = "top_k_accuracy";
  const CallerScope here(scores.caller(), name);
  check_number(k >= 1, name, "k", "1 or more", static_cast<double>(k), scores.caller());
  Tensor truth = classes_of(name, "labels", labels);
  const Tensor x = scores_for(name, scores, truth);
  const std::int64_t classes = x.shape()[-1];
  truth = checked_integers(name, "labels", truth, 0, classes - 1, scores.caller());
  const Tensor at = expand_dims(truth, -1), own = gather(x, at, -1);
  const Tensor earlier = arange(0, classes).to(x.device()) < at;
  const Tensor larger = ~(x <= own) | ((x == own) & earlier);
  return mean_of(sum(cast(larger, DType::int64), -1) < k.value);
}

Tensor confusion_matrix(Operand predictions, Operand labels, Extent classes) {
  const CallerScope here(predictions.caller(), "confusion_matrix");
  return counts_of("confusion_matrix", predictions, labels, classes);
}

Tensor f1(Operand predictions, Operand labels, Extent classes, Averaging averaging) {
  const CallerScope here(predictions.caller(), "f1");
  const Tensor counts = cast(counts_of("f1", predictions, labels, classes), DType::float64);
  const Tensor diagonal = eye(classes, {DType::float64}).to(counts.device());
  Tensor right = 2 * sum(counts * diagonal, 0), all = sum(counts, 0) + sum(counts, 1);
  if (averaging == Averaging::micro) {
    right = sum(right);
    all = sum(all);
  }
  const Tensor each = where(all > 0, right / maximum(all, 1), 0);
  return averaging == Averaging::macro ? mean(each) : each;
}

Tensor auc(Operand scores, Operand labels) try {
  const CallerScope here(scores.caller(), "auc");
  const Tensor truth = classes_of("auc", "labels", labels);
  const Shape* const shape = shape_of_input("auc", "scores", scores);
  check_same_shape("auc", "the shape of the scores,", shape ? *shape : Shape(), truth,
                   scores.caller());
  const auto classes = truth.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (classes[i] != 0 && classes[i] != 1)
      fail<Error>(scores.caller(), "auc", "labels", "0 and 1",
                  to_text(classes[i]) + place_text(truth.shape(), static_cast<std::int64_t>(i)));
  return tensor<double>(area(cast(scores, DType::float64).to_vector<double>(), classes),
                        scores.caller());
} catch (const std::bad_alloc&) {
  fail_memory(scores.caller(), "auc");
}

Tensor perplexity(Operand scores, Operand labels) {
  const CallerScope here(scores.caller(), "perplexity");
  return exp(cast(cross_entropy(scores, labels), DType::float64));
}
}  // namespace reel::metrics
