// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/stages.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace reel::tracing {
namespace {
constexpr std::size_t most_stages = 256;
using Operand = StageProgram::Operand;

/// Whether a pass reads a value once, as the accumulator.
bool only_accumulator(const ChainedPass& pass, int value) {
  return std::count(pass.inputs.begin(), pass.inputs.end(), value) == 1 &&
         (pass.part == Part::value || pass.inputs[0] == value);
}

/// Writes a program, pass by pass. The accumulator keeps the newest value. A value that is read
/// later than by the next pass goes to a slot.
class Writer {
 public:
  Writer(std::span<const ChainedPass> chain, const Stages* add) : chain_(chain), add_(add) {
    for (std::size_t i = 0; i < chain.size(); ++i)
      for (const int input : chain[i].inputs) last_read_[input] = i;
  }

  StageProgram write() {
    program_.machine = chain_[0].stages->machine;
    for (at_ = 0; at_ < chain_.size(); ++at_) {
      const ChainedPass& pass = chain_[at_];
      compute(pass);
      if (pass.total >= 0) put(StageForm::ma, add_, {place(Operand::memory, pass.total)});
      held_ = pass.output;
      if (pass.in_memory) {
        const std::uint16_t to = place(Operand::memory, pass.output);
        program_.operands[to].written = true;
        put(StageForm::store, nullptr, {to});
      } else if (is_read_later(pass.output)) {
        put(StageForm::store, nullptr, {new_slot(pass.output)});
      }
      free_slots();
    }
    program_.linked.resize(program_.stages.size() + 1);
    program_.machine->link(program_.stages.data(), program_.stages.size(), program_.linked.data());
    return std::move(program_);
  }

 private:
  struct Slot {
    std::uint16_t operand;
    int value;  // -1 if it is free
  };

  void compute(const ChainedPass& pass) {
    const auto& in = pass.inputs;
    if (pass.part != Part::value) {
      if (in[0] != held_) put(StageForm::load, nullptr, {read(pass, 0)});
      const auto saved = [&](std::size_t i) {
        return i < in.size() && in[i] >= 0 ? read(pass, i) : std::uint16_t{0};
      };
      return put(pass.part == Part::gradient_0 ? StageForm::gradient_0 : StageForm::gradient_1,
                 pass.stages, {saved(1), saved(2), saved(3)});
    }
    if (in.size() == 1) {
      if (in[0] == held_) return put(StageForm::a, pass.stages, {});
      return put(StageForm::m, pass.stages, {read(pass, 0)});
    }
    const bool first_is_number = pass.numbers & 1, second_is_number = pass.numbers & 2;
    if (in[0] == held_)
      return put(second_is_number ? StageForm::an : StageForm::am, pass.stages, {read(pass, 1)});
    if (in[1] == held_)
      return put(first_is_number ? StageForm::na : StageForm::ma, pass.stages, {read(pass, 0)});
    const StageForm form = first_is_number    ? StageForm::nm
                           : second_is_number ? StageForm::mn
                                              : StageForm::mm;
    put(form, pass.stages, {read(pass, 0), read(pass, 1)});
  }
  void put(StageForm form, const Stages* stages, std::initializer_list<std::uint16_t> at) {
    Stage stage{form, stages};
    std::copy(at.begin(), at.end(), stage.at);
    program_.stages.push_back(stage);
  }

  /// The operand for an input that is not the accumulator.
  std::uint16_t read(const ChainedPass& pass, std::size_t i) {
    const int value = pass.inputs[i];
    if (pass.numbers >> i & 1)
      return place(pass.part == Part::value ? Operand::number : Operand::filled, value);
    for (const Slot& slot : slots_)
      if (slot.value == value) return slot.operand;
    return place(Operand::memory, value);
  }
  std::uint16_t place(Operand kind, int number) {
    auto& all = program_.operands;
    const auto same = std::find_if(all.begin(), all.end(), [&](const StageProgram::Place& each) {
      return each.kind == kind && each.number == number;
    });
    if (same == all.end()) {
      all.push_back({kind, number});
      return static_cast<std::uint16_t>(all.size() - 1);
    }
    return static_cast<std::uint16_t>(same - all.begin());
  }
  std::uint16_t new_slot(int value) {
    for (Slot& slot : slots_)
      if (slot.value < 0) {
        slot.value = value;
        return slot.operand;
      }
    slots_.push_back({place(Operand::slot, static_cast<int>(slots_.size())), value});
    return slots_.back().operand;
  }
  void free_slots() {
    for (Slot& slot : slots_)
      if (slot.value >= 0 && last_read_[slot.value] <= at_) slot.value = -1;
  }

  /// Whether a pass reads the value later than as the accumulator of the next pass.
  bool is_read_later(int value) const {
    const auto last = last_read_.find(value);
    if (last == last_read_.end() || last->second <= at_) return false;
    return last->second > at_ + 1 || !only_accumulator(chain_[at_ + 1], value);
  }

  const std::span<const ChainedPass> chain_;
  const Stages* const add_;
  StageProgram program_;
  std::vector<Slot> slots_;
  std::unordered_map<int, std::size_t> last_read_;  // the last pass that reads each value
  std::size_t at_ = 0;                              // the current pass
  int held_ = -1;                                   // the value in the accumulator
};

std::string text_of(StageForm form) {
  constexpr const char* names[] = {"load", "store", "a",  "m",  "am",         "ma",        "an",
                                   "na",   "mm",    "mn", "nm", "gradient_0", "gradient_1"};
  return names[static_cast<int>(form)];
}

/// Runs a program with the numbers of values instead of elements.
class ProgramCheck {
 public:
  ProgramCheck(const StageProgram& program, std::span<const ChainedPass> chain)
      : program_(program), chain_(chain), holds_(program.operands.size(), -1) {
    for (std::size_t i = 0; i < holds_.size(); ++i)
      if (program.operands[i].kind != Operand::slot) holds_[i] = program.operands[i].number;
  }

