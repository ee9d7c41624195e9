// SPDX-License-Identifier: BSD-3-Clause
#include <limits>

#include <reel/ops.hpp>
#include <reel/tape.hpp>

#include "autograd/install.hpp"
#include "lib/table/options/ctc.hpp"

namespace reel {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The losses of all sequences in public ops: one step of the forward recursion for each time step,
/// in the logarithms of probabilities.
Tensor losses_of(const Tensor& log_probs, const Tensor& labels, const Tensor& input_lengths,
                 const Tensor& label_lengths, std::int64_t blank) {
  const std::int64_t time = log_probs.shape(0), batch = log_probs.shape(1);
  const std::int64_t longest = labels.shape(1), states = 2 * longest + 1;
  const Tensor steps = expand_dims(input_lengths, 1), count = expand_dims(label_lengths, 1);
  const Tensor blanks = full({batch, longest}, blank, DType::int64);
  const Tensor pairs = reshape(stack({blanks, labels}, 2), {batch, 2 * longest});
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

// An outer tape sees the steps of the recursion, so gradients of every order exist. They are
// computed in float64, as the kernel does: sums of many steps would lose digits.
void ctc_rule(GradientCall& call) {
  GradientTape tape({.watch_variables = false});
  const Tensor x = cast(call.input(0), DType::float64) + 0;
  tape.watch(x);
  const Tensor losses =
      losses_of(x, call.input(1), call.input(2), call.input(3), call.option<BlankOptions>().blank);
  const Tensor dy = cast(call.dy(), DType::float64);
  call.give(0, tape.gradient(losses, x, {.upstream = dy, .unconnected = Unconnected::zero}));
}
}  // namespace

const NamedRule ctc_rules[] = {{"ctc_loss", ctc_rule}, {nullptr, nullptr}};
}  // namespace reel
