// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/scan.hpp>

#include "lib/gate/gate.hpp"
#include "lib/ops/along.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/scan.hpp"

namespace reel {
namespace {
void require_axis(const Inference& call) {
  normal_axis(call.op, call.option<AxisScanOptions>().axis, call.input(0).shape.rank(),
              call.caller);
  require_arithmetic(call, 0);
}
/// Integers become int64.
void wide_shape(Inference& call) {
  require_axis(call);
  const DType dtype = call.input(0).dtype;
  call.output(is_floating(dtype) ? dtype : DType::int64, call.input(0).shape);
}
void scan_shape(Inference& call) {
  require_axis(call);
  same_as_input(call);
}
void linear_shape(Inference& call) {
  require_floating(call, 0);
  if (!(call.input(1).shape == call.input(0).shape))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                     to_text(call.input(0).shape), to_text(call.input(1).shape));
  scan_shape(call);
}

using Scan = Tensor (*)(Operand, AxisNumber, ScanOptions);
/// Unless elements of a line may be `equal`, no sample repeats elements along the axis.
void scan_samples(SampleList out, Scan f, Draw draw = {}, bool equal = true) {
  for (const bool reverse : {false, true}) {
    const ScanOptions options{reverse};
    for (const auto& [shape, layout] : varied(1)) {
      if (!equal && layout == Layout::repeated && shape.rank() == 1) continue;
      sample(out, {drawn(shape, layout, draw)},
             [=](const std::vector<Tensor>& in) { return f(in[0], -1, options); });
      if (shape.rank() < 2 || (!equal && layout == Layout::repeated)) continue;
      sample(out, {drawn(shape, layout, draw)},
             [=](const std::vector<Tensor>& in) { return f(in[0], 0, options); });
    }
  }
}
void linear_samples(SampleList out) {
  for (const bool reverse : {false, true})
    for (const auto& [shape, layout] : varied(1))
      for (const std::int64_t axis : {std::int64_t{0}, static_cast<std::int64_t>(shape.rank()) - 1})
        sample(out, {drawn(shape, layout, {-1, 1}), drawn(shape, {}, 3)},
               [=](const std::vector<Tensor>& in) {
                 return run(linear_scan_op, {in[0], in[1]}, AxisScanOptions{axis, reverse});
               });
}
constexpr std::uint16_t both = need_input(0) | need_output();
}  // namespace

constinit Op cumsum_op{.name = "cumsum",
                       .shape = wide_shape,
                       .options = &options_type<AxisScanOptions>,
                       .check = axis_fits<AxisScanOptions>,
                       .contiguous_inputs = true,
                       .autocast = Autocast::full,
                       .samples = [](SampleList out) { scan_samples(out, cumsum); }};
constinit Op cumprod_op{.name = "cumprod",
                        .shape = wide_shape,
                        .options = &options_type<AxisScanOptions>,
                        .check = axis_fits<AxisScanOptions>,
                        .needs = {{both}},
                        .contiguous_inputs = true,
                        .autocast = Autocast::full,
                        .samples = [](SampleList out) {
                          scan_samples(out, cumprod, {0.5, 1.5});
                        }};
constinit Op cummax_op{.name = "cummax",
                       .shape = scan_shape,
                       .options = &options_type<AxisScanOptions>,
                       .check = axis_fits<AxisScanOptions>,
                       .needs = {{both}},
                       .contiguous_inputs = true,
                       .samples = [](SampleList out) { scan_samples(out, cummax, {}, false); }};
constinit Op logcumsumexp_op{.name = "logcumsumexp",
                             .shape = scan_shape,
                             .promote = Promote::floating,
                             .options = &options_type<AxisScanOptions>,
                             .check = axis_fits<AxisScanOptions>,
                             .needs = {{both}},
                             .contiguous_inputs = true,
                             .autocast = Autocast::full,
                             .samples = [](SampleList out) { scan_samples(out, logcumsumexp); }};
constinit Op linear_scan_op{.name = "linear_scan",
                            .arity = 2,
                            .shape = linear_shape,
                            .promote = Promote::floating,
                            .options = &options_type<AxisScanOptions>,
                            .check = axis_fits<AxisScanOptions>,
                            .needs = {{both, need_input(0)}},
                            .contiguous_inputs = true,
                            .internal = true,
                            .autocast = Autocast::full,
                            .samples = linear_samples};

namespace {
Tensor scan(Op& op, const Operand& x, int axis, ScanOptions options) {
  return along_axis(op, x, axis, [&](const Operand& line, std::int64_t at) {
    return run(op, line, AxisScanOptions{at, options.reverse});
  });
}
}  // namespace

Tensor cumsum(Operand x, AxisNumber axis, ScanOptions options) {
  return scan(cumsum_op, x, axis, options);
}
Tensor cumprod(Operand x, AxisNumber axis, ScanOptions options) {
  return scan(cumprod_op, x, axis, options);
}
Tensor cummax(Operand x, AxisNumber axis, ScanOptions options) {
  return scan(cummax_op, x, axis, options);
}
Tensor logcumsumexp(Operand x, AxisNumber axis, ScanOptions options) {
  return scan(logcumsumexp_op, x, axis, options);
}

const Entry scan_ops[] = {&cumsum_op,       &cumprod_op,     &cummax_op,
                          &logcumsumexp_op, &linear_scan_op, nullptr};
}  // namespace reel
