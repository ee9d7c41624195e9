// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/statistics.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <reel/ops.hpp>
#include <reel/ops/sort.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"

namespace reel {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Calls f with x as float32 or float64; errors name this function. The result of 16 bits is
/// rounded once, except inside an AutocastScope.
template <class F>
Tensor compute(const Operand& x, std::string_view name, const F& f) {
  const FunctionScope scope(x.caller(), name);
  const DType dtype = dtype_of(prod_op, x);
  if (is_floating(dtype) && !is_half(dtype)) return f(x.value());
  const Tensor result = f(cast(x, DType::float32));
  return is_half(dtype) && !(Context::here().mode & autocasts) ? cast(result, dtype) : result;
}

/// f(x) where x is not 0, else 0; so is its gradient.
template <class F>
Tensor zero_at_zero(const Tensor& x, const F& f) {
  const Tensor zero = x == 0;
  return where(zero, 0, f(where(zero, 1, x)));
}
Tensor root(const Tensor& x) {
  return zero_at_zero(x, [](const Tensor& y) { return sqrt(y); });
}

/// The differences from the mean.
Tensor centred(Tensor x, const Axes& axes) {
  // The mean is rounded, so the mean of the differences is subtracted too.
  const Tensor middle = stop_gradient(mean(x, axes, keepdims));
  Tensor differences = std::move(x) - middle;
  const Tensor rest = mean(differences, axes, keepdims);
  return std::move(differences) - rest;
}
/// The divisor of a variance: the number of elements that are reduced to one of y, less
/// `correction`.
double freedom(const Tensor& x, const Tensor& y, double correction) {
  const auto count = static_cast<double>(y.size() ? x.size() / y.size() : 0);
  return std::max(count - correction, 0.0);
}
}  // namespace

Tensor count_nonzero(Operand x, Axes axes, Keepdims keep) {
  const FunctionScope scope(x.caller(), "count_nonzero");
  return sum(x != 0, axes, keep);
}
Tensor count_nonzero(Operand x, Keepdims keep) { return count_nonzero(x, Axes::every(), keep); }

Tensor var(Operand x, Axes axes, Keepdims keep, VarianceOptions options) {
  return compute(x, "var", [&](Tensor values) {
    const Tensor x = centred(std::move(values), axes), squares = sum_of_squares(x, axes, keep);
    return cast(squares / freedom(x, squares, options.correction), x.dtype());
  });
}
Tensor var(Operand x, Keepdims keep, VarianceOptions options) {
  return var(x, Axes::every(), keep, options);
}
namespace {
/// x to the power p; 0 where x is 0, and so is its gradient.
Tensor powers(const Tensor& x, double p) {
  return zero_at_zero(x, [&](const Tensor& y) { return power(y, p); });
}
Tensor norm_of(const Tensor& x, const Axes& axes, Keepdims keep, double p) {
  if (p == 2 && x.dtype() == DType::float32)
    return cast(root(sum_of_squares(x, axes, keep)), DType::float32);
  const Tensor size = abs(x);
  if (p == 1) return sum(size, axes, keep);
  if (p == infinity) return max(size, axes, keep);
  if (x.size() == 0) return sum(size, axes, keep);
  const Tensor largest = max(stop_gradient(size), axes, keepdims);
  // Without this scale, powers of large numbers would overflow, and those of small ones would
  // vanish.
  const Tensor scale = where((largest > 0) & (largest < infinity), largest, 1);
  const Tensor near = (p == 2 ? x : size) / scale;
  const Tensor length = p == 2 ? root(sum_of_squares(near, axes, keepdims))
                               : powers(sum(powers(near, p), axes, keepdims), 1 / p);
  return keep == keepdims ? length * scale : sum(length * scale, axes);
}
}  // namespace

Tensor stddev(Operand x, Axes axes, Keepdims keep, VarianceOptions options) {
  return compute(x, "stddev", [&](Tensor values) {
    const Tensor x = centred(std::move(values), axes), length = norm_of(x, axes, keep, 2);
    return length / std::sqrt(freedom(x, length, options.correction));
  });
}
Tensor stddev(Operand x, Keepdims keep, VarianceOptions options) {
  return stddev(x, Axes::every(), keep, options);
}

