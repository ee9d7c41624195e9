// SPDX-License-Identifier: BSD-3-Clause
// The CTC loss (Graves et al. 2006, section 4.1).
#include <reel/ops.hpp>

#include <string>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/options/ctc.hpp"
#include "lib/table/options/gather.hpp"

namespace reel {
extern Op ctc_op;
namespace {
constexpr std::string_view name = "ctc_loss";

void require_shape(const Operand& x, std::string_view argument, const Tensor& given,
                   const Shape& expected) {
  if (!(given.shape() == expected))
    fail<ShapeError>(x.caller(), name, argument, to_text(expected), to_text(given.shape()));
}
/// Numbers from 0 to `most`, as int64. Others are an IndexError.
Tensor checked(const Tensor& x, std::int64_t most, const char* argument) {
  return run(check_range_op, {x}, RangeOptions{0, most, argument});
}

/// Adjacent labels that differ, adjacent labels that are equal, and all lengths.
void ctc_samples(SampleList out) {
  const auto add = [&](const Shape& shape, Layout layout, const Tensor& labels, const Tensor& steps,
                       const Tensor& counts) {
    for (const std::int64_t blank : {std::int64_t{0}, shape[2] - 1})
      sample(out, {drawn(shape, layout), labels - (blank ? 1 : 0), steps, counts},
             [blank](const std::vector<Tensor>& in) {
               return ctc_loss(in[0], in[1], in[2], in[3], {blank, Reduction::none});
             });
  };
  for (const auto layout : {Layout::plain, Layout::transposed, Layout::reversed, Layout::stepped})
    add({5, 4, 3}, layout, tensor({1, 2, 1, 2, 2, 0, 2, 0, 0, 1, 1, 1}).reshape({4, 3}),
        tensor({5, 4, 5, 4}), tensor({3, 2, 0, 2}));
  add({3, 1, 2}, Layout::plain, ones({1, 1}, int64), tensor({2}), tensor({1}));
  add({3, 0, 2}, Layout::plain, zeros({0, 2}, int64), zeros({0}, int64), zeros({0}, int64));
}
void ctc_shape(Inference& call) { call.output(call.input(0).dtype, call.input(2).shape); }
}  // namespace

constinit Op ctc_op{.name = "ctc_loss",
                    .arity = 4,
                    .shape = ctc_shape,
                    .promote = Promote::floating,
                    .promoted = 1,
                    .options = &options_type<BlankOptions>,
                    .needs = {{need_input(0) | need_input(1) | need_input(2) | need_input(3)}},
                    .contiguous_inputs = true,
                    .autocast = Autocast::full,
                    .samples = ctc_samples,
                    .argument_names = "log_probs, labels, input_lengths, label_lengths",
                    .not_finite = "the labels do not fit into the steps"};

Tensor ctc_loss(Operand log_probs, Operand labels, Operand input_lengths, Operand label_lengths,
                CTCOptions options) {
  const Caller caller = log_probs.caller();
  const FunctionScope scope(caller, name);
  const Tensor given = log_probs.value(), targets = labels.value();
  const Tensor x = is_floating(given.dtype()) ? given : cast(given, DType::float32);
  if (x.rank() != 3)
    fail<ShapeError>(caller, name, "log_probs", "[time, batch, classes]", to_text(x.shape()));
  const std::int64_t batch = x.shape(1);
  if (targets.rank() != 2 || targets.shape(0) != batch)
    fail<ShapeError>(caller, name, "labels",
                     "[batch, longest] with the batch of log_probs, " + to_text(batch),
                     to_text(targets.shape()));
  const Tensor steps = input_lengths.value(), counts = label_lengths.value();
  require_shape(log_probs, "input_lengths", steps, Shape({batch}));
  require_shape(log_probs, "label_lengths", counts, Shape({batch}));
  if (options.blank < 0 || options.blank >= x.shape(2))
    fail<IndexError>(caller, name, "blank", "0 to " + to_text(x.shape(2) - 1),
                     to_text(options.blank));
  const DeviceScope device(x.device());
  const std::int64_t longest = targets.shape(1);
  const Tensor lengths = checked(steps, x.shape(0), "input_lengths");
  const Tensor numbers = checked(counts, longest, "label_lengths");
  const Tensor used =
      where(arange(std::int64_t{0}, longest) < expand_dims(numbers, 1), targets, options.blank);
  Tensor losses = run(ctc_op, {x, checked(used, x.shape(2) - 1, "labels"), lengths, numbers},
                      BlankOptions{options.blank});
  if (options.zero_infinity) losses = where(isinf(losses), 0, losses);
  if (options.reduction == Reduction::none) return losses;
  if (options.reduction == Reduction::sum) return sum(losses);
  return mean(losses / maximum(cast(counts, x.dtype()), 1));
}

const Entry ctc_ops[] = {&ctc_op, nullptr};
}  // namespace reel
