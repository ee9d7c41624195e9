// SPDX-License-Identifier: BSD-3-Clause
// Groups of passes: blocks and programs of stages.
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "lib/table/options/axis.hpp"
#include "lib/table/options/reduce.hpp"
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

std::int64_t Planner::columns_of(const Step& step) const {
  constexpr std::int64_t least_columns = 32;
  const Op& op = *step.op;
  if (!(op.fusion == Fusion::reduction && step.part == Part::value) && !op.by_lines) return 0;
  if (step.user_code || step.outputs.size() != 1 || !on_cpu() || !on_device_of_plan(step) ||
      into(step.outputs[0]) >= 0 || added_to_[static_cast<std::size_t>(step.outputs[0])])
    return 0;
  const Layout &x = value(step.inputs[0]).layout, &y = value(step.outputs[0]).layout;
  const int last = static_cast<int>(x.shape.rank()) - 1;
  if (last < 1 || x.elements < 2 * block_elements) return 0;
  for (const int input : step.inputs)
    if (input >= 0 &&
        (!value(input).layout.contiguous || value(input).layout.shape != x.shape ||
         !has_arithmetic(value(input).layout.dtype) || is_half(value(input).layout.dtype)))
      return 0;
  const std::int64_t columns = x.shape.data()[last];
  if (columns < least_columns || columns > row_block_elements || columns == x.elements) return 0;
  const OptionsView options = step.options.view();
  bool by_rows = step.op == &core_ops.sum_to && y.shape.rank() == x.shape.rank() &&
                 y.elements * columns == x.elements && y.shape.data()[last] == 1;
  if (options.type == &options_type<ReduceOptions>) {
    const Axes& axes = static_cast<const ReduceOptions*>(options.data)->axes;
    by_rows = !axes.is_every() && axes.count() == 1 && axes[0] == last;
  } else if (options.type == &options_type<AxisOptions>) {
    by_rows = static_cast<const AxisOptions*>(options.data)->axis == last;
  }
  return by_rows ? columns : 0;
}

bool Planner::reads_own_rows(const Step& step, const Gathered& group) const {
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const int input = step.inputs[i];
    if (input < 0 || !is_made(input, group) || !needs_spread(step, i)) continue;
    const Spread spread = spread_for(step, i);
    if (spread.rank != 2 || spread.lengths[0] != group.columns || spread.steps[0] != 0 ||
        spread.steps[1] != spread.size)
      return false;
  }
  return true;
}

bool Planner::add_rows(const Step& step, std::int64_t columns, Gathered& group) const {
  const std::int64_t own = value(step.inputs[0]).layout.elements;
  if (group.made && (own != group.elements || (group.columns && group.columns != columns)))
    return false;
  group.elements = own;
  group.columns = columns;
  return true;
}
bool Planner::add_pass(const Step& step, Gathered& group) const {
  if (step.outputs.size() != 1 || step.outputs[0] < 0) return false;
  const Passes& passes = passes_of(step);
  if (!passes.by_inputs[reads_spread]) return false;
  const std::int64_t own = value(step.outputs[0]).layout.elements;
  const bool is_short = group.columns && own * group.columns == group.elements;
  const bool copies_nothing(passes.by_inputs[reads_flat]);
  if (own < least_elements || (is_short && !copies_nothing) ||
      (passes.spreads && !reads_own_rows(step, group)))
    return false;
  if (is_short) return true;
  if ((group.made && own != group.elements) ||
      (own < 2 * block_elements && !(copies_nothing && passes.is_stage)))
    return false;
  group.elements = own;
  ++group.passes;
  group.stages += passes.is_stage;
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const int input = step.inputs[i];
    if (input < 0) continue;
    group.inputs += value(input).layout.elements == own && !is_made(input, group);
    if (!passes.spreads || !needs_spread(step, i)) continue;
    ++group.spreads;
    group.copies |= !reads_one_by_rows(step, i);
  }
  return true;
}

