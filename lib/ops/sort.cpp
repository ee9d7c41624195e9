// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/sort.hpp>

#include <cmath>
#include <string>

#include <reel/ops.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/along.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/scan.hpp"

namespace reel {
namespace {
void argsort_shape(Inference& call) {
  const auto& options = call.option<AxisSortOptions>();
  normal_axis(call.op, options.axis, call.input(0).shape.rank(), call.caller);
  require_arithmetic(call, 0);
  Shape shape = call.input(0).shape;
  std::int64_t& length = shape.data()[options.axis];
  length = options.ranks(length);
  call.output(DType::int64, shape);
}
void searchsorted_shape(Inference& call) {
  if (call.input(0).rank() != 1)
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 0), "one axis",
                     to_text(call.input(0).shape));
  require_arithmetic(call, 0);
  call.output(DType::int64, call.input(1).shape);
}

void histogram_shape(Inference& call) {
  require_arithmetic(call, 0);
  call.output(DType::int64, Shape({call.option<HistogramOptions>().bins}));
}

const char* ranks_fit(const Inference& call) {
  const auto& options = call.option<AxisSortOptions>();
  if (const char* const wrong = axis_fits<AxisSortOptions>(call)) return wrong;
  const std::int64_t length = call.input(0).shape.data()[options.axis];
  return options.count >= -1 && options.first >= 0 && options.first <= length &&
                 options.ranks(length - options.first) <= length - options.first
             ? nullptr
             : "ranks of its input";
}
const char* bins_fit(const Inference& call) {
  const auto& options = call.option<HistogramOptions>();
  return options.bins > 0 && options.low < options.high && std::isfinite(options.high - options.low)
             ? nullptr
             : "bins between two numbers";
}

constexpr Draw coarse{-4, 4, 0.5};  // some elements are equal
void argsort_samples(SampleList out) {
  for (const bool descending : {false, true}) {
    const SortOptions options{descending};
    samples_of(
        out, 1, [=](const std::vector<Tensor>& in) { return argsort(in[0], -1, options); }, coarse);
    samples_of(
        out, 2, [=](const std::vector<Tensor>& in) { return argsort(in[0], 0, options); }, coarse);
    samples_of(
        out, 2,
        [=](const std::vector<Tensor>& in) {
          return ranks_of(in[0], 0, options, 0, in[0].shape()[0] / 2);
        },
        coarse);
    samples_of(
        out, 2,
        [=](const std::vector<Tensor>& in) {
          return ranks_of(in[0], -1, options, in[0].shape()[-1] / 2, in[0].shape()[-1] > 1);
        },
        coarse);
  }
}
void searchsorted_samples(SampleList out) {
  for (const bool right : {false, true})
    for (const auto& [shape, layout] : varied())
      for (const std::int64_t length : {0, 1, 9})
        sample(out, {sort(drawn({length}, coarse)), drawn(shape, layout, coarse, 1)},
               [=](const std::vector<Tensor>& in) {
                 return searchsorted(in[0], in[1], {.right = right});
               });
}
void histogram_samples(SampleList out) {
  for (const std::int64_t bins : {1, 3, 8})
    samples_of(
        out, 0, [=](const std::vector<Tensor>& in) { return histogram(in[0], bins, -1, 1.5); },
        coarse);
}
}  // namespace

constinit Op argsort_op{.name = "argsort",
                        .shape = argsort_shape,
                        .options = &options_type<AxisSortOptions>,
                        .check = ranks_fit,
                        .differentiable = false,
                        .contiguous_inputs = true,
                        .samples = argsort_samples};
constinit Op searchsorted_op{.name = "searchsorted",
                             .arity = 2,
                             .shape = searchsorted_shape,
                             .promote = Promote::numeric,
                             .options = &options_type<SearchSortedOptions>,
                             .check = any_options,
                             .differentiable = false,
                             .contiguous_inputs = true,
                             .samples = searchsorted_samples,
                             .argument_names = "sorted, values"};

constinit Op histogram_op{.name = "histogram",
                          .shape = histogram_shape,
                          .options = &options_type<HistogramOptions>,
                          .check = bins_fit,
                          .differentiable = false,
                          .contiguous_inputs = true,
                          .samples = histogram_samples};

Tensor argsort(Operand x, AxisNumber axis, SortOptions options) {
  return along_axis(argsort_op, x, axis, [&](const Operand& line, std::int64_t at) {
    return run(argsort_op, line, AxisSortOptions{at, options.descending});
  });
}
Tensor ranks_of(Operand x, std::int64_t axis, SortOptions options, std::int64_t first,
                std::int64_t count) {
  axis = normal_axis(argsort_op, axis, shape_of(argsort_op, x).rank(), x.caller());
  return run(argsort_op, x, AxisSortOptions{axis, options.descending, first, count});
}
Tensor sort(Operand x, AxisNumber axis, SortOptions options) {
  const FunctionScope scope(x.caller(), "sort");
  return along_axis(argsort_op, x, axis, [&](const Operand& line, std::int64_t at) {
    return gather(line, argsort(line, at, options), at);
  });
}

TopK topk(Operand x, CountNumber k, AxisNumber axis) {
  const FunctionScope scope(x.caller(), "topk");
  const Shape& shape = shape_of(argsort_op, x);
  if (shape.rank() == 0) {  // a line of one element
    if (k != 1) fail<ShapeError>(x.caller(), "topk", "k", "1 of a single number", to_text(k.value));
    const Tensor line = reshape(x, {1});
    const auto [values, positions] = topk(Operand(line, x.caller()), k, axis);
    return {reshape(values, {}), reshape(positions, {})};
  }
  const std::int64_t along = normal_axis(argsort_op, axis, shape.rank(), x.caller());
  const std::int64_t n = shape.data()[along];
  if (k < 0 || k > n)
    fail<ShapeError>(x.caller(), "topk", "k", "0 to " + to_text(n), to_text(k.value));
  const Tensor positions = ranks_of(x, along, {.descending = true}, 0, k);
  return {gather(x, positions, axis), positions};
}

Tensor searchsorted(Operand sorted, Operand values, SearchOptions options) {
  return run(searchsorted_op, {sorted, values}, SearchSortedOptions{options.right});
}

Tensor bincount(Operand x, Extent length) {
  const FunctionScope scope(x.caller(), "bincount");
  const std::int64_t bins = length.value;
  const Tensor numbers = run(check_range_op, {x}, RangeOptions{0, bins - 1, "x"});
  if (bins <= 0) {
    const DeviceScope device(numbers.device());
    return full({length}, std::int64_t{0});
  }
  return run(histogram_op, numbers, HistogramOptions{bins, 0, static_cast<double>(bins)});
}

Tensor histogram(Operand x, Extent bins, double low, double high) {
  if (bins.value <= 0)
    fail<Error>(x.caller(), "histogram", "bins", "more than 0", to_text(bins.value));
  if (!(low < high) || !std::isfinite(high - low))
    fail<Error>(x.caller(), "histogram", "high", "a finite number above low = " + to_text(low),
                to_text(high));
  return run(histogram_op, x, HistogramOptions{bins.value, low, high});
}

const Entry sort_ops[] = {&argsort_op, &searchsorted_op, &histogram_op, nullptr};
}  // namespace reel
