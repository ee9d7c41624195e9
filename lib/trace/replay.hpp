// SPDX-License-Identifier: BSD-3-Clause
// Runs a plan: nothing of it is seen outside before commit(), but writes that nothing can undo.
#pragma once
#include <span>
#include <vector>

#include "lib/trace/plan.hpp"

namespace reel::tracing {
/// What one call at a time uses: memory for what it computes, and a header for each value.
struct Frame {
  explicit Frame(const Plan& plan);
  /// Lays the values out in scratch memory; where there is much, others have it between calls.
  void enter(const Plan& plan);
  void leave();
  Tensor scratch;
  const std::byte* laid_out = nullptr;  // where that memory was
  std::vector<Body> headers;
  std::vector<Body*> slots;           // of the values
  std::vector<const Body*> operands;  // of the instruction that runs
  std::vector<Tensor> kept;           // made for this call
  std::vector<Tensor> shadows;        // of Variables: what they will hold
  std::vector<ChangedWord> changes;   // of what the function captured, for which a check is due
};

class Replay {
 public:
  Replay(Context& context, Plan& plan);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  void argument(int i, const Tensor& x);
  /// Null where a question was answered in a way that no one has captured, or a kernel failed: the
  /// function is to be run, as nothing has happened yet. Throws what a kernel throws after a write.
  const Ending* run();
  /// Whether this replay is to be checked against a run instead of being committed.
  bool due() const { return due_; }
  /// Whether it would be without a change of what the function captured.
  bool scheduled() const { return scheduled_; }
  std::vector<ChangedWord>& changes() { return frame_->changes; }
  void commit();
  Tensor result(int value) const;
  /// What a Variable will hold.
  Tensor assigned(int variable) const;
  std::uint64_t position() const { return position_; }
  /// What it called of a user's code, in order.
  std::vector<UserCall>& user_calls() { return user_calls_; }

 private:
  void execute(const Instruction& instruction, bool may_write);
  // The same for observers, in replay_observed.cpp.
  void execute_observed(const Plan::PlannedSegment& segment, bool may_write);
  struct ToldCall;
  void execute_told(std::span<const Instruction> together, bool may_write);
  Body* told_body(int value) const;
  ToldCall inputs_of(const Instruction& instruction) const;
  void add_outputs(ToldCall& told) const;
  std::vector<Variable> written_by(const Instruction& update) const;
  void tell_reads();
  void tell_question(int asked, HostRead read);
  void tell_commit();
  void blocks(const Instruction& instruction);
  void update(const Instruction& instruction, bool may_write);
  void user(const Instruction& instruction);
  int next(const Plan::PlannedSegment& segment) const;
  Body* slot(int value) const {
    return value < 0 ? nullptr : frame_->slots[static_cast<std::size_t>(value)];
  }
  Body*& slot_of(int value) { return frame_->slots[static_cast<std::size_t>(value)]; }
  Body* keep(DType dtype, const Layout& layout);

  Context& context_;
  Plan& plan_;
  Frame* frame_;
  Generator& generator_;
  std::uint64_t position_;
  std::vector<UserCall> user_calls_;
  bool wrote_ = false, due_ = false, scheduled_ = false;
  bool observer_threw_ = false;
};
}  // namespace reel::tracing
