// SPDX-License-Identifier: BSD-3-Clause
// Runs a plan. Nothing is visible outside before commit(), except for writes that cannot be undone.
#pragma once
#include <span>
#include <vector>

#include "lib/trace/plan.hpp"

namespace reel::tracing {
/// The data of one call: memory for its results, and a header for each value. Later calls reuse it.
struct Frame {
  explicit Frame(const Plan& plan);
  /// Sets the addresses of the values in scratch memory. Large scratch memory is freed between
  /// calls.
  void enter(const Plan& plan);
  void leave();
  Tensor scratch;
  const std::byte* laid_out = nullptr;  // the address of the scratch memory at that time
  std::vector<Body> headers;
  std::vector<Body*> slots;           // the header of each value
  std::vector<const Body*> operands;  // the operands of the current instruction
  std::vector<Tensor> kept;           // tensors made for this call
  std::vector<Tensor> shadows;        // the next values of Variables
  /// What the gradient of a loop reads of its trips, by the value that counts them.
  struct LoopStack {
    int count;
    struct Trip {
      int segment;
      std::vector<Tensor> kept;
    };
    std::vector<Trip> trips;
  };
  std::vector<LoopStack> stacks;
  // changes of captured variables, for which a check is due
  std::vector<ChangedWord> changes;
};

/// A Tensor with memory of its own and this layout. Throws MemoryError.
Tensor made_for(Context& context, const Layout& layout);

class Replay {
 public:
  Replay(Context& context, Plan& plan);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  void argument(int i, const Tensor& x);
  /// The body stays as it is, in any layout, and outlives the run.
  void argument(std::size_t i, Body* body) {
    if (i < plan_.argument_values.size() && plan_.argument_values[i] >= 0)
      slot_of(plan_.argument_values[i]) = body;
  }
  /// Null if a host read gave a value that was not captured, or if a kernel failed. Then nothing
  /// was written, and the function must run. Throws the error of a kernel that fails after a write.
  const Ending* run();
  /// Call it before run(), with the number of arguments, for a function with a gradient. Keeps what
  /// the gradient reads until this object ends: a Variable gets a new buffer when it is written.
  void keep_for_gradient(std::size_t arguments);
  /// After run(), which has stopped before the gradient of the function: executes the gradient, and
  /// gives its results. `upstream` are the arguments after the first `arguments`.
  std::vector<Tensor> run_gradient(std::size_t arguments, std::span<const Tensor> upstream);
  /// Whether this replay must be checked against a run. Then it is not committed.
  bool due() const { return due_; }
  /// Whether a check is due even without a change of captured variables.
  bool scheduled() const { return scheduled_; }
  std::vector<ChangedWord>& changes() { return frame_->changes; }
  void commit();
  Tensor result(int value) const;
  /// The next value of a Variable.
  Tensor assigned(int variable) const;
  std::uint64_t position() const { return position_; }
  const Plan& plan() const { return plan_; }
  /// The calls of user code in this replay, in order.
  std::vector<UserCall>& user_calls() { return user_calls_; }

 private:
  void execute(std::span<const Instruction> together, bool may_write);
  // Executes for observers, in replay_observed.cpp.
  void execute_observed(unsigned first, unsigned end, bool may_write);
  void execute_range(unsigned first, unsigned end, bool may_write);
  struct ObservedCall;
  std::int64_t execute_observed(std::span<const Instruction> together, bool may_write);
  Body* observed_body(int value) const;
  ObservedCall inputs_of(const Instruction& instruction) const;
  void add_outputs(ObservedCall& call) const;
  std::vector<Variable> written_by(const Instruction& update) const;
  void tell_reads();
  void tell_question(int asked, HostRead read);
  void tell_commit();
  void update(const Instruction& instruction, bool may_write);
  void execute_planned(std::span<const Instruction> calls, bool may_write);
  bool writes_in_place(const Instruction& update, bool may_write);
  void user(const Instruction& instruction);
  void loop(const Instruction& instruction);
  class Trips;
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
  bool suspended_ = false, is_used_ = false;
  std::uint64_t start_;  // position at the beginning
  const Ending* end_ = nullptr;
};
}  // namespace reel::tracing
