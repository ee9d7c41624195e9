// SPDX-License-Identifier: BSD-3-Clause
// The CTC loss, made of other ops: one step of the forward recursion for each time step, in the
// logarithms of probabilities (Graves et al. 2006, section 4.1).
#include <reel/ops.hpp>

#include <limits>
#include <string>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/table/options/gather.hpp"

namespace reel {
namespace {
constexpr std::string_view name = "ctc_loss";
constexpr double infinity = std::numeric_limits<double>::infinity();

void require_shape(const Operand& x, std::string_view argument, const Tensor& given,
                   const Shape& expected) {
  if (!(given.shape() == expected))
    fail<ShapeError>(x.caller(), name, argument, to_text(expected), to_text(given.shape()));
}
/// Numbers from 0 to `most`, as int64. Others are an IndexError.
Tensor checked(const Tensor& x, std::int64_t most, const char* argument) {
  return run(check_range_op, {x}, RangeOptions{0, most, argument});
}

/// The losses of all sequences. States are the labels with blanks before, between and behind them.
Tensor losses_of(const Tensor& log_probs, const Tensor& labels, const Tensor& input_lengths,
                 const Tensor& label_lengths, std::int64_t blank) {
  const std::int64_t time = log_probs.shape(0), batch = log_probs.shape(1);
  const std::int64_t classes = log_probs.shape(2), longest = labels.shape(1);
  const std::int64_t states = 2 * longest + 1;
  const Tensor steps = expand_dims(checked(input_lengths, time, "input_lengths"), 1);
  const Tensor count = expand_dims(checked(label_lengths, longest, "label_lengths"), 1);
  const Tensor known = where(arange(std::int64_t{0}, longest) < count, labels, blank);
  const Tensor used = checked(known, classes - 1, "labels");
  const Tensor blanks = full({batch, longest}, blank, DType::int64);
  const Tensor pairs = reshape(stack({blanks, used}, 2), {batch, 2 * longest});
  const Tensor chain = concat({pairs, full({batch, 1}, blank, DType::int64)}, 1);
  const Tensor scores = gather(log_probs, broadcast_to(chain, {time, batch, states}), 2);
  // A label that differs from the label before it can be reached without the blank between them.
  const Tensor before = concat({chain(all, range(0, 1)), chain(all, range(0, 1)), chain}, 1);
  const Tensor skips = chain != before(all, range(0, states));

  const DType dtype = log_probs.dtype();
  const Tensor nothing = full({batch, 2}, -infinity, dtype);
  const Tensor first = arange(std::int64_t{0}, states) == 0;
  Tensor paths = broadcast_to(where(first, 0, full({states}, -infinity, dtype)), {batch, states});
  for (std::int64_t t = 0; t < time; ++t) {
    const Tensor moved = concat({nothing, paths}, 1);
    const Tensor next = logaddexp(paths, moved(all, range(1, states + 1)));
    const Tensor over = where(skips, moved(all, range(0, states)), -infinity);
    paths = where(steps > t, logaddexp(next, over) + scores(t), paths);
  }
  const Tensor last_label = gather(paths, maximum(2 * count - 1, 0), 1);
  const Tensor total =
      logaddexp(gather(paths, 2 * count, 1), where(count > 0, last_label, -infinity));
  return squeeze(where(total == -infinity, infinity, 0 - total), 1);
}
}  // namespace

Tensor ctc_loss(Operand log_probs, Operand labels, Operand input_lengths, Operand label_lengths,
                CTCOptions options) try {
  const Caller caller = log_probs.caller();
  const FunctionScope scope(caller, name);
  const Tensor given = log_probs.value(), targets = labels.value();
  const Tensor x = is_floating(given.dtype()) ? given : cast(given, DType::float32);
  if (x.rank() != 3)
    fail<ShapeError>(caller, name, "log_probs", "[time, batch, classes]", to_text(x.shape()));
  const std::int64_t batch = x.shape(1);
  if (targets.rank() != 2 || targets.shape(0) != batch)
    fail<ShapeError>(caller, name, "labels",
                     "[batch, longest] with the batch of log_probs, " + std::to_string(batch),
                     to_text(targets.shape()));
  const Tensor steps = input_lengths.value(), counts = label_lengths.value();
  require_shape(log_probs, "input_lengths", steps, Shape({batch}));
  require_shape(log_probs, "label_lengths", counts, Shape({batch}));
  if (options.blank < 0 || options.blank >= x.shape(2))
    fail<IndexError>(caller, name, "blank", "0 to " + std::to_string(x.shape(2) - 1),
                     std::to_string(options.blank));
  const DeviceScope device(x.device());
  const Tensor losses = losses_of(x, targets, steps, counts, options.blank);
  if (options.reduction == Reduction::none) return losses;
  if (options.reduction == Reduction::sum) return sum(losses);
  return mean(losses / maximum(cast(counts, x.dtype()), 1));
} catch (const std::bad_alloc&) {
  fail_memory(log_probs.caller(), "ctc_loss");
}
}  // namespace reel