Planner::Group Planner::group_at(const Segment& segment, int i) {
  Gathered group;
  group.number = ++groups_;
  int end = i;
  const std::size_t most =
      std::min(most_passes, segment.steps.size() - static_cast<std::size_t>(i));
  // Each step is tried as the first one. A search that can find no group ends early.
  const auto can_be_long_enough = [&] {
    return !group.made || least_passes(group.elements, group.inputs) <= most;
  };
  for (; i < static_cast<int>(segment.steps.size()) && group.made < most_passes &&
         can_be_long_enough();
       ++i) {
    const Step& step = segment.steps[static_cast<std::size_t>(i)];
    if (is_view(step)) {
      if (is_made(step.outputs[0], group)) break;
      continue;
    }
    if (!is_pass(step)) {  // a sum, in the memory of the value that it is added to
      if (is_made(step.inputs[1], group))
        gathered_[static_cast<std::size_t>(step.outputs[0])] = group.number;
      continue;
    }
    const std::int64_t columns = columns_of(step);
    if (!(columns ? add_rows(step, columns, group) : add_pass(step, group))) break;
    gathered_[static_cast<std::size_t>(step.outputs[0])] = group.number;
    ++group.made;
    end = i + 1;
  }
  if (group.passes && group.made >= least_passes(group.elements, group.inputs)) group.end = end;
  const bool fits = group.elements < least_shared_pass;  // into the L2 cache
  if (group.elements >= 2 * block_elements)
    group.has_programs = group.stages > (group.columns || (group.spreads && fits) ? 3u : 1u);
  group.block = std::max(block_elements, group.columns);
  if (group.has_programs || group.copies) return group;
  if (group.columns || group.spreads) group.block = fits ? group.elements : row_block_elements;
  return group;
}

void Planner::order_groups(Tree& tree) {
  find_places();
  for (std::size_t number = 0; number < tree.segments.size(); ++number) {
    std::vector<Step>& steps = tree.segments[number].steps;
    for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
      const Group group = group_at(tree.segments[number], i);
      if (!group.end) continue;
      std::vector<Step> ordered;
      for (const int k : order_of(static_cast<int>(number), i, group))
        ordered.push_back(std::move(steps[static_cast<std::size_t>(k)]));
      std::move(ordered.begin(), ordered.end(), steps.begin() + i);
      i = group.end - 1;
    }
  }
}

std::vector<int> Planner::order_of(int number, int first, const Group& group) const {
  const auto count = static_cast<std::size_t>(group.end - first);
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
    stage[i] = is_pass(step) && is_stage_of(step, group);
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
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    if (step.inputs[i] >= 0 && reads_numbers(step, i)) made.stages = nullptr;
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

bool Planner::reads_one_by_rows(const Step& step, std::size_t i) const {
  constexpr std::int64_t least_row = 64;
  if (value(step.outputs[0]).layout.elements < 2 * block_elements) return false;
  for (std::size_t k = 0; k < step.inputs.size(); ++k)
    if (step.inputs[k] >= 0 && needs_spread(step, k) != (k == i)) return false;
  const Spread spread = spread_for(step, i);
  return spread.lengths[0] >= least_row ? !spread.steps[0] || spread.steps[0] == spread.size
                                        : spread.is_one_row();
}
bool Planner::reads_numbers(const Step& step, std::size_t i) const {
  return reads_one_by_rows(step, i) && !spread_for(step, i).steps[0];
}
bool Planner::reads_rows(const Step& step, std::size_t i, const Group& group) const {
  if (!reads_one_by_rows(step, i)) return false;
  const Spread spread = spread_for(step, i);
  return !spread.steps[0] || !group.has_programs ||
         (spread.period > block_elements && !is_stage_of(step, group));
}

std::int64_t Planner::add_spreads(int number, int first, const Group& group, State& buffer) {
  first_spread_ = plan_.spreads.size();
  const std::int64_t most = group.block;
  std::int64_t unit = std::max(group.columns, std::int64_t{1});
  for (int i = first; i < group.end; ++i) {
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
      if (copied_[found] || reads_rows(step, k, group)) continue;
      copied_[found] = true;
      if (const std::int64_t both = std::lcm(unit, spread.period); both <= most) unit = both;
      plan_.places[tree_.values.size() + found].offset =
          buffer.free.take(bytes_in_block(most, spread.size, most, most));
    }
  }
  return most / unit * unit;
}
void Planner::copy_spreads(int v, std::int64_t block) {
  for (std::size_t i = first_spread_; i < plan_.spreads.size(); ++i) {
    const Spread& spread = plan_.spreads[i];
    if (!copied_[i] || root(spread.value) != v) continue;
    Instruction copy{.kind = Instruction::Kind::spread, .input_count = 1, .output_count = 1};
    copy.first = static_cast<unsigned>(plan_.operands.size());
    copy.spread = static_cast<unsigned>(i + 1);
    copy.how = block % spread.period == 0;
    plan_.operands.insert(plan_.operands.end(), {spread.value, value_of_spread(i)});
    plan_.instructions.push_back(copy);
  }
}

