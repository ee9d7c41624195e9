// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <span>

#include "lib/dispatch/context.hpp"
#include "lib/dispatch/gate.hpp"

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

/// Writes a Variable: `op` is assign_op, assign_add_op or assign_sub_op. The value has its shape or
/// is a C++ number.
void run_assignment(Op& op, const Variable& variable, const Operand& value);
/// The same for a slice of it.
void run_slice_update(Op& op, const Variable& variable, std::span<const Index> indices,
                      const Operand& value);
}  // namespace reel
