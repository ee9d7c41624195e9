// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/softmax.hpp>

#include <reel/ops/loss.hpp>
#include <reel/ops/reduce.hpp>
#include <reel/ops/reshape.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/along.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/ops/softmax.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/axis.hpp"

namespace reel {
namespace {
void cross_entropy_shape(Inference& call) {
  const Shape &scores = call.input(0).shape, &labels = call.input(1).shape;
  if (scores.rank() == 0)
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 0), "an axis of classes",
                     "()");
  const Shape rows(std::span(scores.data(), scores.rank() - 1));
  if (!(labels == rows))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                     "shape " + to_text(rows) + ", one for each row of scores " + to_text(scores),
                     to_text(labels));
  require_integer(call, 1);
  call.output(call.input(0).dtype, labels);
}

void softmax_samples(SampleList out, Tensor (*f)(Operand, AxisNumber)) {
  samples_of(out, 1, [f](const std::vector<Tensor>& in) { return f(in[0], -1); });
  samples_of(out, 2, [f](const std::vector<Tensor>& in) { return f(in[0], 0); });
  samples_of(out, 3, [f](const std::vector<Tensor>& in) { return f(in[0], 1); }, {-30, 30});
}

Tensor some_labels(const Shape& shape, std::int64_t classes) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<std::int64_t>(i * 7 + 1) % classes;
  return from_span(labels, shape);
}

void cross_entropy_samples(SampleList out) {
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    for (const auto& [shape, layout] : varied(1)) {
      const std::int64_t classes = shape.end()[-1];
      if (classes == 0 || (reduction == Reduction::mean && shape.elements() == 0)) continue;
      const Shape rows(std::span(shape.data(), shape.rank() - 1));
      sample(out, {drawn(shape, layout), some_labels(rows, classes)},
             [reduction](const std::vector<Tensor>& in) {
               return cross_entropy(in[0], in[1], reduction);
             });
    }
}
}  // namespace

constinit Op softmax_op{.name = "softmax",
                        .shape = same_as_input,
                        .promote = Promote::floating,
                        .options = &options_type<AxisOptions>,
                        .check = axis_fits<AxisOptions>,
                        .needs = {{need_output()}},
                        .contiguous_inputs = true,
                        .by_lines = true,
                        .autocast = Autocast::full,
                        .samples = [](SampleList out) { softmax_samples(out, softmax); }};
constinit Op log_softmax_op{.name = "log_softmax",
                            .shape = same_as_input,
                            .promote = Promote::floating,
                            .options = &options_type<AxisOptions>,
                            .check = axis_fits<AxisOptions>,
                            .needs = {{need_output()}},
                            .contiguous_inputs = true,
                            .by_lines = true,
                            .autocast = Autocast::full,
                            .samples = [](SampleList out) { softmax_samples(out, log_softmax); }};
constinit Op cross_entropy_op{.name = "cross_entropy",
                              .arity = 2,
                              .shape = cross_entropy_shape,
                              .promote = Promote::floating,
                              .promoted = 1,
                              .options = &options_type<LabelOptions>,
                              .check = any_options,
                              .needs = {{need_input(0) | need_input(1)}},
                              .contiguous_inputs = true,
                              .autocast = Autocast::full,
                              .samples = cross_entropy_samples,
                              .argument_names = "scores, labels"};

namespace {
Tensor along(Op& op, const Operand& x, int axis) {
  return along_axis(op, x, axis, [&](const Operand& line, std::int64_t at) {
    return run(op, line, AxisOptions{at});
  });
}
}  // namespace

Tensor softmax(Operand x, AxisNumber axis) { return along(softmax_op, x, axis); }
Tensor log_softmax(Operand x, AxisNumber axis) { return along(log_softmax_op, x, axis); }

Tensor row_losses(const Operand& scores, const Operand& labels, const LabelOptions& options) {
  return run(cross_entropy_op, {scores, labels}, options);
}

bool are_probabilities(const Operand& scores, const Operand& labels) {
  return is_floating(dtype_of(cross_entropy_op, labels, 1)) &&
         shape_of(cross_entropy_op, labels, 1) == shape_of(cross_entropy_op, scores) &&
         shape_of(cross_entropy_op, scores).rank() > 0;
}

Tensor cross_entropy(Operand scores, Operand labels, Reduction reduction) {
  if (are_probabilities(scores, labels))
    return cross_entropy(scores, labels, CrossEntropyOptions{.reduction = reduction});
  const FunctionScope scope(scores.caller(), "cross_entropy");
  Tensor losses = row_losses(scores, labels, {});
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::mean ? mean(std::move(losses)) : sum(std::move(losses));
}

const Entry softmax_ops[] = {&softmax_op, &log_softmax_op, &cross_entropy_op, nullptr};
}  // namespace reel
