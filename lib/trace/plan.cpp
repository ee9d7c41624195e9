// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "lib/trace/loop.hpp"
#include "lib/trace/planner.hpp"

namespace reel::tracing {
namespace {
std::unique_ptr<PlannedLoop> planned_loop(const Loop& loop) {
  auto planned = std::make_unique<PlannedLoop>();
  planned->loop = &loop;
  planned->kept.resize(loop.states + loop.arrays);
  const auto keep = [&](const graph::Graph& body, int v, std::size_t first) {
    if (v < 0) return;
    const Value* value = &body.values[static_cast<std::size_t>(v)];
    if (value->kind == Value::Kind::view)
      value = &body.values[static_cast<std::size_t>(value->number)];
    const auto number = static_cast<std::size_t>(value->number);
    if (value->kind != Value::Kind::argument || number < first) return;
    if (planned->kept.size() <= number) planned->kept.resize(number + 1);
    planned->kept[number] = true;
  };
  for (const graph::Graph* body : loop.bodies())
    for (const Segment& each : body->segments) {
      for (const int result : each.results) keep(*body, result, 0);
      // The result of a loop inside may be one of its inputs. A state is a tensor of its own.
      for (const Step& step : each.steps)
        for (std::size_t i = 0; step.loop && i < step.inputs.size(); ++i)
          keep(*body, step.inputs[i], loop.states);
    }
  // The trips of a gradient add to sums. Nothing keeps those of a trip.
  for (std::size_t i = 0; loop.gradient && i < loop.states; ++i)
    planned->owned.push_back(!planned->kept[i]);
  const auto add = [&](int segment, const Tree& tree) {
    planned->trips.emplace_back(segment, std::make_unique<Plan>(tree, planned->owned));
  };
  if (!loop.gradient) add(-1, loop.tree);
  for (const Loop::GradientBody& body : loop.gradient_bodies) add(body.segment, body.tree);
  return planned;
}

}  // namespace

void Planner::run() {
  plan_.segments.resize(tree_.segments.size());
  find_places();
  find_starts();
  std::vector<State> states(tree_.segments.size());
  states[0].live.resize(tree_.values.size());
  for (const int number : lifetimes_.order()) {
    State& state = states[static_cast<std::size_t>(number)];
    plan_segment(number, state);
    const auto& branches = segment_of(number).branches;
    for (const Branch& branch : branches) {
      State& next = states[static_cast<std::size_t>(branch.segment)];
      if (&branch == &branches.back())
        std::swap(next, state);
      else
        next = state;
      if (branches.size() > 1) release_dead(next, branch.segment);
    }
    state = {};
  }
  for (const Plan::PlannedSegment& segment : plan_.segments) find_planned(segment);
  const auto& made = plan_.instructions;
  plan_.group_times = std::vector<Plan::GroupTime>(
      static_cast<std::size_t>(std::count_if(made.begin(), made.end(), is_header)));
}

void Planner::find_starts() {
  plan_.variable_values.assign(tree_.variables.size(), -1);
  for (std::size_t i = 0; i < tree_.values.size(); ++i) {
    const Value& value = tree_.values[i];
    const auto number = static_cast<std::size_t>(value.number);
    if (value.kind == Value::Kind::variable) plan_.variable_values[number] = static_cast<int>(i);
    if (value.kind != Value::Kind::argument) continue;
    if (plan_.argument_values.size() <= number) plan_.argument_values.resize(number + 1, -1);
    plan_.argument_values[number] = static_cast<int>(i);
  }
}

void Planner::find_places() {
  constexpr std::int64_t least_shared = 4096;  // bytes; a copy of less costs no more than memory
  plan_.places.resize(tree_.values.size());
  const Value* first = nullptr;
  for (const Segment& segment : tree_.segments)
    for (const Step& step : segment.steps)
      for (const int output : step.outputs) {
        if (output < 0 || value(output).kind != Value::Kind::computed) continue;
        if (!first) plan_.device = (first = &value(output))->layout.device;
        place(output).kind = value(output).layout.device == plan_.device ? ValuePlace::Kind::scratch
                                                                         : ValuePlace::Kind::fresh;
      }
  for (const Segment& segment : tree_.segments) {
    for (const Step& step : segment.steps) {
      if (graph::assigns_whole(tree_, step) && on_cpu() &&
          value(step.inputs[1]).layout.bytes() >= least_shared &&
          place(step.inputs[1]).kind == ValuePlace::Kind::scratch)
        place(step.inputs[1]).kind = ValuePlace::Kind::fresh;  // the Variable shares it
      if (!step.updated.empty() || step.user_code || step.loop)
        for (const int output : step.outputs)
          place(output).kind =
              step.updated.empty() ? ValuePlace::Kind::given : ValuePlace::Kind::variable;
    }
    if (!segment.ends) continue;
    for (const int result : segment.results)
      if (result >= 0 && place(root(result)).kind == ValuePlace::Kind::scratch)
        place(root(result)).kind = ValuePlace::Kind::fresh;
  }
}

void Planner::release_if_dead(State& state, int v, int segment, int step) {
  if (!state.live[static_cast<std::size_t>(v)] || lifetimes_.used_after(v, segment, step)) return;
  state.live[static_cast<std::size_t>(v)] = false;
  state.free.give(place(v).offset, bytes_of(value(v)));
}

void Planner::release_dead(State& state, int segment, int first, int end) {
  for (int i = first; i < end; ++i) {
    const Step& step = segment_of(segment).steps[static_cast<std::size_t>(i)];
    for (const auto& values : {step.inputs, step.outputs})
      for (const int v : values)
        if (v >= 0) release_if_dead(state, root(v), segment, end - 1);
  }
}

void Planner::plan_segment(int number, State& state) {
  const Segment& segment = tree_.segments[static_cast<std::size_t>(number)];
  Plan::PlannedSegment& planned = plan_.segments[static_cast<std::size_t>(number)];
  find_sums(number);
  find_homes(number);
  planned.first = static_cast<unsigned>(plan_.instructions.size());
  const int count = static_cast<int>(segment.steps.size());
  for (int i = 0; i < count;) {
    const Step& step = segment.steps[static_cast<std::size_t>(i)];
    if (step.op == &graph::gradient_op) {
      planned.gradient = static_cast<unsigned>(plan_.instructions.size());
      ++i;
      continue;
    }
    const Group group = group_at(segment, i);
    int end = group.end;
    if (end) {
      plan_group(number, i, group, state);
    } else {
      end = i + 1;
      plan_step(step, number, i, state);
    }
    release_dead(state, number, i, end);
    i = end;
  }
  if (segment.branches.size() == 1)  // several branches may need different values
    release_if_dead(state, root(segment.question.inputs[0]), segment.branches[0].segment, -1);
  if (!on_cpu()) prepare_first(planned.first);
  if (planned.gradient == ~0u) planned.gradient = static_cast<unsigned>(plan_.instructions.size());
  allocate_first(planned.first, planned.gradient);
  if (segment.ends) let_updates_write_in_place(planned.first, planned.gradient);
  planned.end = static_cast<unsigned>(plan_.instructions.size());
  planned.ending = tree_.endings[static_cast<std::size_t>(number)];
  planned.branches = segment.branches;
  if (segment.branches.empty()) return;
  planned.asked = segment.question.inputs[0];
  planned.read = segment.question.read;
}

namespace {
bool writes_over(const Instruction& each) {
  return each.kind == Instruction::Kind::allocate && each.input_count;
}
}  // namespace
void Planner::allocate_first(unsigned first, unsigned end) {
  const auto all = plan_.instructions.begin();
  std::stable_partition(std::find_if(all + first, all + end, writes_over), all + end,
                        [](const Instruction& each) {
                          return each.kind == Instruction::Kind::allocate && !writes_over(each);
                        });
}

void Planner::prepare_first(unsigned first) {
  const auto prepares = [&](const Instruction& each) {
    if (each.kind == Instruction::Kind::allocate) return true;
    if (each.kind != Instruction::Kind::view) return false;
    const int viewed = root(plan_.operands[each.first]);
    return value(viewed).kind != Value::Kind::computed ||
           place(viewed).kind == ValuePlace::Kind::fresh;
  };
  std::stable_partition(plan_.instructions.begin() + first, plan_.instructions.end(), prepares);
}

void Planner::let_updates_write_in_place(unsigned first, unsigned& size) {
  auto& all = plan_.instructions;
  const auto next_update = [&](unsigned i) {
    while (i < size && all[i].kind != Instruction::Kind::update && !writes_over(all[i])) ++i;
    return i;
  };
  unsigned start = size;
  while (start > first && !can_fail(all[start - 1])) --start;
  for (unsigned i = size; i-- > start;)
    for (const int number : numbers_of(all[i]))
      if (after_maker_of(number, start, i) > next_update(start)) {
        start = i;  // made too late for the check, so no earlier update writes in place
        break;
      }
  for (unsigned i = start; i < size; ++i) all[i].rest_cannot_fail = true;
  const unsigned update = next_update(start);
  Instruction look{.kind = Instruction::Kind::numbers, .rest_cannot_fail = true};
  look.first = static_cast<unsigned>(plan_.operands.size());
  for (unsigned i = update + 1; i < size; ++i)
    for (const int number : numbers_of(all[i]))
      if (!on_other_device(number)) plan_.operands.push_back(number);
  look.input_count = static_cast<unsigned>(plan_.operands.size()) - look.first;
  if (!look.input_count) return;
  all.insert(all.begin() + update, look);
  ++size;
}

std::vector<int> Planner::numbers_of(const Instruction& update) const {
  if (update.kind != Instruction::Kind::update) return {};
  const auto end = plan_.operands.begin() + update.first + update.input_count;
  return {end - update.op->numbers, end};
}

unsigned Planner::after_maker_of(int value, unsigned first, unsigned end) const {
  for (unsigned i = first; i < end; ++i) {
    const Instruction& made = plan_.instructions[i];
    const int* const outputs = plan_.operands.data() + made.first + made.input_count;
    if (!is_header(made) && std::count(outputs, outputs + made.output_count, root(value)))
      return i + 1;
  }
  return 0;
}

void Planner::plan_step(const Step& step, int segment, int i, State& state) {
  if (is_view(step)) return add_view(step.outputs[0]);
  for (const int output : step.outputs)
    if (output >= 0) put(output, step, segment, i, state);
  if (!is_summed(step)) add_instruction(step, segment, i);
}

void Planner::find_sums(int number) {
  const auto& steps = segment_of(number).steps;
  for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
    const Step& step = steps[static_cast<std::size_t>(i)];
    for (const int output : step.outputs)
      if (output >= 0) made_[static_cast<std::size_t>(output)] = {number, i};
    if (step.op != &core_ops.add || step.part != Part::value || step.user_code) continue;
    const int total = step.inputs[0], part = step.inputs[1], sum = step.outputs[0];
    const bool owned = is_owned(total, sum);
    if (!(owned || alike_in_scratch(total, sum)) || !alike_in_scratch(part, owned ? part : sum))
      continue;
    const Made maker = made_[static_cast<std::size_t>(part)],
               before = made_[static_cast<std::size_t>(total)];
    if (maker.segment != number || (before.segment == number && before.step >= maker.step) ||
        !adds(steps[static_cast<std::size_t>(maker.step)]) ||
        !lifetimes_.only_used_at(part, number, maker.step, i) ||
        !lifetimes_.only_used_at(total, number, maker.step - 1, i) ||
        (owned && pass_of(steps[static_cast<std::size_t>(maker.step)])))
      continue;
    into(part) = total;
    into(sum) = part;
    added_to_[static_cast<std::size_t>(total)] = true;
    for (const int each : {part, sum}) {
      if (!owned) continue;
      place(each).kind = ValuePlace::Kind::given;
      plan_.tree.values[static_cast<std::size_t>(each)].kind = Value::Kind::view;
      plan_.tree.values[static_cast<std::size_t>(each)].number = total;
    }
  }
}