Tensor norm(Operand x, Axes axes, Keepdims keep, NormOptions options) {
  if (!(options.p > 0))
    fail<Error>(x.caller(), "norm", "p", "a number above 0, or infinity", to_text(options.p));
  return compute(x, "norm",
                 [&](const Tensor& values) { return norm_of(values, axes, keep, options.p); });
}
Tensor norm(Operand x, Keepdims keep, NormOptions options) {
  return norm(x, Axes::every(), keep, options);
}

Tensor logsumexp(Operand x, Axes axes, Keepdims keep) {
  return compute(x, "logsumexp", [&](const Tensor& values) {
    if (values.size() == 0) return sum(values, axes, keep) - infinity;
    const Tensor largest = max(stop_gradient(values), axes, keepdims);
    const Tensor finite = where(abs(largest) < infinity, largest, 0);
    const Tensor sums = sum(exp(values - finite), axes, keepdims);
    const Tensor none = sums == 0;
    const Tensor result = where(none, -infinity, log(where(none, 1, sums)) + finite);
    return keep == keepdims ? result : sum(result, axes);
  });
}
Tensor logsumexp(Operand x, Keepdims keep) { return logsumexp(x, Axes::every(), keep); }

namespace {
/// x as [kept..., n]: n elements that are reduced together.
Tensor in_rows(const Tensor& x, const Axes& axes) {
  if (axes.is_every()) return reshape(x, {x.size()});
  SmallVector<int, Shape::max_rank> order;
  SmallVector<std::int64_t, Shape::max_rank + 1> lengths;
  std::int64_t n = 1;
  for (int axis = 0, next = 0; axis < static_cast<int>(x.rank()); ++axis) {
    if (next < axes.count() && axes[next] == axis) {
      n *= x.shape()[axis];
      ++next;
    } else {
      order.push_back(axis);
      lengths.push_back(x.shape()[axis]);
    }
  }
  for (int i = 0; i < axes.count(); ++i) order.push_back(axes[i]);
  lengths.push_back(n);
  return reshape(transpose(x, Axes(std::span<const int>(order.data(), order.size()))),
                 Shape(std::span<const std::int64_t>(lengths.data(), lengths.size())));
}
Tensor quantile_of(const Operand& x, std::string_view name, double q, Axes axes, Keepdims keep) {
  const Caller caller = x.caller();
  const FunctionScope scope(caller, name);
  if (!(q >= 0 && q <= 1)) fail<Error>(caller, name, "q", "0 to 1", to_text(q));
  const Tensor values = x.value();
  if (!axes.is_every()) axes = normal_axes(prod_op, axes, values.rank(), caller);
  const Tensor rows = in_rows(values, axes);
  const std::int64_t n = rows.shape()[-1];
  if (n == 0)
    fail<ShapeError>(caller, name, "x", "at least one element along the reduced axes",
                     to_text(values.shape()));
  const double place = q * static_cast<double>(n - 1), behind = place - std::floor(place);
  const auto below = static_cast<std::int64_t>(place);
  const bool floating = is_floating(rows.dtype());
  const Tensor near = gather(rows, ranks_of(rows, -1, {}, below, behind > 0 ? 2 : 1), -1);
  const auto at = [&](std::int64_t i) {
    const Tensor y = near(ellipsis, i);
    return floating ? y : cast(y, DType::float32);
  };
  Tensor y = at(0);
  if (behind > 0) y = y * (1 - behind) + at(1) * behind;
  if (floating) {  // the place of NaN, if there is one, is that of the largest element
    const Tensor largest = pick(rows, argmax(rows, -1));
    y = where(largest != largest, largest, y);
  }
  if (keep == Keepdims::no) return y;
  Shape kept = values.shape();
  for (int i = 0; i < static_cast<int>(kept.rank()); ++i)
    if (axes.is_every()) kept.data()[i] = 1;
  for (int i = 0; i < axes.count(); ++i) kept.data()[axes[i]] = 1;
  return reshape(y, kept);
}
}  // namespace

Tensor quantile(Operand x, double q, Axes axes, Keepdims keep) {
  return quantile_of(x, "quantile", q, axes, keep);
}
Tensor quantile(Operand x, double q, Keepdims keep) {
  return quantile_of(x, "quantile", q, Axes::every(), keep);
}
Tensor median(Operand x, Axes axes, Keepdims keep) {
  return quantile_of(x, "median", 0.5, axes, keep);
}
Tensor median(Operand x, Keepdims keep) {
  return quantile_of(x, "median", 0.5, Axes::every(), keep);
}
}  // namespace reel
