// SPDX-License-Identifier: BSD-3-Clause
// Groups of passes: blocks and programs of stages.
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "lib/trace/planner.hpp"

namespace reel::tracing {
namespace {
constexpr std::size_t most_passes = 256;
constexpr std::int64_t least_elements = 8;
/// The fewest passes that are faster as a group, which reads so many inputs. Fewer elements than a
/// tile are copied to one.
std::size_t least_passes(std::int64_t elements, std::size_t inputs) {
  if (elements >= 2 * block_elements) return 2;
  return elements >= core_ops.add.on_cpu().passes->stages->machine->tile ? 3 : 6 + 2 * inputs;
}
}  // namespace

int Planner::end_of_group(const Segment& segment, int i) const {
  std::vector<int> made;
  std::int64_t elements = 0;
  std::size_t inputs = 0;  // that the group does not make
  int end = i;
  for (; i < static_cast<int>(segment.steps.size()) && made.size() < most_passes; ++i) {
    const Step& step = segment.steps[static_cast<std::size_t>(i)];
    if (is_view(step)) {
      if (std::count(made.begin(), made.end(), root(step.outputs[0]))) break;
      continue;
    }
    if (!is_pass(step)) continue;
    if (!pass_of(step, reads_spread)) break;
    const std::int64_t own = value(step.outputs[0]).layout.elements;
    if (own < least_elements || (!made.empty() && own != elements)) break;
    if (own < 2 * block_elements && !(pass_of(step) && is_stage(chained(step)))) break;
    elements = own;
    for (const int input : step.inputs)
      inputs += input >= 0 && value(input).layout.elements == own &&
                !std::count(made.begin(), made.end(), root(input));
    made.push_back(step.outputs[0]);
    end = i + 1;
  }
  return made.size() >= least_passes(elements, inputs) ? end : 0;
}

void Planner::order_groups(Tree& tree) {
  find_places();
  for (std::size_t number = 0; number < tree.segments.size(); ++number) {
    std::vector<Step>& steps = tree.segments[number].steps;
    for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
      const int end = end_of_group(tree.segments[number], i);
      if (!end) continue;
      std::vector<Step> ordered;
      for (const int k : order_of(static_cast<int>(number), i, end))
        ordered.push_back(std::move(steps[static_cast<std::size_t>(k)]));
      std::move(ordered.begin(), ordered.end(), steps.begin() + i);
      i = end - 1;
    }
  }
}

std::vector<int> Planner::order_of(int number, int first, int end) const {
  const auto count = static_cast<std::size_t>(end - first);
  std::vector<int> waits(count), order;  // how many inputs of each step are not made yet
  std::vector<std::vector<std::size_t>> readers(count);
  std::vector<char> stage(count), done(count);
  std::unordered_map<int, std::size_t> maker;
  for (std::size_t i = 0; i < count; ++i) {
    const Step& step = step_at(number, first + static_cast<int>(i));
    for (const int input : step.inputs) {
      const auto made = input < 0 ? maker.end() : maker.find(root(input));
      if (made == maker.end()) continue;
      ++waits[i];
      readers[made->second].push_back(i);
    }
    for (const int output : step.outputs) maker[output] = i;
    stage[i] = is_pass(step) && is_stage(chained(step));
  }
  std::size_t last = count;  // the newest step
  bool stages = false;       // whether stages are taken now
  const auto is_next = [&](std::size_t i) { return !done[i] && !waits[i] && stage[i] == stages; };
  while (order.size() < count) {
    std::size_t next = count;
    if (last < count)
      for (const std::size_t i : readers[last])
        if (is_next(i)) next = std::min(next, i);
    for (std::size_t i = 0; i < count && next == count; ++i)
      if (is_next(i)) next = i;
    if (next == count) {
      stages = !stages;
      last = count;
      continue;
    }
    done[next] = true;
    order.push_back(first + static_cast<int>(next));
    for (const std::size_t i : readers[next]) --waits[i];
    last = next;
  }
  return order;
}

ChainedPass Planner::chained(const Step& step) const {
  const int output = step.outputs[0];
  const Pass pass = pass_of(step, reads_spread);
  ChainedPass made{pass.how ? nullptr : pass.passes->stages, step.part, single_numbers(step),
                   inputs_in_group(step), output};
  if (value(output).layout.dtype != DType::float32) made.stages = nullptr;
  for (int& input : made.inputs) input = maker_of(input);
  made.total = maker_of(into(output));
  made.in_memory = place(output).kind != ValuePlace::Kind::stage;
  return made;
}

int Planner::maker_of(int v) const {
  if (v < 0 || is_spread(v) || into(v) < 0) return v;
  const Made& made = made_[static_cast<std::size_t>(v)];
  return is_summed(step_at(made.segment, made.step)) ? into(v) : v;
}

unsigned Planner::single_numbers(const Step& step) const {
  unsigned numbers = 0;
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    if (step.inputs[i] >= 0 && is_scalar(value(step.inputs[i]).layout, step)) numbers |= 1u << i;
  return numbers;
}

std::vector<int> Planner::inputs_in_group(const Step& step) const {
  std::vector<int> inputs = step.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] < 0 || !needs_spread(step, i)) continue;
    const Spread wanted = spread_for(step, i);
    for (std::size_t k = first_spread_; k < plan_.spreads.size(); ++k)
      if (plan_.spreads[k] == wanted) inputs[i] = value_of_spread(k);
  }
  return inputs;
}

bool Planner::reads_rows(const Step& step, std::size_t i) const {
  constexpr std::int64_t least_row = 64;
  for (std::size_t k = 0; k < step.inputs.size(); ++k)
    if (k != i && step.inputs[k] >= 0 && needs_spread(step, k)) return false;
  const Spread spread = spread_for(step, i);
  return spread.lengths[0] >= least_row && spread.steps[0] == spread.size &&
         spread.period > block_elements && !is_stage(chained(step));
}