bool Planner::is_owned(int total, int sum) const {
  const Value& v = value(total);
  return v.kind == Value::Kind::argument && static_cast<std::size_t>(v.number) < owned_.size() &&
         owned_[static_cast<std::size_t>(v.number)] && !on_other_device(total) &&
         v.layout.contiguous && root(sum) == sum && v.layout == value(sum).layout;
}

bool Planner::adds(const Step& step) const {
  const Op& op = *step.op;
  if (step.user_code || op.random || !step.updated.empty() || is_view(step)) return false;
  if (step.part == Part::gradients) return true;
  if (step.part != Part::value) return value(step.outputs[0]).layout.elements < 2 * block_elements;
  return op.accumulates && !has_passes(op) && !(op.contiguous_inputs && any_strided(step));
}

bool Planner::take_over(int output, const Step& step, int segment, int at, State& state,
                        Inputs inputs) {
  if (!pass_of(step, inputs)) return false;
  for (const int input : step.inputs) {
    if (input < 0 || !state.live[static_cast<std::size_t>(input)] ||
        lifetimes_.used_after(input, segment, at) || reads_part(step, input) ||
        std::count(state.viewed.begin(), state.viewed.end(), input) ||
        value(input).layout.bytes() != value(output).layout.bytes() ||
        value(input).layout.elements != value(output).layout.elements)
      continue;
    hand_over(input, output, state);
    return true;
  }
  return false;
}

