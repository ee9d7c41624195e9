// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/loss.hpp>

#include <limits>
#include <string_view>

#include <reel/ops.hpp>

#include "lib/flow/context.hpp"
#include "lib/formulas/loss.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/pointwise.hpp"
#include "lib/ops/samples.hpp"
#include "lib/ops/softmax.hpp"

namespace reel {
namespace {
constexpr Draw probability{0.05, 0.95}, off_zero{.grid = 0.25, .offset = 0.125};

Tensor each_cross_entropy(Operand x, Operand target);
Tensor each_with_logits(Operand x, Operand target);
Tensor huber(Operand d, Operand delta);
}  // namespace

constinit Op binary_cross_entropy_op = pointwise<formulas::BinaryCrossEntropy>(
    [](SampleList out) { binary_samples(out, each_cross_entropy, probability, probability); },
    {.autocast = Autocast::full});
constinit Op binary_cross_entropy_with_logits_op =
    pointwise<formulas::BinaryCrossEntropyWithLogits>(
        [](SampleList out) { binary_samples(out, each_with_logits, off_zero); },
        {.autocast = Autocast::full});
constinit Op huber_op = pointwise<formulas::Huber>(
    [](SampleList out) { binary_samples(out, huber, off_zero, {.low = 0.5, .grid = 0.25}); },
    {.internal = true, .autocast = Autocast::full});

namespace {
Tensor each_cross_entropy(Operand x, Operand target) {
  return run_binary(binary_cross_entropy_op, x, target);
}
Tensor each_with_logits(Operand x, Operand target) {
  return run_binary(binary_cross_entropy_with_logits_op, x, target);
}
Tensor huber(Operand d, Operand delta) { return run_binary(huber_op, d, delta); }

/// Calls f(); errors name this public function.
template <class F>
Tensor named(std::string_view name, const Operand& x, const F& f) {
  const FunctionScope scope(x.caller(), name);
  return f();
}

Tensor reduced(Tensor losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::mean ? mean(std::move(losses)) : sum(std::move(losses));
}

/// Broadcasting a column against a row would be a mistake without an error.
void require_same_shape(std::string_view name, const Operand& x, const Operand& target) {
  const Shape &shape = shape_of(subtract_op, x), &other = shape_of(subtract_op, target, 1);
  if (shape == other || shape.rank() == 0 || other.rank() == 0) return;
  fail<ShapeError>(x.caller(), name, "target", "the shape of x, " + to_text(shape), to_text(other),
                   "reshape() it, or say what is meant by broadcast_to().");
}
void require_number(bool good, std::string_view name, std::string_view argument,
                    std::string_view expected, double got, Caller caller) {
  if (!good) fail<Error>(caller, name, argument, expected, to_text(got));
}

/// x, as float32 if it has 16 bits inside an AutocastScope.
Tensor uncast(const Operand& x) {
  const bool casts = Context::here().mode & autocasts && is_half(dtype_of(cast_op, x));
  return casts ? cast(x, DType::float32) : x.value();
}
/// uncast(x), as float32 if it is an integer.
Tensor floating(const Operand& x) {
  if (!is_floating(dtype_of(cast_op, x))) return cast(x, DType::float32);
  return uncast(x);
}
/// x - y, without a wrap around of integers.
Tensor difference(const Operand& x, const Operand& y) {
  const bool floats =
      is_floating(dtype_of(subtract_op, x)) || is_floating(dtype_of(subtract_op, y));
  return floats ? uncast(x) - uncast(y) : cast(x, DType::float32) - cast(y, DType::float32);
}

/// The loss f of each pair, reduced.
template <class F>
Tensor loss(std::string_view name, const Operand& x, const Operand& target, Reduction reduction,
            const F& f) {
  return named(name, x, [&] {
    require_same_shape(name, x, target);
    return reduced(f(), reduction);
  });
}
}  // namespace

Tensor mse_loss(Operand x, Operand target, Reduction reduction) {
  return loss("mse_loss", x, target, reduction, [&] { return square(difference(x, target)); });
}
Tensor l1_loss(Operand x, Operand target, Reduction reduction) {
  return loss("l1_loss", x, target, reduction, [&] { return abs(difference(x, target)); });
}
Tensor huber_loss(Operand x, Operand target, HuberOptions options) {
  return loss("huber_loss", x, target, options.reduction, [&] {
    const double delta = options.delta;
    require_number(delta > 0, "huber_loss", "delta", "more than 0", delta, x.caller());
    return huber(difference(x, target), delta);
  });
}
Tensor binary_cross_entropy(Operand x, Operand target, Reduction reduction) {
  return loss("binary_cross_entropy", x, target, reduction,
              [&] { return each_cross_entropy(x, target); });
}
Tensor binary_cross_entropy_with_logits(Operand x, Operand target, Reduction reduction) {
  return loss("binary_cross_entropy_with_logits", x, target, reduction,
              [&] { return each_with_logits(x, target); });
}
Tensor binary_cross_entropy_with_logits(Operand x, Operand target,
                                        BinaryCrossEntropyOptions options) {
  const Tensor& weight = options.positive_weight;
  if (!weight.defined()) return binary_cross_entropy_with_logits(x, target, options.reduction);
  const std::string_view name = "binary_cross_entropy_with_logits";
  return loss(name, x, target, options.reduction, [&] {
    const Shape& shape = shape_of(subtract_op, x);
    if (!broadcasts_to(weight.shape(), shape))
      fail<ShapeError>(x.caller(), name, "positive_weight",
                       "a shape that broadcasts to " + to_text(shape), to_text(weight.shape()));
    const Tensor y = floating(target);
    return y * (weight * each_with_logits(x, 1)) + (1 - y) * each_with_logits(x, 0);
  });
}
Tensor hinge_loss(Operand x, Operand target, Reduction reduction) {
  return loss("hinge_loss", x, target, reduction, [&] { return relu(1 - floating(target) * x); });
}
Tensor kl_divergence(Operand x, Operand target, Reduction reduction) {
  return loss("kl_divergence", x, target, reduction, [&] {
    if (shape_of(subtract_op, x).rank() == 0)
      fail<ShapeError>(x.caller(), "kl_divergence", "x", "at least one axis", "()");
    const Tensor p = floating(target), counted = p != 0;
    return sum(p * (log(where(counted, p, 1)) - where(counted, x, 0)), -1);
  });
}

namespace {
/// Vectors along an axis, divided by their lengths; zeros stay zeros. No square overflows, because
/// x is divided by the size of its largest element first.
Tensor units_of(const Tensor& x, int axis) {
  if (x.size() == 0) return x;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Tensor fixed = stop_gradient(x);
  const Tensor size = maximum(max(fixed, axis, keepdims), -min(fixed, axis, keepdims));
  const Tensor none = size == 0, near = x / where(none | (size == infinity), 1, size);
  const Tensor squares = cast(sum_of_squares(near, axis, keepdims), x.dtype());
  return near / sqrt(where(none, 1, squares));
}
}  // namespace

Tensor cosine_similarity(Operand x, Operand y, AxisNumber axis) {
  return named("cosine_similarity", x, [&] {
    return sum(units_of(floating(x), axis) * units_of(floating(y), axis), axis.value);
  });
}
Tensor cosine_embedding_loss(Operand x, Operand y, Operand target, CosineEmbeddingOptions options) {
  constexpr std::string_view name = "cosine_embedding_loss";
  return named(name, x, [&] {
    const Tensor cosine = cosine_similarity(x, y);
    require_same_shape(name, cosine, target);
    return reduced(where(target == 1, 1 - cosine, relu(cosine - options.margin)),
                   options.reduction);
  });
}
Tensor triplet_margin_loss(Operand anchor, Operand positive, Operand negative,
                           TripletOptions options) {
  constexpr std::string_view name = "triplet_margin_loss";
  return named(name, anchor, [&] {
    require_same_shape(name, anchor, positive);
    require_same_shape(name, anchor, negative);
    const Tensor near = norm(difference(anchor, positive), -1);
    const Tensor far = norm(difference(anchor, negative), -1);
    return reduced(relu(near - far + options.margin), options.reduction);
  });
}

Tensor cross_entropy(Operand scores, Operand labels, CrossEntropyOptions options) {
  constexpr std::string_view name = "cross_entropy";
  return named(name, scores, [&] {
    const double smoothing = options.smoothing;
    require_number(smoothing >= 0 && smoothing <= 1, name, "smoothing", "a number in [0, 1]",
                   smoothing, scores.caller());
    const Shape& shape = shape_of(cast_op, scores);
    const std::int64_t classes = shape.rank() ? shape.end()[-1] : 0;
    const Tensor& weights = options.class_weights;
    if (weights.defined() && weights.shape() != Shape({classes}))
      fail<ShapeError>(scores.caller(), name, "class_weights", to_text(Shape({classes})),
                       to_text(weights.shape()));
    if (are_probabilities(scores, labels)) {
      const Tensor target = (1 - smoothing) * labels + smoothing / static_cast<double>(classes);
      const Tensor p = weights.defined() ? target * weights : target;
      return reduced(-sum(p * where(p != 0, log_softmax(scores), 0), -1), options.reduction);
    }
    const Tensor counted = labels != options.ignored_label, safe = where(counted, labels, 0);
    Tensor losses = row_losses(scores, labels, {true, options.ignored_label});
    const Tensor weight = weights.defined() ? take(weights, safe) : ones_like(losses);
    losses = losses * weight;
    if (smoothing > 0) {
      const Tensor logs = log_softmax(where(expand_dims(counted, -1), scores, 0));
      const Tensor spread = sum(weights.defined() ? logs * weights : logs, -1);
      losses = (1 - smoothing) * losses - smoothing / static_cast<double>(classes) * spread;
    }
    losses = where(counted, losses, 0);
    if (options.reduction != Reduction::mean) return reduced(losses, options.reduction);
    return sum(losses) / sum(where(counted, weight, 0));
  });
}

const Entry loss_ops[] = {&binary_cross_entropy_op, &binary_cross_entropy_with_logits_op, &huber_op,
                          nullptr};
}  // namespace reel
