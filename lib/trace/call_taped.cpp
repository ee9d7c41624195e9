// SPDX-License-Identifier: BSD-3-Clause
// What a tape sees of a call of a traced function.
#include "lib/trace/progress.hpp"

namespace reel::detail {
TapedCall* TraceCall::taped() try {
  TraceProgress& call = *progress_;
  if (!call.is_taped || call.doing < Doing::capturing) return nullptr;
  call.taped.slots = call.arguments;
  return &call.taped;
} catch (const std::bad_alloc&) {
  fail_memory(progress_->caller, "trace");
}
TapedCall* TraceCall::replayed_under_tape() {
  if (!progress_->is_taped) return nullptr;
  progress_->taped.captured = &progress_->replayed->sources;
  return &progress_->taped;
}
TapedGradient TraceCall::backward() try {
  const std::size_t arguments = progress_->arguments.size();
  return [replay = progress_->kept, traces = traces_, arguments,
          caller = progress_->caller](const Tensors& upstream) {
    const Context& context = Context::here();
    if (context.mode & (recording | intercepted))
      fail<TapeError>(caller, "gradient", "tape",
                      "no tape that is younger than the call of a traced function", "one",
                      "Make both tapes before the call; then it runs eagerly.");
    return Tensors(replay->run_gradient(arguments, {upstream.begin(), upstream.end()}));
  };
} catch (const std::bad_alloc&) {
  fail_memory(progress_->caller, "trace");
}
void TraceCall::add_gradients() {
  for (const Tensor& gradient : progress_->taped.gradients) add_result(gradient);
}
}  // namespace reel::detail
