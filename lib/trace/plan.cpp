// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/plan.hpp"

#include <algorithm>
#include <utility>

#include "lib/table/backend.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/passes.hpp"
#include "lib/trace/lifetimes.hpp"
#include "lib/trace/loop.hpp"
#include "lib/trace/order.hpp"
#include "lib/trace/ranges.hpp"

namespace reel::tracing {
namespace {
constexpr std::size_t alignment = 64;
constexpr std::size_t most_passes = 256;

std::unique_ptr<PlannedLoop> planned_loop(const Loop& loop) {
  auto planned = std::make_unique<PlannedLoop>();
  planned->loop = &loop;
  planned->kept.resize(loop.states + loop.arrays);
  for (const graph::Graph* body : loop.bodies())
    for (const Segment& each : body->segments)
      for (const int result : each.results) {
        if (result < 0) continue;
        const Value* value = &body->values[static_cast<std::size_t>(result)];
        if (value->kind == Value::Kind::view)
          value = &body->values[static_cast<std::size_t>(value->number)];
        if (value->kind != Value::Kind::argument) continue;
        const auto number = static_cast<std::size_t>(value->number);
        if (planned->kept.size() <= number) planned->kept.resize(number + 1);
        planned->kept[number] = true;
      }
  // The trips of a gradient add to sums. Nothing keeps those of a trip.
  for (std::size_t i = 0; loop.gradient && i < loop.states; ++i)
    planned->owned.push_back(!planned->kept[i]);
  const auto add = [&](int segment, const Tree& tree) {
    planned->trips.emplace_back(segment, std::make_unique<Plan>(tree, planned->owned));
  };
  if (!loop.gradient) add(-1, loop.tree);
  for (const Loop::Way& way : loop.ways) add(way.segment, way.tree);
  return planned;
}

class Planner {
 public:
  Planner(Plan& plan, const std::vector<char>& owned)
      : plan_(plan),
        owned_(owned),
        tree_(plan.tree),
        lifetimes_(tree_),
        into_(tree_.values.size(), -1),
        made_(tree_.values.size()) {}

  void run() {
    plan_.places.resize(tree_.values.size());
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
  }

 private:
  struct State {
    FreeRanges free;
    std::vector<char> live;   // whether a value occupies scratch memory
    std::vector<int> viewed;  // values of which the passes of a group read views
  };

  const Segment& segment_of(int i) const { return tree_.segments[static_cast<std::size_t>(i)]; }
  const Value& value(int i) const { return tree_.values[static_cast<std::size_t>(i)]; }
  ValuePlace& place(int i) { return plan_.places[static_cast<std::size_t>(i)]; }
  const ValuePlace& place(int i) const { return plan_.places[static_cast<std::size_t>(i)]; }
  int root(int i) const { return lifetimes_.root(i); }
  int& into(int i) { return into_[static_cast<std::size_t>(i)]; }
  int into(int i) const { return into_[static_cast<std::size_t>(i)]; }

