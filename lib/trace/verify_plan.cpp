// SPDX-License-Identifier: BSD-3-Clause
// Checks a plan by following what each piece of its memory holds.
#include <algorithm>
#include <string>

#include "lib/table/entries.hpp"
#include "lib/trace/plan.hpp"

namespace reel::tracing {
namespace {
class PlanCheck {
 public:
  explicit PlanCheck(const Plan& plan) : plan_(plan), same_(plan.tree.values.size()) {
    for (std::size_t i = 0; i < same_.size(); ++i) same_[i] = static_cast<int>(i);
    std::vector<char> made(same_.size());
    for (const Instruction& each : plan.instructions)
      for (unsigned i = 0; each.kind != Instruction::Kind::blocks && i < each.output_count; ++i)
        if (const int output = plan.operands[each.first + each.input_count + i]; output >= 0)
          made[static_cast<std::size_t>(output)] = true;
    // A kernel may add its output to another value. Then no instruction makes the sum.
    for (const graph::Segment& segment : plan.tree.segments)
      for (const Step& step : segment.steps)
        if (step.op == &core_ops.add && !made[static_cast<std::size_t>(step.outputs[0])])
          same_[static_cast<std::size_t>(step.outputs[0])] =
              same_[static_cast<std::size_t>(step.inputs[1])];
  }

  std::string fault() {
    State start{std::vector<char>(plan_.tree.values.size()), {}, {}};
    for (std::size_t i = 0; i < start.holds.size(); ++i)
      start.holds[i] = value(static_cast<int>(i)).kind != Value::Kind::computed;
    check(0, std::move(start));
    return fault_;
  }

 private:
  /// A piece of the memory of a frame, or of a buffer of blocks, and the value that it holds.
  struct Piece {
    std::size_t first, end;
    int value;
  };
  struct State {
    std::vector<char> holds;  // whether a root has its elements
    std::vector<Piece> frame, blocks;
  };

  const Value& value(int i) const { return plan_.tree.values[static_cast<std::size_t>(i)]; }
  int root(int i) const {
    return same_[static_cast<std::size_t>(value(i).kind == Value::Kind::view ? value(i).number
                                                                             : i)];
  }
  static char& at(State& state, int i) { return state.holds[static_cast<std::size_t>(i)]; }

  /// Notes that the value has its elements, and that other values lose theirs.
  void write(State& state, int made) {
    const int i = root(made);
    at(state, i) = true;
    const ValuePlace& place = plan_.places[static_cast<std::size_t>(i)];
    const bool in_blocks = place.kind == ValuePlace::Kind::block;
    if (!in_blocks && place.kind != ValuePlace::Kind::scratch) return;
    std::vector<Piece>& pieces = in_blocks ? state.blocks : state.frame;
    const std::int64_t elements =
        in_blocks ? std::min(block_elements, value(i).layout.elements) : value(i).layout.elements;
    const std::size_t bytes = static_cast<std::size_t>(elements) *
                              static_cast<std::size_t>(size_of(value(i).layout.dtype)),
                      end = place.offset + bytes;
    if (!in_blocks && end > plan_.scratch_bytes) fail(made, "lies behind the memory of a frame");
    std::erase_if(pieces, [&](const Piece& piece) {
      const bool over = piece.first < end && place.offset < piece.end;
      if (over && piece.value != i) at(state, piece.value) = false;
      return over;
    });
    if (bytes) pieces.push_back({place.offset, end, i});
  }
  void read(State& state, int i) {
    if (i >= 0 && !at(state, root(i))) fail(i, "is read where no instruction has made it");
  }
  void fail(int i, const char* what) {
    if (!fault_.empty()) return;
    fault_ = "%" + std::to_string(i) + ' ' + what;
    if (now_ && now_->op) fault_ = std::string(now_->op->name) + ": " + fault_;
  }

  void execute(State& state, const Instruction& instruction) {
    now_ = &instruction;
    const int* const values = plan_.operands.data() + instruction.first;
    const unsigned inputs = instruction.input_count, outputs = instruction.output_count;
    switch (instruction.kind) {
      case Instruction::Kind::blocks:
        for (const Piece& piece : std::exchange(state.blocks, {})) at(state, piece.value) = false;
        return;
      case Instruction::Kind::allocate:
        return;
      case Instruction::Kind::view:  // of memory that an instruction before it may have allocated
        if (plan_.places[static_cast<std::size_t>(root(values[0]))].kind != ValuePlace::Kind::fresh)
          read(state, values[0]);
        return;
      default:
        break;
    }
    for (unsigned i = 0; i < inputs; ++i) read(state, values[i]);
    for (unsigned i = 0; i < outputs; ++i) {
      if (instruction.kind == Instruction::Kind::update && values[inputs + outputs + i] >= 0)
        at(state, root(values[i])) = false;  // its memory takes the new value
      if (values[inputs + i] >= 0) write(state, values[inputs + i]);
    }
  }

  void check(int number, State state) {
    const Plan::PlannedSegment& planned = plan_.segments[static_cast<std::size_t>(number)];
    for (unsigned i = planned.first; i < planned.end && fault_.empty(); ++i)
      execute(state, plan_.instructions[i]);
    now_ = nullptr;
    const graph::Segment& segment = plan_.tree.segments[static_cast<std::size_t>(number)];
    if (segment.ends) {
      for (const int result : segment.results) read(state, result);
      for (const auto& [variable, last] : segment.assigned) read(state, last);
    }
    if (planned.branches.empty() || !fault_.empty()) return;
    read(state, planned.asked);
    for (const graph::Branch& branch : planned.branches) check(branch.segment, state);
  }

  const Plan& plan_;
  std::vector<int> same_;  // the value that an instruction makes in the place of each value
  const Instruction* now_ = nullptr;
  std::string fault_;
};
}  // namespace

std::string fault_of(const Plan& plan) {
  for (const auto& loop : plan.loops)
    for (const auto& [segment, trip] : loop->trips)
      if (std::string fault = fault_of(*trip); !fault.empty()) return fault;
  return PlanCheck(plan).fault();
}
}  // namespace reel::tracing