std::int64_t Planner::add_spreads(int number, int first, int end, State& buffer) {
  first_spread_ = plan_.spreads.size();
  std::int64_t unit = 1;
  for (int i = first; i < end; ++i) {
    const Step& step = step_at(number, i);
    for (std::size_t k = 0; k < step.inputs.size() && is_pass(step); ++k) {
      if (step.inputs[k] < 0 || !needs_spread(step, k)) continue;
      const Spread spread = spread_for(step, k);
      if (!is_spread(inputs_in_group(step)[k])) {
        plan_.spreads.push_back(spread);
        plan_.places.push_back({ValuePlace::Kind::block});
        copied_.push_back(false);
      }
      const auto found = static_cast<std::size_t>(inputs_in_group(step)[k]) - tree_.values.size();
      if (copied_[found] || reads_rows(step, k)) continue;
      copied_[found] = true;
      if (const std::int64_t both = std::lcm(unit, spread.period); both <= block_elements)
        unit = both;
      const auto bytes = static_cast<std::size_t>(block_elements * spread.size);
      plan_.places[tree_.values.size() + found].offset = buffer.free.take(bytes);
    }
  }
  return block_elements / unit * unit;
}

std::vector<Planner::GroupPart> Planner::parts_of(int number, int first, int end) const {
  std::vector<GroupPart> parts;
  ProgramSize size;
  for (int i = first; i < end; ++i) {
    const Step& step = step_at(number, i);
    if (!is_pass(step)) continue;
    if (!size.add(chained(step))) parts.emplace_back();
    parts.back().push_back(i);
  }
  return parts;
}

void Planner::plan_group(int number, int first, int end, State& state) {
  State buffer{{}, std::vector<char>(tree_.values.size()), {}};
  const std::int64_t block = add_spreads(number, first, end, buffer);
  const std::vector<GroupPart> parts = parts_of(number, first, end);
  state.viewed.clear();
  auto part = parts.begin();
  for (int i = first; i < end; ++i) {
    const Step& step = step_at(number, i);
    for (const int input : step.inputs)
      if (input >= 0 && root(input) != input) state.viewed.push_back(root(input));
    if (!is_pass(step)) {
      plan_step(step, number, i, state);
    } else {
      put_in_group(*part, step, number, i, end, state, buffer);
      if (part->back() == i) ++part;
    }
    for (const auto& values : {step.inputs, step.outputs})
      for (const int v : values) {
        if (v < 0 || !buffer.live[static_cast<std::size_t>(v)] ||
            lifetimes_.used_after(v, number, i))
          continue;
        buffer.live[static_cast<std::size_t>(v)] = false;
        buffer.free.give(place(v).offset, block_bytes(v));
      }
  }
  state.viewed.clear();
  const std::size_t at = plan_.instructions.size();
  const bool in_blocks = parts.size() > 1 || first_spread_ < plan_.spreads.size();
  if (in_blocks) plan_.instructions.push_back({.kind = Instruction::Kind::blocks});
  for (std::size_t i = first_spread_; i < plan_.spreads.size(); ++i) {
    if (!copied_[i]) continue;
    Instruction copy{.kind = Instruction::Kind::spread, .input_count = 1, .output_count = 1};
    copy.first = static_cast<unsigned>(plan_.operands.size());
    copy.spread = static_cast<unsigned>(i + 1);
    copy.how = block % plan_.spreads[i].period == 0;
    plan_.operands.insert(plan_.operands.end(), {plan_.spreads[i].value, value_of_spread(i)});
    plan_.instructions.push_back(copy);
  }
  for (const GroupPart& each : parts) add_part(each, number);
  first_spread_ = plan_.spreads.size();
  if (!in_blocks) return;
  Instruction& blocks = plan_.instructions[at];
  blocks.block = static_cast<unsigned>(block);
  blocks.input_count = static_cast<unsigned>(plan_.instructions.size() - at - 1);
  blocks.output_count = static_cast<unsigned>(buffer.free.end());
  blocks.elements = plan_.instructions.back().elements;
}

void Planner::put_in_group(const GroupPart& part, const Step& step, int number, int i, int end,
                           State& state, State& buffer) {
  const int output = step.outputs[0];
  ValuePlace& here = place(output);
  if (here.kind != ValuePlace::Kind::scratch || into(output) >= 0 ||
      added_to_[static_cast<std::size_t>(output)] || lifetimes_.used_after(output, number, end - 1))
    return put(output, step, number, i, state, reads_spread);
  here.kind = part.size() > 1 && !lifetimes_.used_after(output, number, part.back())
                  ? ValuePlace::Kind::stage
                  : ValuePlace::Kind::block;
  if (here.kind == ValuePlace::Kind::stage ||
      take_over(output, step, number, i, buffer, reads_spread))
    return;
  here.offset = buffer.free.take(block_bytes(output));
  buffer.live[static_cast<std::size_t>(output)] = true;
}

void Planner::add_part(const GroupPart& part, int number) {
  if (part.size() > 1) {
    std::vector<ChainedPass> chain;
    for (const int i : part) chain.push_back(chained(step_at(number, i)));
    Instruction stages{.kind = Instruction::Kind::stages};
    stages.input_count = static_cast<unsigned>(part.size());
    stages.first = static_cast<unsigned>(plan_.programs.size());
    stages.elements = value(chain[0].output).layout.elements;
    plan_.instructions.push_back(stages);
    plan_.programs.push_back(write_program(chain, core_ops.add.on_cpu().passes->stages));
  }
  for (const int i : part) add_instruction(step_at(number, i), number, i, reads_spread);
}
}  // namespace reel::tracing