  void find_starts() {
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

  /// Scratch memory is on the device of the first computed value. Values on other devices have
  /// separate memory.
  void find_places() {
    const Value* first = nullptr;
    for (std::size_t i = 0; i < tree_.values.size(); ++i) {
      const Value& value = tree_.values[i];
      if (value.kind != Value::Kind::computed) continue;
      if (!first) plan_.device = (first = &value)->layout.device;
      place(static_cast<int>(i)).kind =
          value.layout.device == plan_.device ? ValuePlace::Kind::scratch : ValuePlace::Kind::fresh;
    }
    for (const Segment& segment : tree_.segments) {
      for (const Step& step : segment.steps)
        if (!step.updated.empty() || step.user_code || step.loop)
          for (const int output : step.outputs)
            place(output).kind =
                step.updated.empty() ? ValuePlace::Kind::given : ValuePlace::Kind::variable;
      if (!segment.ends) continue;
      for (const int result : segment.results)
        if (result >= 0 && place(root(result)).kind == ValuePlace::Kind::scratch)
          place(root(result)).kind = ValuePlace::Kind::fresh;
    }
  }

  /// Whether a value is not on the CPU. Then a backend runs its step.
  bool on_other_device(int i) const { return !(value(i).layout.device == cpu()); }
  bool on_device_of_plan(const Step& step) const {
    return std::all_of(step.outputs.begin(), step.outputs.end(),
                       [&](int i) { return i < 0 || value(i).layout.device == plan_.device; });
  }

  static std::size_t bytes_of(const Value& value) {
    const auto bytes = static_cast<std::size_t>(value.layout.bytes());
    return std::max((bytes + alignment - 1) / alignment * alignment, alignment);
  }

  /// Frees the memory of all values that are not read after `step`.
  void release_dead(State& state, int segment) {
    for (auto v = state.live.begin(); (v = std::find(v, state.live.end(), 1)) != state.live.end();)
      release_if_dead(state, static_cast<int>(v++ - state.live.begin()), segment, -1);
  }
  void release_if_dead(State& state, int v, int segment, int step) {
    if (!state.live[static_cast<std::size_t>(v)] || lifetimes_.used_after(v, segment, step)) return;
    state.live[static_cast<std::size_t>(v)] = false;
    state.free.give(place(v).offset, bytes_of(value(v)));
  }
  /// The same, only for values that the steps before `end` read or make.
  void release_dead(State& state, int segment, int first, int end) {
    for (int i = first; i < end; ++i) {
      const Step& step = segment_of(segment).steps[static_cast<std::size_t>(i)];
      for (const auto& values : {step.inputs, step.outputs})
        for (const int v : values)
          if (v >= 0) release_if_dead(state, root(v), segment, end - 1);
    }
  }

  void plan_segment(int number, State& state) {
    const Segment& segment = tree_.segments[static_cast<std::size_t>(number)];
    Plan::PlannedSegment& planned = plan_.segments[static_cast<std::size_t>(number)];
    find_sums(number);
    planned.first = static_cast<unsigned>(plan_.instructions.size());
    const int count = static_cast<int>(segment.steps.size());
    for (int i = 0; i < count;) {
      const Step& step = segment.steps[static_cast<std::size_t>(i)];
      int end = end_of_blocks(segment, i);
      if (step.op == &graph::gradient_op) {
        planned.gradient = static_cast<unsigned>(plan_.instructions.size());
        ++i;
        continue;
      }
      if (end) {
        plan_blocks(number, i, end, state);
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
    if (planned.gradient == ~0u)
      planned.gradient = static_cast<unsigned>(plan_.instructions.size());
    if (segment.ends) settle(planned.first, planned.gradient);
    planned.end = static_cast<unsigned>(plan_.instructions.size());
    planned.ending = tree_.endings[static_cast<std::size_t>(number)];
    planned.branches = segment.branches;
    if (segment.branches.empty()) return;
    planned.asked = segment.question.inputs[0];
    planned.read = segment.question.read;
  }

  /// Moves what only prepares memory to the front, so that a backend executes more calls at once.
  void prepare_first(unsigned first) {
    const auto prepares = [&](const Instruction& each) {
      if (each.kind == Instruction::Kind::allocate) return true;
      if (each.kind != Instruction::Kind::view) return false;
      const int viewed = root(plan_.operands[each.first]);
      return value(viewed).kind != Value::Kind::computed ||
             place(viewed).kind == ValuePlace::Kind::fresh;
    };
    std::stable_partition(plan_.instructions.begin() + first, plan_.instructions.end(), prepares);
  }

  /// Finds the updates of the last segment that may write in place, because nothing after them can
  /// fail. The step of an optimizer fails if one of its numbers is not finite. So all these numbers
  /// are checked before the first update. Kernels of other devices check them themselves.
  void settle(unsigned first, unsigned& size) {
    auto& all = plan_.instructions;
    const auto next_update = [&](unsigned i) {
      while (i < size && all[i].kind != Instruction::Kind::update) ++i;
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
  /// The numbers among the inputs of an optimizer's step. They follow the gradients.
  std::vector<int> numbers_of(const Instruction& update) const {
    if (update.kind != Instruction::Kind::update) return {};
    const auto end = plan_.operands.begin() + update.first + update.input_count;
    return {end - update.op->numbers, end};
  }
  /// The index after the instruction in [first, end) that makes a value; 0 if none does.
  unsigned after_maker_of(int value, unsigned first, unsigned end) const {
    for (unsigned i = first; i < end; ++i) {
      const Instruction& made = plan_.instructions[i];
      const int* const outputs = plan_.operands.data() + made.first + made.input_count;
      if (made.kind != Instruction::Kind::blocks &&
          std::count(outputs, outputs + made.output_count, root(value)))
        return i + 1;
    }
    return 0;
  }

  void plan_step(const Step& step, int segment, int i, State& state) {
    if (is_view(step)) return add_view(step.outputs[0]);
    for (const int output : step.outputs)
      if (output >= 0) put(output, step, segment, i, state);
    if (!is_summed(step)) add_instruction(step, segment, i);
  }

  /// Finds sums of a value and a kernel's output. Then the kernel adds its output to that value in
  /// place, and the addition is dropped.
  void find_sums(int number) {
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
          !lifetimes_.only_used_at(total, number, maker.step - 1, i))
        continue;
      into(part) = total;
      into(sum) = part;
      for (const int each : {part, sum}) {
        if (!owned) continue;
        place(each).kind = ValuePlace::Kind::given;
        plan_.tree.values[static_cast<std::size_t>(each)].kind = Value::Kind::view;
        plan_.tree.values[static_cast<std::size_t>(each)].number = total;
      }
    }
  }
  /// Whether a sum may be formed in the memory of an argument.
  bool is_owned(int total, int sum) const {
    const Value& v = value(total);
    return v.kind == Value::Kind::argument && static_cast<std::size_t>(v.number) < owned_.size() &&
           owned_[static_cast<std::size_t>(v.number)] && !on_other_device(total) &&
           v.layout.contiguous && root(sum) == sum && v.layout == value(sum).layout;
  }
  bool is_summed(const Step& step) const {
    return step.op == &core_ops.add && step.part == Part::value && into(step.outputs[0]) >= 0 &&
           into(step.outputs[0]) == step.inputs[1];
  }
  bool alike_in_scratch(int a, int b) const {
    return root(a) == a && !on_other_device(a) && place(a).kind == ValuePlace::Kind::scratch &&
           place(b).kind == ValuePlace::Kind::scratch && value(a).layout == value(b).layout;
  }
  /// Whether the kernel of a step can add to its outputs. Long passes cannot, because they run in
  /// blocks.
  bool adds(const Step& step) const {
    const Op& op = *step.op;
    if (step.user_code || op.random || !step.updated.empty() || is_view(step)) return false;
    if (step.part == Part::gradients) return true;
    if (step.part != Part::value)
      return value(step.outputs[0]).layout.elements < 2 * block_elements;
    return op.accumulates && !has_passes(op) && !(op.contiguous_inputs && any_strided(step));
  }

  /// The end of a group of passes over values of one size, with views between them, that begins at
  /// step i. 0 if a group of them would not be faster.
  int end_of_blocks(const Segment& segment, int i) const {
    std::vector<int> made;
    std::int64_t elements = 0;
    int end = i;
    for (; i < static_cast<int>(segment.steps.size()) && made.size() < most_passes; ++i) {
      const Step& step = segment.steps[static_cast<std::size_t>(i)];
      if (is_view(step)) {
        if (std::count(made.begin(), made.end(), root(step.outputs[0]))) break;
        continue;
      }
      if (is_summed(step)) continue;
      if (!pass_of(step)) break;
      const std::int64_t own = value(step.outputs[0]).layout.elements;
      if (own < 2 * block_elements || (!made.empty() && own != elements)) break;
      elements = own;
      made.push_back(step.outputs[0]);
      end = i + 1;
    }
    return made.size() > 1 ? end : 0;
  }

  /// Plans passes that run together, block by block. Values that only these passes read are in a
  /// buffer of one block each. Other memory is not freed between the passes, because every block
  /// needs it again.
  void plan_blocks(int number, int first, int end, State& state) {
    const auto step_at = [&](int i) -> const Step& {
      return segment_of(number).steps[static_cast<std::size_t>(i)];
    };
    const auto is_pass = [&](int i) { return !is_view(step_at(i)) && !is_summed(step_at(i)); };
    State buffer{{}, std::vector<char>(tree_.values.size()), {}};
    unsigned passes = 0;
    state.viewed.clear();
    for (int i = first; i < end; ++i) {
      const Step& step = step_at(i);
      const int output = step.outputs[0];
      ValuePlace& here = place(output);
      for (const int input : step.inputs)
        if (input >= 0 && root(input) != input) state.viewed.push_back(root(input));
      if (is_pass(i) && here.kind == ValuePlace::Kind::scratch &&
          !lifetimes_.used_after(output, number, end - 1))
        here.kind = ValuePlace::Kind::block;
      if (here.kind != ValuePlace::Kind::block) {
        if (is_pass(i)) {
          put(output, step, number, i, state);
        } else {
          plan_step(step, number, i, state);
        }
      } else if (!take_over(output, step, number, i, buffer)) {
        here.offset = buffer.free.take(block_bytes(output));
        buffer.live[static_cast<std::size_t>(output)] = true;
      }
      passes += is_pass(i);
      for (const auto& values : {step.inputs, step.outputs})
        for (const int v : values) {
          if (v < 0 || !buffer.live[static_cast<std::size_t>(v)] ||
              lifetimes_.used_after(v, number, i))
            continue;
          buffer.live[static_cast<std::size_t>(v)] = false;
          buffer.free.give(place(v).offset, block_bytes(v));
        }
    }
    Instruction blocks{.kind = Instruction::Kind::blocks};
    blocks.input_count = passes;
    blocks.output_count = static_cast<unsigned>(buffer.free.end());
    plan_.instructions.push_back(blocks);
    const std::size_t at = plan_.instructions.size() - 1;
    for (int i = first; i < end; ++i)
      if (is_pass(i)) add_instruction(step_at(i), number, i);
    plan_.instructions[at].elements = plan_.instructions.back().elements;
    state.viewed.clear();
  }
  std::size_t block_bytes(int v) const {
    return static_cast<std::size_t>(block_elements * size_of(value(v).layout.dtype));
  }

  /// Gives the output of a pass the memory of an input that is not read later.
  bool take_over(int output, const Step& step, int segment, int at, State& state) {
    if (!pass_of(step)) return false;
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
  /// Whether a step reads a view of this value. Then the step may not write to the value's memory:
  /// it could overwrite elements before it reads them.
  bool reads_part(const Step& step, int whole) const {
    return std::any_of(step.inputs.begin(), step.inputs.end(),
                       [&](int i) { return i >= 0 && i != whole && root(i) == whole; });
  }
  void hand_over(int from, int to, State& state) {
    place(to).offset = place(from).offset;
    state.live[static_cast<std::size_t>(from)] = false;
    state.live[static_cast<std::size_t>(to)] = true;
  }

  /// Opaque kernels may check values. Updates check their rates too, but their errors need no run.
  static bool can_fail(const Instruction& instruction) {
    return instruction.kind == Instruction::Kind::user ||
           instruction.kind == Instruction::Kind::loop ||
           ((instruction.kind == Instruction::Kind::kernel ||
             instruction.kind == Instruction::Kind::elsewhere) &&
            instruction.op->fusion == Fusion::opaque);
  }

  bool is_view(const Step& step) const {
    return step.outputs.size() == 1 && value(step.outputs[0]).kind == Value::Kind::view &&
           into(step.outputs[0]) < 0;
  }

  void add_view(int output) {
    if (place(root(output)).kind == ValuePlace::Kind::scratch ||
        value(root(output)).kind == Value::Kind::constant)
      return;
    Instruction view{.kind = Instruction::Kind::view, .output_count = 1};
    view.first = static_cast<unsigned>(plan_.operands.size());
    plan_.operands.push_back(output);
    plan_.instructions.push_back(view);
  }

  /// Finds memory for an output. A pass may reuse the memory of an input that is not read later.
  void put(int output, const Step& step, int segment, int at, State& state) {
    ValuePlace& here = place(output);
    if (value(output).kind == Value::Kind::view) return add_view(output);
    if (here.kind == ValuePlace::Kind::fresh) {
      Instruction make{.kind = Instruction::Kind::allocate, .output_count = 1};
      make.first = static_cast<unsigned>(plan_.operands.size());
      plan_.operands.push_back(output);
      plan_.instructions.push_back(make);
    }
    if (here.kind != ValuePlace::Kind::scratch) return;
    if (into(output) >= 0) return hand_over(into(output), output, state);
    if (take_over(output, step, segment, at, state)) return;
    here.offset = state.free.take(bytes_of(value(output)));
    plan_.scratch_bytes = std::max(plan_.scratch_bytes, state.free.end());
    state.live[static_cast<std::size_t>(output)] = true;
  }

  /// The pass that computes the whole step, or none.
  Pass pass_of(const Step& step) const {
    const Op& op = *step.op;
    if (step.user_code || step.outputs.size() != 1 || !on_device_of_plan(step)) return {};
    const Layout& output = value(step.outputs[0]).layout;
    DType dtype = output.dtype;
    if (step.part == Part::value) {
      if (op.fusion != Fusion::pointwise) return {};
      for (const int input : step.inputs) {
        const Layout& x = value(input).layout;
        if (x.elements != 1 && !(x.contiguous && x.shape == output.shape)) return {};
      }
      dtype = value(step.inputs[op.promoted & 1 ? 0 : 1]).layout.dtype;
    }
    return backend_of(output.device.kind)->pass_of(op, step.part, dtype);
  }

  void add_instruction(const Step& step, int segment, int at) {
    Instruction made{.kind = Instruction::Kind::kernel};
    made.op = step.op;
    made.part = step.part;
    made.options = step.options.view();
    made.site = step.site;
    made.input_count = static_cast<unsigned>(step.inputs.size());
    made.output_count = static_cast<unsigned>(step.outputs.size());
    plan_.most_operands = std::max(plan_.most_operands, step.inputs.size() + step.outputs.size());
    made.first = static_cast<unsigned>(plan_.operands.size());
    plan_.operands.insert(plan_.operands.end(), step.inputs.begin(), step.inputs.end());
    plan_.operands.insert(plan_.operands.end(), step.outputs.begin(), step.outputs.end());
    for (std::size_t i = 0; i < step.updated.size(); ++i)
      plan_.operands.push_back(replaces(step, i, segment, at) ? step.updated[i] : ~step.updated[i]);
    if (step.op->random) {
      made.kind = Instruction::Kind::random;
      made.elements = value(step.outputs[0]).layout.elements;
    } else if (!step.updated.empty()) {
      made.kind = Instruction::Kind::update;
    } else if (step.user_code) {
      made.kind = Instruction::Kind::user;
    } else if (step.loop) {
      made.kind = Instruction::Kind::loop;
      made.loop = plan_.loops.emplace_back(planned_loop(loop_of(step))).get();
    } else if (step.op->changes_device || !on_device_of_plan(step)) {
      made.kind = Instruction::Kind::elsewhere;
    } else if (const Pass pass = pass_of(step)) {
      made.kind = Instruction::Kind::pass;
      made.tile = pass.tile;
      made.how = pass.how;
      made.elements = value(step.outputs[0]).layout.elements;
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        if (step.inputs[i] >= 0 && is_scalar(value(step.inputs[i]).layout, step))
          made.how |= 1u << i;
      if (into(step.outputs[0]) >= 0) made.how |= pass_adds;
    }
    if (made.kind == Instruction::Kind::kernel)
      for (std::size_t i = 0; i < step.outputs.size(); ++i)
        if (step.outputs[i] >= 0 && into(step.outputs[i]) >= 0) made.how |= 1u << i;
    plan_.instructions.push_back(made);
  }

  /// Whether a pass uses one number for all elements.
  bool is_scalar(const Layout& x, const Step& step) const {
    if (step.part == Part::value) return x.elements == 1;
    return !(x.contiguous && x.elements == value(step.outputs[0]).layout.elements);
  }
  bool any_strided(const Step& step) const {
    return std::any_of(step.inputs.begin(), step.inputs.end(),
                       [&](int i) { return i >= 0 && !value(i).layout.contiguous; });
  }

  /// Whether nothing needs the value that a Variable had before an update of it.
  bool replaces(const Step& step, std::size_t i, int segment, int at) const {
    const int before = step.inputs[i];
    if (lifetimes_.used_after(before, segment, at)) return false;
    for (std::size_t k = 0; k < step.inputs.size(); ++k)
      if (k != i && step.inputs[k] >= 0 && root(step.inputs[k]) == before) return false;
    return true;
  }

  bool on_cpu() const { return plan_.device == cpu(); }
  /// Whether a backend may execute an update among other calls. A replay finds out whether it can
  /// write in place then.
  bool is_planned_update(const Instruction& made) const {
    if (made.kind != Instruction::Kind::update || !made.rest_cannot_fail || on_cpu()) return false;
    const int* const outputs = plan_.operands.data() + made.first + made.input_count;
    for (unsigned i = 0; i < made.output_count; ++i)
      if (!(value(outputs[i]).layout.device == plan_.device) || outputs[made.output_count + i] < 0)
        return false;
    return true;
  }

  /// Whether a backend may draw random numbers among other calls.
  bool is_planned_draw(const Instruction& made) const {
    if (made.kind != Instruction::Kind::random || on_cpu()) return false;
    const int output = plan_.operands[made.first + made.input_count];
    return value(output).layout.device == plan_.device;
  }

  /// Sets, for each instruction, how many instructions a backend executes at once from there on.
  void find_planned(const Plan::PlannedSegment& segment) {
    unsigned planned = 0;
    for (unsigned i = segment.end; i-- > segment.first;) {
      if (i + 1 == segment.gradient) planned = 0;
      const Instruction::Kind kind = plan_.instructions[i].kind;
      const bool updates = is_planned_update(plan_.instructions[i]);
      const bool draws = is_planned_draw(plan_.instructions[i]);
      const bool is_planned = kind == Instruction::Kind::blocks || updates || draws ||
                              kind == Instruction::Kind::pass || kind == Instruction::Kind::kernel;
      plan_.plans_updates |= updates;
      plan_.plans_draws |= draws;
      plan_.instructions[i].planned = planned = is_planned ? planned + 1 : 0;
    }
  }

  struct Made {
    int segment = -1, step = -1;
  };
  Plan& plan_;
  const std::vector<char>& owned_;
  const Tree& tree_;
  const Lifetimes lifetimes_;
  std::vector<int> into_;   // the value to whose memory this value is added; -1 if there is none
  std::vector<Made> made_;  // the step that computes each value
};
}  // namespace

namespace {
std::uint64_t next_plan() {
  static constinit std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}
}  // namespace

Plan::Plan(const Tree& t, const std::vector<char>& owned) : tree(t), number(next_plan()) {
  put_updates_last(tree);
  Planner(*this, owned).run();
  find_waits();
}
}  // namespace reel::tracing
