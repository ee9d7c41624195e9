// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/dist/collectives.hpp>
#include <reel/nn/normalize.hpp>
#include <reel/ops/activation.hpp>
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/math.hpp>
#include <reel/ops/normalize.hpp>
#include <reel/ops/reduce.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/ops/statistics.hpp>
#include <reel/train.hpp>

#include <cmath>
#include <span>

#include "lib/nn/check.hpp"

namespace reel::nn {
namespace {
/// A Variable or Buffer [width] of ones or zeros.
template <class V = Variable>
V vector_of(double value, std::string_view layer, std::string_view name, Extent width, DType dtype,
            Caller caller) {
  const CallerScope here(caller, layer);
  return V(name,
           full({checked(layer, "width", width, caller)}, value, {checked(layer, dtype, caller)},
                caller),
           caller);
}
double checked_epsilon(double epsilon, std::string_view layer, Caller caller) {
  check_number(std::isfinite(epsilon) && epsilon >= 0, layer, "epsilon", "finite and 0 or more",
               epsilon, caller);
  return epsilon;
}

/// The shape of x, which is [batch, ..., channels], or [batch, channels, ...].
const Shape& shape_with_channels(std::string_view layer, const Operand& x, std::int64_t count,
                                 Channels channels) {
  const bool last = channels == Channels::last;
  const Shape* const shape = shape_of_input(layer, "x", x);
  if (shape && shape->rank() >= 2 && (*shape)[last ? -1 : 1] == count) return *shape;
  const bool other = shape && shape->rank() >= 2 && (*shape)[last ? 1 : -1] == count;
  fail<ShapeError>(
      x.caller(), layer, "x",
      last ? error_text("shape (batch, ..., {})", count)
           : error_text("shape (batch, {}, ...)", count),
      shape ? to_text(*shape) : "a number",
      !other ? ""
      : last ? "Where axis 1 has the channels, give the layer .channels = Channels::first."
             : "Where the last axis has the channels, give the layer .channels = Channels::last.");
}
/// [channels] in the place of the channels of x, for x of this rank.
Tensor along_channels(const Variable& x, std::size_t rank, Channels channels) {
  if (channels == Channels::last) return x.value();
  Shape shape;
  shape.resize(rank - 1);
  shape.data()[0] = x.size();
  return reshape(x, shape);
}
}  // namespace

RMSNorm::RMSNorm(Extent width, NormOptions options, Caller caller)
    : scale(vector_of(1, "RMSNorm", "scale", width, options.dtype, caller)),
      epsilon(checked_epsilon(options.epsilon, "RMSNorm", caller)) {}

Tensor RMSNorm::operator()(Operand x) const {
  const CallerScope here(x.caller(), "RMSNorm");
  check_width("RMSNorm", "x", x, scale.size());
  const Tensor from = x.value();
  return from / sqrt(mean(square(from), -1, keepdims) + epsilon) * scale;
}

GroupNorm::GroupNorm(Extent groups, Extent channels, GroupNormOptions options, Caller caller)
    : scale(vector_of(1, "GroupNorm", "scale", channels, options.dtype, caller)),
      shift(vector_of(0, "GroupNorm", "shift", channels, options.dtype, caller)),
      groups(checked("GroupNorm", "groups", groups, caller)),
      epsilon(checked_epsilon(options.epsilon, "GroupNorm", caller)),
      channels(options.channels) {
  if (channels.value % groups.value != 0)
    fail<ShapeError>(caller, "GroupNorm", "groups",
                     error_text("a divisor of {} channels", channels.value), to_text(groups.value));
}

Tensor GroupNorm::operator()(Operand x) const {
  const CallerScope here(x.caller(), "GroupNorm");
  const Shape shape = shape_with_channels("GroupNorm", x, scale.size(), channels);
  const Tensor from = x.value();
  const Tensor gain = along_channels(scale, shape.rank(), channels);
  if (from.size() == 0) return from * gain;
  const std::int64_t length = from.size() / (shape[0] * groups);
  const Tensor one = full({length}, 1, {scale.dtype()}).to(scale.device());
  // The elements of a group side by side.
  const std::int64_t width = scale.size() / groups;
  const Shape parts = channels == Channels::last ? Shape({shape[0], length / width, groups, width})
                                                 : Shape({shape[0], groups, length, 1});
  const auto exchanged = [&](const Tensor& rows) {
    return channels == Channels::last ? transpose(rows, {0, 2, 1, 3}) : rows;
  };
  const Tensor sides = exchanged(reshape(from, parts));
  const Tensor rows =
      layer_norm(reshape(sides, {shape[0], groups, length}), one, one - one, epsilon);
  return reshape(exchanged(reshape(rows, sides.shape())), shape) * gain +
         along_channels(shift, shape.rank(), channels);
}

BatchNorm::BatchNorm(Extent channels, BatchNormOptions options, Caller caller)
    : scale(vector_of(1, "BatchNorm", "scale", channels, options.dtype, caller)),
      shift(vector_of(0, "BatchNorm", "shift", channels, options.dtype, caller)),
      mean(vector_of<Buffer>(0, "BatchNorm", "mean", channels, options.dtype, caller)),
      variance(vector_of<Buffer>(1, "BatchNorm", "variance", channels, options.dtype, caller)),
      epsilon(checked_epsilon(options.epsilon, "BatchNorm", caller)),
      momentum(options.momentum),
      channels(options.channels),
      sync(options.sync) {
  check_number(momentum >= 0 && momentum <= 1, "BatchNorm", "momentum", "0 to 1", momentum, caller);
}

Tensor BatchNorm::operator()(Operand x) const {
  const CallerScope here(x.caller(), "BatchNorm");
  const Shape shape = shape_with_channels("BatchNorm", x, scale.size(), channels);
  const Tensor from = x.value();
  const std::size_t rank = shape.rank();
  const Tensor gain = along_channels(scale, rank, channels),
               plus = along_channels(shift, rank, channels);
  if (!training())
    return (from - along_channels(mean, rank, channels)) *
               (gain / sqrt(along_channels(variance, rank, channels) + epsilon)) +
           plus;
  const std::int64_t own = from.size() / scale.size();
  const bool together = sync && sync->size() > 1;
  const std::int64_t count =
      together ? dist::all_reduce(tensor(own), *sync).item<std::int64_t>() : own;
  if (count < 2)
    fail<ShapeError>(x.caller(), "BatchNorm", "x", "two elements or more for each channel",
                     to_text(shape), "TrainScope evaluating(false) uses running ones.");
  constexpr int but_channels[] = {0, 2, 3, 4, 5, 6, 7}, but_last[] = {0, 1, 2, 3, 4, 5, 6};
  const std::span<const int> axes = channels == Channels::last ? but_last : but_channels;
  const Axes others(axes.first(rank - 1));
  const auto mean_of = [&](const Tensor& values) {
    return together ? dist::all_reduce(reel::sum(values, others, keepdims), *sync) /
                          static_cast<double>(count)
                    : reel::mean(values, others, keepdims);
  };
  const Tensor middle = mean_of(from);
  const Tensor centred = from - middle;
  // The mean is rounded, so the mean of the differences is not quite 0. The shift contains it, as
  // this costs no pass over x.
  const Tensor rest = stop_gradient(mean_of(centred));
  // The norm of float32 is one pass over x.
  const Tensor squares =
      together || from.dtype() == DType::float64
          ? mean_of(square(centred))
          : square(norm(centred, others, keepdims) / std::sqrt(static_cast<double>(count)));
  // Rounding may leave less than 0 of equal elements.
  const Tensor spread = maximum(squares - square(rest), 0);
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  const auto follow = [&](const Buffer& buffer, const Tensor& now) {
    const Tensor value = cast(reshape(stop_gradient(now), {scale.size()}), buffer.dtype());
    Buffer(buffer).assign_add(momentum * (value - buffer));
  };
  follow(mean, middle);
  follow(variance, spread * unbiased);
  const Tensor slope = gain / sqrt(spread + epsilon);
  return centred * slope + (plus - rest * slope);
}
}  // namespace reel::nn