void Planner::hand_over(int from, int to, State& state) {
  place(to).offset = place(from).offset;
  state.live[static_cast<std::size_t>(from)] = false;
  state.live[static_cast<std::size_t>(to)] = true;
}

bool Planner::can_fail(const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::user ||
         instruction.kind == Instruction::Kind::loop ||
         ((instruction.kind == Instruction::Kind::kernel ||
           instruction.kind == Instruction::Kind::elsewhere) &&
          instruction.op->fusion == Fusion::opaque);
}

void Planner::find_homes(int number) {
  const auto& steps = segment_of(number).steps;
  for (int i = 0; i < static_cast<int>(steps.size()) && on_cpu() && segment_of(number).ends; ++i) {
    const Step& step = steps[static_cast<std::size_t>(i)];
    if (!graph::assigns_whole(tree_, step)) continue;
    if (may_write_over(step.inputs[0], step.inputs[1], number, i))
      over_[static_cast<std::size_t>(step.inputs[1])] = step.inputs[0];
  }
  for (int i = static_cast<int>(steps.size()); on_cpu() && i-- > 0;) {
    const Step& step = steps[static_cast<std::size_t>(i)];
    if (step.outputs.size() != 1 || step.outputs[0] < 0) continue;
    const int made = step.outputs[0];
    const int result = place(made).kind == ValuePlace::Kind::fresh
                           ? made
                           : homes_[static_cast<std::size_t>(made)].result;
    if (result < 0 || over_[static_cast<std::size_t>(result)] >= 0 || is_view(step) ||
        !pass_of(step, reads_spread))
      continue;
    for (const int input : step.inputs)
      if (input >= 0 && may_share(input, step, number, i)) {
        homes_[static_cast<std::size_t>(input)] = {result, {number, i}};
        break;
      }
  }
}
bool Planner::may_share(int v, const Step& step, int number, int at) const {
  constexpr std::int64_t least = 1 << 14;  // bytes; less memory stays in the L1 cache
  const auto i = static_cast<std::size_t>(v);
  return value(v).kind == Value::Kind::computed && place(v).kind == ValuePlace::Kind::scratch &&
         value(v).layout == value(step.outputs[0]).layout && value(v).layout.bytes() >= least &&
         made_[i].segment == number && !viewed_[i] && !added_to_[i] && into(v) < 0 &&
         homes_[i].result < 0 && !lifetimes_.used_after(v, number, at);
}
bool Planner::may_write_over(int variable, int output, int number, int at) const {
  const Made& made = made_[static_cast<std::size_t>(output)];
  const auto& steps = segment_of(number).steps;
  if (value(variable).kind != Value::Kind::variable || made.segment != number ||
      place(output).kind != ValuePlace::Kind::fresh || into(output) >= 0 ||
      added_to_[static_cast<std::size_t>(output)] ||
      !pass_of(steps[static_cast<std::size_t>(made.step)], reads_spread) ||
      lifetimes_.used_after(variable, number, at))
    return false;
  const auto reads = [&](int i) { return i >= 0 && root(i) == variable; };
  for (int i = at - 1; i >= 0; --i) {
    const Step& step = steps[static_cast<std::size_t>(i)];
    if (i <= made.step && !may_be_in_group(step)) break;
    if (is_view(step) || std::none_of(step.inputs.begin(), step.inputs.end(), reads)) continue;
    if (i > made.step || !pass_of(step) ||
        std::any_of(step.inputs.begin(), step.inputs.end(),
                    [&](int input) { return reads(input) && input != variable; }))
      return false;
  }
  return true;
}
bool Planner::take_home(int v, int end, ValuePlace::Kind kind) {
  const auto [result, reader] = homes_[static_cast<std::size_t>(v)];
  if (result < 0 || (reader.step >= end && !pass_of(step_at(reader.segment, reader.step))))
    return false;
  allocate(result);
  place(v).kind = kind;
  plan_.tree.values[static_cast<std::size_t>(v)].number = result;
  return add_view(v), true;
}
void Planner::allocate(int result) {
  if (std::exchange(allocated_[static_cast<std::size_t>(result)], true)) return;
  Instruction make{.kind = Instruction::Kind::allocate, .output_count = 1};
  make.first = static_cast<unsigned>(plan_.operands.size());
  if (const int variable = over_[static_cast<std::size_t>(result)]; variable >= 0) {
    make.input_count = 1;
    plan_.operands.push_back(variable);
  }
  plan_.operands.push_back(result);
  plan_.instructions.push_back(make);
}