  std::string fault() {
    for (const Stage& stage : program_.stages) {
      if (!fault_.empty()) return fault_;
      execute(stage);
    }
    if (fault_.empty() && at_ != chain_.size()) fault_ = "lacks a pass";
    return fault_;
  }

 private:
  void execute(const Stage& stage) {
    if (stage.form == StageForm::load) {
      held_ = holds_[stage.at[0]];
    } else if (stage.form == StageForm::store) {
      const StageProgram::Place& to = program_.operands[stage.at[0]];
      if (to.kind == Operand::slot)
        holds_[stage.at[0]] = held_;
      else if (to.kind != Operand::memory || to.number != held_ || !to.written)
        fault_ = "stores %" + std::to_string(held_) + " elsewhere";
      stored_ |= held_ == chain_[at_ ? at_ - 1 : 0].output;
    } else if (total_ >= 0) {
      if (stage.form != StageForm::ma || holds_[stage.at[0]] != total_)
        fault_ = "adds another value";
      total_ = -1;
    } else {
      compute(stage);
    }
  }
  void compute(const Stage& stage) {
    if (at_ == chain_.size() || (at_ && chain_[at_ - 1].in_memory && !stored_)) {
      fault_ = at_ == chain_.size() ? "has a stage too many" : "does not store a value";
      return;
    }
    const ChainedPass& pass = chain_[at_++];
    stored_ = false;
    const int first = holds_[stage.at[0]], second = holds_[stage.at[1]];
    std::vector<int> reads;
    switch (stage.form) {
      case StageForm::a:
        reads = {held_};
        break;
      case StageForm::m:
        reads = {first};
        break;
      case StageForm::am:
      case StageForm::an:
        reads = {held_, first};
        break;
      case StageForm::ma:
      case StageForm::na:
        reads = {first, held_};
        break;
      case StageForm::mm:
      case StageForm::mn:
      case StageForm::nm:
        reads = {first, second};
        break;
      default:
        reads = {held_, first, second, holds_[stage.at[2]]};
    }
    bool same = stage.stages == pass.stages && reads.size() >= pass.inputs.size();
    for (std::size_t i = 0; i < pass.inputs.size() && same; ++i)
      same = pass.inputs[i] < 0 || reads[i] == pass.inputs[i];
    if (!same)
      fault_ = "stage " + text_of(stage.form) + " does not compute %" + std::to_string(pass.output);
    held_ = pass.output;
    total_ = pass.total;
  }

  const StageProgram& program_;
  const std::span<const ChainedPass> chain_;
  std::vector<int> holds_;  // the value of each operand
  std::size_t at_ = 0;      // the next pass
  int held_ = -1, total_ = -1;
  bool stored_ = false;
  std::string fault_;
};
}  // namespace

bool is_stage(const ChainedPass& pass) {
  const Stages* const stages = pass.stages;
  if (!stages) return false;
  return pass.part == Part::value ? stages->value : stages->gradient[pass.part == Part::gradient_1];
}

bool ProgramSize::add(const ChainedPass& pass) {
  const StageMachine* const machine = is_stage(pass) ? pass.stages->machine : nullptr;
  constexpr std::size_t most_values = 6, most_own = 4;  // of a pass: a load, the op, a sum, a store
  const bool continues = machine && machine == machine_ && stages_ + most_own <= most_stages &&
                         2 * (values_.size() + most_values) <= most_stage_operands;
  if (!continues) {
    machine_ = machine;
    stages_ = 0;
    values_.clear();
  }
  const auto add_value = [&](int v) {
    if (v >= 0 && !std::count(values_.begin(), values_.end(), v)) values_.push_back(v);
  };
  for (const int input : pass.inputs) add_value(input);
  add_value(pass.output);
  add_value(pass.total);
  stages_ += (pass.part != Part::value) + 2 + (pass.total >= 0);
  return continues;
}

StageProgram write_program(std::span<const ChainedPass> chain, const Stages* add) {
  return Writer(chain, add).write();
}
Spread spread_of(int value, const graph::Layout& layout, const Shape& shape) {
  Spread made{value, size_of(layout.dtype)};
  const auto rank = static_cast<int>(shape.rank()),
             own_rank = static_cast<int>(layout.shape.rank());
  std::int64_t elements = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    const std::int64_t length = shape.data()[axis];
    const int own = axis - rank + own_rank;
    const std::int64_t step =
        own < 0 || layout.shape.data()[own] == 1 ? 0 : layout.strides[own] * made.size;
    if (length == 1) continue;
    elements *= length;
    if (step) made.period = elements;
    const int last = made.rank - 1;
    if (last >= 0 && step == made.steps[last] * made.lengths[last]) {
      made.lengths[last] *= length;
      continue;
    }
    made.lengths[made.rank] = length;
    made.steps[made.rank++] = step;
  }
  return made;
}
bool pays(const Spread& spread) {
  constexpr std::int64_t least_row = 16;
  if (2 * spread.period <= block_elements) return true;  // copied once
  return spread.lengths[0] >= least_row && (!spread.steps[0] || spread.steps[0] == spread.size);
}
std::string fault_of(const StageProgram& program, std::span<const ChainedPass> chain) {
  return ProgramCheck(program, chain).fault();
}
}  // namespace reel::tracing
