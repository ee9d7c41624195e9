// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <span>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"

namespace reel {
/// The tapes that record now do not while it lives.
class RecordingPause {
 public:
  explicit RecordingPause(Context& context) : context_(context), tapes_(context.reel.active) {
    context_.reel.muted |= tapes_;
    context_.update_recording();
  }
  ~RecordingPause() {
    context_.reel.muted &= ~tapes_;
    context_.update_recording();
  }
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  Context& context_;
  std::uint64_t tapes_;
};

/// The value of input i as an update of `variable` wants it: on its device, and of its dtype where
/// it converts; tensors as they are.
Tensor value_for_update(const Op& op, int i, const Operand& x, const Body& variable, bool converts,
                        Caller caller);
}  // namespace reel
