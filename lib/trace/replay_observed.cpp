// SPDX-License-Identifier: BSD-3-Clause
// The events of a replay for observers.
#include <algorithm>
#include <chrono>

#include "lib/body/access.hpp"
#include "lib/flow/observer.hpp"
#include "lib/trace/replay.hpp"

namespace reel::tracing {
/// The call of a kernel by an instruction, as observers get it.
struct Replay::ObservedCall {
  const Instruction* instruction;
  std::vector<const Body*> inputs = {};
  std::vector<Body*> outputs = {};
  std::vector<Variable> updated = {};
  GateCall call() const {
    return {*instruction->op,
            inputs.data(),
            static_cast<int>(inputs.size()),
            instruction->options,
            instruction->caller,
            outputs.data(),
            static_cast<int>(outputs.size()),
            updated.empty() ? nullptr : updated.data(),
            instruction->part,
            instruction->how | GateCall::of_replay};
  }
};

namespace {
/// Marks an exception as one of an observer.
template <class F>
void tell(bool& observer_threw, const F& f) try {
  f();
} catch (...) {
  observer_threw = true;
  throw;
}
bool calls_kernel(const Instruction& instruction) { return instruction.op != nullptr; }
std::size_t variable_of(int operand) {
  return static_cast<std::size_t>(operand < 0 ? ~operand : operand);
}
}  // namespace

void Replay::execute_observed(unsigned first, unsigned end, bool may_write) {
  const Instruction* const all = plan_.instructions.data();
  auto group = plan_.group_times.begin() + std::count_if(all, all + first, is_header);
  for (unsigned i = first; i < end; ++i) {
    if (!is_header(all[i])) {
      execute_observed({all + i, 1}, may_write);
      continue;
    }
    const unsigned last = i + all[i].input_count;
    const std::int64_t took = execute_observed({all + i, all + last + 1}, may_write);
    group->nanoseconds.fetch_add(took, std::memory_order_relaxed);
    group->runs.fetch_add(1, std::memory_order_relaxed);
    group += std::count_if(all + i, all + last + 1, is_header);
    i = last;
  }
}

/// Nanoseconds of the instructions themselves.
std::int64_t Replay::execute_observed(std::span<const Instruction> together, bool may_write) {
  std::vector<ObservedCall> calls;
  for (const Instruction& each : together)
    if (calls_kernel(each)) calls.push_back(inputs_of(each));
  for (const ObservedCall& each : calls)
    tell(observer_threw_, [&] { tell_begin(context_, each.call()); });
  const auto start = std::chrono::steady_clock::now();
  execute(together, may_write);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  for (ObservedCall& each : calls) {
    add_outputs(each);
    tell(observer_threw_, [&] { tell_end(context_, each.call()); });
    for (const Variable& variable : written_by(*each.instruction))
      tell(observer_threw_, [&] { tell_written(context_, variable); });
  }
  return took.count();
}

/// A value of a group may never be complete in memory.
Body* Replay::observed_body(int value) const {
  if (value < 0) return nullptr;
  const ValuePlace& place = plan_.places[static_cast<std::size_t>(value)];
  using Kind = ValuePlace::Kind;
  const bool in_group =
      place.kind == Kind::block || place.kind == Kind::result || place.kind == Kind::stage;
  return in_group ? nullptr : slot(value);
}
Replay::ObservedCall Replay::inputs_of(const Instruction& instruction) const {
  ObservedCall call{&instruction};
  const int* const inputs = plan_.operands.data() + instruction.first;
  const int* const outputs = inputs + instruction.input_count;
  const int* const variables = outputs + instruction.output_count;
  for (const int* value = inputs; value < outputs; ++value)
    call.inputs.push_back(observed_body(*value));
  if (instruction.kind == Instruction::Kind::update)
    for (unsigned i = 0; i < instruction.output_count; ++i)
      call.updated.push_back(plan_.tree.variables[variable_of(variables[i])]);
  return call;
}
void Replay::add_outputs(ObservedCall& call) const {
  const Instruction& made = *call.instruction;
  const int* const outputs = plan_.operands.data() + made.first + made.input_count;
  for (unsigned i = 0; i < made.output_count; ++i)
    call.outputs.push_back(observed_body(outputs[i]));
}
/// The Variables that an update has written in place. commit() writes the others.
std::vector<Variable> Replay::written_by(const Instruction& update) const {
  std::vector<Variable> written;
  if (update.kind != Instruction::Kind::update) return written;
  const int* const variables =
      plan_.operands.data() + update.first + update.input_count + update.output_count;
  for (unsigned i = 0; i < update.output_count; ++i) {
    const std::size_t variable = variable_of(variables[i]);
    if (!frame_->shadows[variable].defined()) written.push_back(plan_.tree.variables[variable]);
  }
  return written;
}

void Replay::tell_reads() {
  for (std::size_t i = 0; i < plan_.variable_values.size(); ++i)
    if (plan_.variable_values[i] >= 0)
      tell(observer_threw_, [&] { tell_read(context_, plan_.tree.variables[i]); });
}
void Replay::tell_question(int asked, HostRead read) {
  tell(observer_threw_, [&] { tell_host_read(context_, *slot(asked), read); });
}
void Replay::tell_commit() {
  for (std::size_t i = 0; i < frame_->shadows.size(); ++i)
    if (frame_->shadows[i].defined()) tell_written(context_, plan_.tree.variables[i]);
}
}  // namespace reel::tracing