void Planner::add_view(int output) {
  if (place(root(output)).kind == ValuePlace::Kind::scratch ||
      value(root(output)).kind == Value::Kind::constant)
    return;
  Instruction view{.kind = Instruction::Kind::view, .output_count = 1};
  view.first = static_cast<unsigned>(plan_.operands.size());
  plan_.operands.push_back(output);
  plan_.instructions.push_back(view);
}

void Planner::put(int output, const Step& step, int segment, int at, State& state, Inputs inputs) {
  ValuePlace& here = place(output);
  if (value(output).kind == Value::Kind::view) return add_view(output);
  if (here.kind == ValuePlace::Kind::fresh) allocate(output);
  if (here.kind != ValuePlace::Kind::scratch) return;
  if (into(output) >= 0) return hand_over(into(output), output, state);
  if (take_home(output, at, ValuePlace::Kind::fresh)) return;
  if (take_over(output, step, segment, at, state, inputs)) return;
  here.offset = state.free.take(bytes_of(value(output)));
  plan_.scratch_bytes = std::max(plan_.scratch_bytes, state.free.end());
  state.live[static_cast<std::size_t>(output)] = true;
}

const Planner::Passes& Planner::passes_of(const Step& step) const {
  Passes& known = passes_[static_cast<std::size_t>(step.outputs[0])];
  if (std::exchange(known.is_known, true)) return known;
  known.by_inputs[reads_flat] = find_pass(step, reads_flat);
  if (const Pass pass = known.by_inputs[reads_spread] = find_pass(step, reads_spread))
    known.is_stage = is_stage(chained(step));
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    known.spreads |= step.inputs[i] >= 0 && needs_spread(step, i);
  return known;
}
Pass Planner::find_pass(const Step& step, Inputs inputs) const {
  const Op& op = *step.op;
  if (step.user_code || !on_device_of_plan(step)) return {};
  const Layout& output = value(step.outputs[0]).layout;
  DType from = output.dtype;
  if (step.part == Part::value) {
    if (op.fusion != Fusion::pointwise) return {};
    for (std::size_t i = 0; i < step.inputs.size(); ++i)
      if (!is_flat(value(step.inputs[i]).layout, step) &&
          (inputs == reads_flat || !pays(spread_for(step, i))))
        return {};
    from = value(step.inputs[op.promoted & 1 || step.inputs.size() == 1 ? 0 : 1]).layout.dtype;
  }
  return backend_of(output.device.kind)->pass_of(op, step.part, from, output.dtype);
}