std::vector<Planner::GroupPart> Planner::parts_of(int number, int first, const Group& group) const {
  std::vector<GroupPart> parts;
  ProgramSize size;
  for (int i = first; i < group.end; ++i) {
    const Step& step = step_at(number, i);
    if (!is_pass(step)) continue;
    const bool is_stage = is_stage_of(step, group);
    if (!is_stage) size = {};
    if (!is_stage || !size.add(chained(step))) parts.emplace_back();
    parts.back().push_back(i);
  }
  return parts;
}

void Planner::plan_group(int number, int first, const Group& group, State& state) {
  State buffer{{}, std::vector<char>(tree_.values.size()), {}};
  const std::int64_t block = add_spreads(number, first, group, buffer);
  const std::vector<GroupPart> parts = parts_of(number, first, group);
  state.viewed.clear();
  auto part = parts.begin();
  std::vector<int> made;
  for (int i = first; i < group.end; ++i) {
    const Step& step = step_at(number, i);
    for (const int input : step.inputs)
      if (input >= 0 && root(input) != input) state.viewed.push_back(root(input));
    if (!is_pass(step)) {
      plan_step(step, number, i, state);
      continue;
    }
    put_in_group(*part, step, number, i, group, state, buffer);
    made.push_back(step.outputs[0]);
    if (part->back() != i) continue;
    // Not before the end of a program: it runs all its stages over one tile, then over the next, so
    // it may still read tiles of what its first stage has read.
    for (const int k : *part++)
      for (const auto& values : {step_at(number, k).inputs, step_at(number, k).outputs})
        for (const int v : values) {
          if (v < 0 || !buffer.live[static_cast<std::size_t>(v)] ||
              lifetimes_.used_after(v, number, i))
            continue;
          buffer.live[static_cast<std::size_t>(v)] = false;
          buffer.free.give(place(v).offset, block_bytes(v, group));
        }
  }
  state.viewed.clear();
  const std::size_t at = plan_.instructions.size();
  const bool in_blocks = parts.size() > 1 || first_spread_ < plan_.spreads.size();
  if (in_blocks) plan_.instructions.push_back({.kind = Instruction::Kind::blocks});
  std::vector<int> spread;
  for (std::size_t i = first_spread_; i < plan_.spreads.size(); ++i)
    if (const int v = root(plan_.spreads[i].value);
        !std::count(made.begin(), made.end(), v) && !std::count(spread.begin(), spread.end(), v))
      copy_spreads(spread.emplace_back(v), block);
  for (const GroupPart& each : parts) {
    add_part(each, number, group);
    for (const int i : each) copy_spreads(step_at(number, i).outputs[0], block);
  }
  first_spread_ = plan_.spreads.size();
  if (!in_blocks) return;
  Instruction& blocks = plan_.instructions[at];
  blocks.block = static_cast<unsigned>(block);
  blocks.input_count = static_cast<unsigned>(plan_.instructions.size() - at - 1);
  blocks.output_count = static_cast<unsigned>(buffer.free.end());
  blocks.elements = group.elements;
  blocks.columns = static_cast<unsigned>(group.columns);
}

void Planner::put_in_group(const GroupPart& part, const Step& step, int number, int i,
                           const Group& group, State& state, State& buffer) {
  const int output = step.outputs[0];
  ValuePlace& here = place(output);
  if (here.kind != ValuePlace::Kind::scratch || into(output) >= 0 ||
      added_to_[static_cast<std::size_t>(output)] ||
      lifetimes_.used_after(output, number, group.end - 1))
    return put(output, step, number, i, state, reads_spread);
  here.kind = part.size() > 1 && !lifetimes_.used_after(output, number, part.back())
                  ? ValuePlace::Kind::stage
                  : ValuePlace::Kind::block;
  if (here.kind == ValuePlace::Kind::stage ||
      take_home(output, group.end, ValuePlace::Kind::result) ||
      take_over(output, step, number, i, buffer, reads_spread))
    return;
  here.offset = buffer.free.take(block_bytes(output, group));
  buffer.live[static_cast<std::size_t>(output)] = true;
}

void Planner::add_part(const GroupPart& part, int number, const Group& group) {
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
  for (const int i : part) {
    add_instruction(step_at(number, i), number, i, reads_spread);
    Instruction& made = plan_.instructions.back();
    if (!is_long_pass(step_at(number, i), group))
      made.columns = static_cast<unsigned>(group.columns);
    if (made.kind == Instruction::Kind::kernel) made.elements = group.elements;
  }
}
}  // namespace reel::tracing
