// SPDX-License-Identifier: BSD-3-Clause
// Random choices, made of other ops.
#include <reel/ops.hpp>
#include <reel/random.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/table/options/gather.hpp"

namespace reel::random {
namespace {
/// `count` positions for each row of running sums [rows, n], in float64 and without NaN: position k
/// with the probability of its part of the row's last sum. All rows are searched at once: row r is
/// moved to [r, r + 1]. Uniform numbers have so few bits that they stay below r + 1.
Tensor positions_in(const Tensor& sums, std::int64_t count) {
  const std::int64_t rows = sums.shape(0), n = sums.shape(1);
  const Tensor shares = minimum(sums / sums(all, range(n - 1, n)), 1);
  const Tensor row = expand_dims(arange(std::int64_t{0}, rows), 1);
  const double parts =
      std::ldexp(1.0, 52 - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows))));
  const Tensor drawn = uniform({rows, count}, {.dtype = DType::float64});
  const Tensor places = searchsorted(reshape(shares + row, {rows * n}),
                                     floor(drawn * parts) / parts + row, {.right = true});
  return clip(places - row * n, 0, n - 1);
}

constexpr double most = std::numeric_limits<double>::max();
/// x in float64. Elements that are not finite and at least `lowest` are an error.
Tensor checked(const Tensor& x, const char* argument, double lowest, const char* expected) {
  return run(check_range_op, {cast(x, DType::float64)},
             RangeOptions::finite(argument, lowest, expected));
}

Tensor classes_of(const Operand& logits, std::int64_t count) {
  const Tensor scores = cast(logits, DType::float64);
  const std::int64_t classes = scores.rank() ? scores.shape(-1) : 0;
  if (classes == 0)
    fail<ShapeError>(logits.caller(), "categorical", "logits",
                     "at least one class in the last axis", to_text(scores.shape()));
  const DeviceScope device(scores.device());
  const Tensor rows = reshape(scores, {scores.size() / classes, classes});
  const Tensor largest =
      checked(max(rows, 1, keepdims), "logits", -most, "rows whose largest number is finite");
  return positions_in(cumsum(exp(rows - largest), 1), count);
}
}  // namespace

Tensor categorical(Operand logits) {
  const FunctionScope scope(logits.caller(), "categorical");
  const Tensor drawn = classes_of(logits, 1);
  Shape shape = shape_of(argsort_op, logits);
  shape.resize(shape.rank() - 1);
  return reshape(drawn, shape);
}
Tensor categorical(Operand logits, Extent count) {
  const FunctionScope scope(logits.caller(), "categorical");
  Shape shape = shape_of(argsort_op, logits);
  if (count.value < 0)
    fail<ShapeError>(logits.caller(), "categorical", "count", "at least 0", to_text(count.value));
  if (shape.rank() > 0) shape.data()[shape.rank() - 1] = count.value;
  return reshape(classes_of(logits, count.value), shape);
}

Tensor shuffle(Operand x, AxisNumber axis) {
  const FunctionScope scope(x.caller(), "shuffle");
  const Tensor values = x.value();
  const DeviceScope device(values.device());
  return take(values, permutation(values.shape(axis)), axis);
}

namespace {
/// The positions of n draws from `length` slices.
Tensor chosen(std::int64_t length, std::int64_t n, const ChoiceOptions& options) {
  if (!options.weights.defined())
    return options.replace ? integers(0, length, {n}) : permutation(length)(range(0, n));
  const Tensor weights = checked(options.weights, "weights", 0, "finite numbers of at least 0");
  if (!options.replace) {
    const Tensor is_drawn = weights > 0, logs = log(where(is_drawn, weights, 1));
    const Tensor keys = where(is_drawn, logs, -std::numeric_limits<double>::infinity()) +
                        gumbel({length}, {.dtype = DType::float64});
    return topk(keys, n).positions;
  }
  const Tensor sums = reshape(cumsum(weights), {1, length});
  checked(sums(0, length - 1), "weights", std::numeric_limits<double>::denorm_min(),
          "a positive, finite sum");
  return reshape(positions_in(sums, n), {n});
}
}  // namespace

Tensor choice(Operand x, Extent n, ChoiceOptions options) {
  const Caller caller = x.caller();
  const FunctionScope scope(caller, "choice");
  const Tensor values = x.value();
  if (values.rank() == 0) fail<ShapeError>(caller, "choice", "x", "at least one axis", "()");
  const std::int64_t length = values.shape(0), count = n.value;
  if (count < 0) fail<ShapeError>(caller, "choice", "n", "at least 0", to_text(count));
  if (count > 0 && (length == 0 || (!options.replace && count > length)))
    fail<ShapeError>(caller, "choice", "n", "at most " + to_text(length) + ", the length of x",
                     to_text(count));
  if (count == 0) return values(range(0, 0));
  if (options.weights.defined() && options.weights.shape() != Shape({length}))
    fail<ShapeError>(caller, "choice", "weights", to_text(Shape({length})),
                     to_text(options.weights.shape()));
  const DeviceScope device(values.device());
  return take(values, chosen(length, count, options));
}
}  // namespace reel::random