void Planner::add_instruction(const Step& step, int segment, int at, Inputs inputs) {
  Instruction made{.kind = Instruction::Kind::kernel};
  made.op = step.op;
  made.part = step.part;
  made.options = step.options.view();
  made.caller = step.caller;
  made.input_count = static_cast<unsigned>(step.inputs.size());
  made.output_count = static_cast<unsigned>(step.outputs.size());
  plan_.most_operands = std::max(plan_.most_operands, step.inputs.size() + step.outputs.size());
  made.first = static_cast<unsigned>(plan_.operands.size());
  const std::vector<int> from = inputs == reads_flat ? step.inputs : inputs_in_group(step);
  plan_.operands.insert(plan_.operands.end(), from.begin(), from.end());
  plan_.operands.insert(plan_.operands.end(), step.outputs.begin(), step.outputs.end());
  for (std::size_t i = 0; i < step.updated.size(); ++i)
    plan_.operands.push_back(replaces(step, i, segment, at) ? step.updated[i] : ~step.updated[i]);
  if (step.op->random) {
    made.kind = Instruction::Kind::random;
    made.elements = value(step.outputs[0]).layout.elements;
  } else if (!step.updated.empty()) {
    made.kind = Instruction::Kind::update;
    made.shares = on_cpu() && graph::assigns_whole(tree_, step) &&
                  place(step.inputs[1]).kind == ValuePlace::Kind::fresh;
  } else if (step.user_code) {
    made.kind = Instruction::Kind::user;
  } else if (step.loop) {
    made.kind = Instruction::Kind::loop;
    made.loop = plan_.loops.emplace_back(planned_loop(loop_of(step))).get();
  } else if (step.op->changes_device || !on_device_of_plan(step)) {
    made.kind = Instruction::Kind::elsewhere;
  } else if (const Pass pass = pass_of(step, inputs)) {
    made.kind = Instruction::Kind::pass;
    made.passes = pass.passes;
    made.function = pass.function;
    made.how = pass.how;
    made.elements = value(step.outputs[0]).layout.elements;
    made.how |= single_numbers(step);
    for (const int input : from)
      if (is_spread(input) && !copied_[static_cast<std::size_t>(input) - tree_.values.size()])
        made.spread = static_cast<unsigned>(input) - static_cast<unsigned>(tree_.values.size()) + 1;
    if (into(step.outputs[0]) >= 0) made.how |= pass_adds;
  }
  if (made.kind == Instruction::Kind::kernel)
    for (std::size_t i = 0; i < step.outputs.size(); ++i)
      if (step.outputs[i] >= 0 && into(step.outputs[i]) >= 0) made.how |= 1u << i;
  plan_.instructions.push_back(made);
}

