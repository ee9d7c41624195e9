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
  explicit PlanCheck(const Plan& plan)
      : plan_(plan), same_(plan.tree.values.size()), added_to_(same_.size(), -1) {
    for (std::size_t i = 0; i < same_.size(); ++i) same_[i] = static_cast<int>(i);
    std::vector<char> made(plan.places.size());
    for (const Instruction& each : plan.instructions)
      for (unsigned i = 0; !is_header(each) && i < each.output_count; ++i)
        if (const int output = plan.operands[each.first + each.input_count + i]; output >= 0)
          made[static_cast<std::size_t>(output)] = true;
    // A kernel may add its output to another value. Then no instruction makes the sum.
    for (const graph::Segment& segment : plan.tree.segments)
      for (const Step& step : segment.steps)
        if (step.op == &core_ops.add && !made[static_cast<std::size_t>(step.outputs[0])]) {
          const auto part = static_cast<std::size_t>(step.inputs[1]);
          same_[static_cast<std::size_t>(step.outputs[0])] = same_[part];
          added_to_[part] = root(step.inputs[0]);
        }
  }

  std::string fault() {
    const std::vector<int> none(plan_.places.size(), -1);
    State start{std::vector<char>(none.size()), {}, {}, {}, none, none};
    for (std::size_t i = 0; i < same_.size(); ++i)
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
    std::vector<int> stages;            // what the stages of the newest program hold
    std::vector<int> results, holders;  // in whose memory a value is, and who is in that memory; -1
  };

  const Value& value(int i) const { return plan_.tree.values[static_cast<std::size_t>(i)]; }
  bool is_spread(int i) const { return i >= static_cast<int>(same_.size()); }
  int root(int i) const {
    if (is_spread(i)) return i;
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
    if (stages_left_) written_.push_back(i);
    if (place.kind == ValuePlace::Kind::stage) state.stages.push_back(i);
    const int result = state.results[static_cast<std::size_t>(i)];
    int& holder = state.holders[static_cast<std::size_t>(result < 0 ? i : result)];
    if (holder >= 0 && holder != i) at(state, holder) = false;
    holder = i;
    if (!in_blocks && place.kind != ValuePlace::Kind::scratch) return;
    std::vector<Piece>& pieces = in_blocks ? state.blocks : state.frame;
    const std::size_t bytes = bytes_of(i, in_blocks), end = place.offset + bytes;
    for (const Piece& piece : read_)
      if (stages_left_ && place.kind == plan_.places[static_cast<std::size_t>(piece.value)].kind &&
          piece.first < end && place.offset < piece.end && piece.first != place.offset)
        fail(made, "is written over what its program reads later");
    if (!in_blocks && end > plan_.scratch_bytes) fail(made, "lies behind the memory of a frame");
    std::erase_if(pieces, [&](const Piece& piece) {
      const bool over = piece.first < end && place.offset < piece.end;
      if (over && piece.value != i) at(state, piece.value) = false;
      return over;
    });
    if (bytes) pieces.push_back({place.offset, end, i});
  }
  std::size_t bytes_of(int i, bool in_blocks) const {
    if (is_spread(i)) {
      const int size = plan_.spreads[static_cast<std::size_t>(i) - same_.size()].size;
      return bytes_in_block(elements_, size, block_, elements_);
    }
    const Layout& layout = value(i).layout;
    return in_blocks ? bytes_in_block(layout.elements, size_of(layout.dtype), block_, elements_)
                     : static_cast<std::size_t>(layout.bytes());
  }
  void read(State& state, int i) {
    if (i < 0) return;
    if (!at(state, root(i))) fail(i, "is read where no instruction has made it");
    if (!stages_left_) return;
    if (!is_spread(i) && value(i).kind == Value::Kind::view &&
        std::count(written_.begin(), written_.end(), root(i)))
      fail(i, "is a view of what its program makes");
    const ValuePlace& place = plan_.places[static_cast<std::size_t>(root(i))];
    const bool in_blocks = place.kind == ValuePlace::Kind::block;
    if (in_blocks || place.kind == ValuePlace::Kind::scratch)
      read_.push_back({place.offset, place.offset + bytes_of(root(i), in_blocks), root(i)});
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
        block_ = instruction.block;
        elements_ = instruction.elements;
        for (const Piece& piece : std::exchange(state.blocks, {})) at(state, piece.value) = false;
        return;
      case Instruction::Kind::stages:
        stages_left_ = instruction.input_count;
        read_.clear();
        written_.clear();
        for (const int v : std::exchange(state.stages, {})) at(state, v) = false;
        return check_program(instruction);
      case Instruction::Kind::allocate:
        if (!inputs) return;
        read(state, values[0]);
        state.results[static_cast<std::size_t>(values[1])] = values[0];
        state.holders[static_cast<std::size_t>(values[0])] = values[0];
        return;
      case Instruction::Kind::view:  // of memory that an instruction before it may have allocated
        if (value(values[0]).kind == Value::Kind::computed) {
          state.results[static_cast<std::size_t>(values[0])] = value(values[0]).number;
          return;
        }
        if (plan_.places[static_cast<std::size_t>(root(values[0]))].kind != ValuePlace::Kind::fresh)
          read(state, values[0]);
        return;
      default:
        break;
    }
    const bool by_rows = instruction.kind == Instruction::Kind::pass && instruction.spread;
    const bool replaces = instruction.kind == Instruction::Kind::update && instruction.op->replaces;
    for (unsigned i = replaces ? outputs : 0; i < inputs; ++i)
      read(state, by_rows && is_spread(values[i]) ? plan_.spreads[instruction.spread - 1].value
                                                  : values[i]);
    for (unsigned i = 0; i < outputs; ++i) {
      if (instruction.kind == Instruction::Kind::update && values[inputs + outputs + i] >= 0)
        at(state, root(values[i])) = false;  // its memory takes the new value
      if (values[inputs + i] >= 0) write(state, values[inputs + i]);
    }
    if (stages_left_) --stages_left_;
  }

  /// Compares a program with the passes that it stands for.
  void check_program(const Instruction& stages) {
    std::vector<ChainedPass> chain;
    for (const Instruction* pass = &stages + 1; pass <= &stages + stages.input_count; ++pass) {
      const int* const values = plan_.operands.data() + pass->first;
      const int output = values[pass->input_count];
      ChainedPass made{
          pass->op->on_cpu().passes->stages, pass->part, pass->how & pass_scalars, {}, output};
      for (const int* v = values; v < values + pass->input_count; ++v)
        made.inputs.push_back(
            *v < 0 || is_spread(*v) || value(*v).kind == Value::Kind::view ? *v : root(*v));
      made.in_memory =
          plan_.places[static_cast<std::size_t>(output)].kind != ValuePlace::Kind::stage;
      if (pass->how & pass_adds) made.total = added_to_[static_cast<std::size_t>(output)];
      chain.push_back(made);
    }
    const std::string fault = fault_of(plan_.programs[stages.first], chain);
    if (!fault.empty() && fault_.empty()) fault_ = "a program " + fault;
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
  std::vector<int> same_;      // the value that an instruction makes in the place of each value
  std::vector<int> added_to_;  // to which an instruction adds each value; -1 if to none
  const Instruction* now_ = nullptr;
  unsigned stages_left_ = 0;               // passes of the newest program that follow
  std::vector<Piece> read_;                // by them
  std::vector<int> written_;               // by those before
  std::int64_t block_ = 0, elements_ = 1;  // of a block of the newest group, and of all
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