bool Planner::replaces(const Step& step, std::size_t i, int segment, int at) const {
  const int before = step.inputs[i];
  if (lifetimes_.used_after(before, segment, at)) return false;
  for (std::size_t k = 0; k < step.inputs.size(); ++k)
    if (k != i && step.inputs[k] >= 0 && root(step.inputs[k]) == before) return false;
  return true;
}

bool Planner::is_planned_update(const Instruction& made) const {
  if (made.kind != Instruction::Kind::update || !made.rest_cannot_fail || on_cpu()) return false;
  const int* const outputs = plan_.operands.data() + made.first + made.input_count;
  for (unsigned i = 0; i < made.output_count; ++i)
    if (!(value(outputs[i]).layout.device == plan_.device) || outputs[made.output_count + i] < 0)
      return false;
  return true;
}

bool Planner::is_planned_draw(const Instruction& made) const {
  if (made.kind != Instruction::Kind::random || on_cpu()) return false;
  const int output = plan_.operands[made.first + made.input_count];
  return value(output).layout.device == plan_.device;
}

void Planner::find_planned(const Plan::PlannedSegment& segment) {
  unsigned planned = 0;
  for (unsigned i = segment.end; i-- > segment.first;) {
    if (i + 1 == segment.gradient) planned = 0;
    const Instruction::Kind kind = plan_.instructions[i].kind;
    const bool updates = is_planned_update(plan_.instructions[i]);
    const bool draws = is_planned_draw(plan_.instructions[i]);
    const bool is_planned = kind <= Instruction::Kind::kernel || updates || draws;
    plan_.plans_updates |= updates;
    plan_.plans_draws |= draws;
    plan_.instructions[i].planned = planned = is_planned ? planned + 1 : 0;
  }
}

namespace {
std::uint64_t next_plan() {
  static constinit std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}
}  // namespace

const bool verifies = std::getenv("REEL_VERIFY") != nullptr;

void run_passes(graph::Graph& graph, std::size_t variables,
                std::span<const graph::GraphPass> passes, bool verify) {
  for (const graph::GraphPass& pass : passes) {
    pass.run(graph);
    if (!verify) continue;
    if (const std::string fault = graph::fault_of(graph, variables, Context::here());
        !fault.empty())
      fail<TraceError>(
          {}, "trace", "graph",
          std::string("a graph that verify() accepts after the pass ").append(pass.name), fault);
  }
}

Plan::Plan(const Tree& t, const std::vector<char>& owned) : tree(t), number(next_plan()) {
  run_passes(tree, tree.variables.size(), graph::all_passes(), verifies);
  Planner(*this, owned).order_groups(tree);
  Planner(*this, owned).run();
  find_waits();
}
}  // namespace reel::tracing
