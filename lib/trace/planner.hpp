// SPDX-License-Identifier: BSD-3-Clause
// Makes the plan of a tree. Groups of passes are in plan_groups.cpp.
#pragma once
#include <algorithm>
#include <vector>

#include "lib/graph/passes/passes.hpp"
#include "lib/table/backend.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/passes.hpp"
#include "lib/trace/lifetimes.hpp"
#include "lib/trace/plan.hpp"
#include "lib/trace/ranges.hpp"

namespace reel::tracing {
class Planner {
 public:
  /// `owned`: see Plan.
  Planner(Plan& plan, const std::vector<char>& owned)
      : plan_(plan),
        owned_(owned),
        tree_(plan.tree),
        lifetimes_(tree_),
        into_(tree_.values.size(), -1),
        added_to_(tree_.values.size()),
        made_(tree_.values.size()),
        homes_(tree_.values.size()),
        over_(tree_.values.size(), -1),
        allocated_(tree_.values.size()),
        viewed_(tree_.values.size()),
        passes_(tree_.values.size()),
        gathered_(tree_.values.size()) {
    for (const Value& value : tree_.values)
      if (value.kind == Value::Kind::view) viewed_[static_cast<std::size_t>(value.number)] = true;
  }

  /// Changes the order of passes that can run together, so that programs are longer. Call it before
  /// a Planner of the same plan runs.
  void order_groups(Tree& tree);
  void run();

 private:
  struct State {
    FreeRanges free;
    std::vector<char> live;   // whether a value occupies scratch memory
    std::vector<int> viewed;  // values of which the passes of a group read views
  };

  /// The inputs of a pass: in the order of its output, or those of a group, which copies others.
  enum Inputs { reads_flat, reads_spread };

  const Segment& segment_of(int i) const { return tree_.segments[static_cast<std::size_t>(i)]; }
  const Value& value(int i) const { return tree_.values[static_cast<std::size_t>(i)]; }
  ValuePlace& place(int i) { return plan_.places[static_cast<std::size_t>(i)]; }
  const ValuePlace& place(int i) const { return plan_.places[static_cast<std::size_t>(i)]; }
  int root(int i) const { return lifetimes_.root(i); }
  int& into(int i) { return into_[static_cast<std::size_t>(i)]; }
  int into(int i) const { return into_[static_cast<std::size_t>(i)]; }

  void find_starts();

  /// Scratch memory is on the device of the first computed value. Values on other devices have
  /// separate memory.
  void find_places();

  /// Whether a value is not on the CPU. Then a backend runs its step.
  bool on_other_device(int i) const { return !(value(i).layout.device == cpu()); }
  bool on_device_of_plan(const Step& step) const {
    return std::all_of(step.outputs.begin(), step.outputs.end(),
                       [&](int i) { return i < 0 || value(i).layout.device == plan_.device; });
  }

  static std::size_t bytes_of(const Value& value) {
    constexpr std::size_t alignment = 64;
    const auto bytes = static_cast<std::size_t>(value.layout.bytes());
    return std::max((bytes + alignment - 1) / alignment * alignment, alignment);
  }

  /// Frees the memory of all values that are not read after `step`.
  void release_dead(State& state, int segment) {
    for (auto v = state.live.begin(); (v = std::find(v, state.live.end(), 1)) != state.live.end();)
      release_if_dead(state, static_cast<int>(v++ - state.live.begin()), segment, -1);
  }
  void release_if_dead(State& state, int v, int segment, int step);
  /// The same, only for values that the steps before `end` read or make.
  void release_dead(State& state, int segment, int first, int end);

  void plan_segment(int number, State& state);

  /// Moves what only prepares memory to the front, so that a backend executes more calls at once.
  void prepare_first(unsigned first);

  /// Finds the updates of the last segment that may write in place, because nothing after them can
  /// fail. The step of an optimizer fails if one of its numbers is not finite. So all these numbers
  /// are checked before the first update. Kernels of other devices check them themselves.
  /// `size` is the end of the instructions that may be updates.
  void let_updates_write_in_place(unsigned first, unsigned& size);
  /// The numbers among the inputs of an optimizer's step. They follow the gradients.
  std::vector<int> numbers_of(const Instruction& update) const;
  /// The index after the instruction in [first, end) that makes a value; 0 if none does.
  unsigned after_maker_of(int value, unsigned first, unsigned end) const;

  void plan_step(const Step& step, int segment, int i, State& state);

  /// Finds sums of a value and a kernel's output. Then the kernel adds its output to that value in
  /// place, and the addition is dropped.
  void find_sums(int number);
  /// Whether a sum may be formed in the memory of an argument.
  bool is_owned(int total, int sum) const;
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
  bool adds(const Step& step) const;

  /// Steps that run together.
  struct Group {
    int end = 0;  // 0: none
    std::int64_t elements = 0;
    std::int64_t columns = 0;  // see Instruction
    std::int64_t block = 0;    // the most elements of a block
    bool has_programs = true;  // of stages
  };
  struct Gathered : Group {
    int number = 0;        // of all groups that were tried
    std::size_t made = 0;  // values; gathered_ says which ones
    /// Long passes, those that can be stages, what they read that the group does not make, and what
    /// of it is broadcast.
    std::size_t passes = 0, stages = 0, inputs = 0, spreads = 0;
    bool copies = false;  // whether a pass needs a copy of what is broadcast
  };
  /// Adds a kernel that computes rows, or a pass. False if the step does not fit.
  bool add_rows(const Step& step, std::int64_t columns, Gathered& group) const;
  bool add_pass(const Step& step, Gathered& group) const;
  /// The passes over values of one size, with views between them, that begin at step i, if a group
  /// of them is faster. A group of short passes is one program. A long group may have kernels that
  /// compute rows along the last axis, such as reductions, and passes over their results.
  Group group_at(const Segment& segment, int i);
  /// The length of the last axis, if a kernel computes each row along this axis by itself: a
  /// reduction, softmax, or its gradient; else 0.
  std::int64_t columns_of(const Step& step) const;
  /// Whether a step of a group is a pass over all elements, not over results of reductions.
  bool is_long_pass(const Step& step, const Group& group) const {
    return value(step.outputs[0]).layout.elements == group.elements && !columns_of(step);
  }
  bool is_made(int v, const Gathered& group) const {
    return gathered_[static_cast<std::size_t>(root(v))] == group.number;
  }
  /// Whether a pass reads what steps of its group have made row by row.
  bool reads_own_rows(const Step& step, const Gathered& group) const;

  /// An order in which passes that can be stages follow each other, and in which a pass reads the
  /// result of the pass before it where possible.
  std::vector<int> order_of(int number, int first, const Group& group) const;

  /// A pass as one of a chain.
  ChainedPass chained(const Step& step) const;
  /// The value whose instruction makes this one: of a sum, the value that is added in place.
  int maker_of(int v) const;
  /// Bit i: input i is a single number.
  unsigned single_numbers(const Step& step) const;

  /// Whether a pass needs a copy of an input, and may have one in a group of blocks.
  bool needs_spread(const Step& step, std::size_t i) const {
    return step.part == Part::value && step.op->fusion == Fusion::pointwise &&
           !is_flat(value(step.inputs[i]).layout, step);
  }
  bool is_spread(int v) const { return v >= static_cast<int>(tree_.values.size()); }
  int value_of_spread(std::size_t i) const { return static_cast<int>(tree_.values.size() + i); }
  Spread spread_for(const Step& step, std::size_t i) const {
    return spread_of(step.inputs[i], value(step.inputs[i]).layout,
                     value(step.outputs[0]).layout.shape);
  }
  /// Whether a pass of a group reads this input row by row, where it is.
  bool reads_rows(const Step& step, std::size_t i, const Group& group) const;
  /// Whether rows of this input are long enough to be read one by one. Others are contiguous.
  bool reads_one_by_rows(const Step& step, std::size_t i) const;
  /// Whether a pass reads one number for each row of an input. It is no stage then.
  bool reads_numbers(const Step& step, std::size_t i) const;
  bool is_stage_of(const Step& step, const Group& group) const {
    return group.has_programs && is_long_pass(step, group) && can_be_stage(step);
  }
  /// The inputs of a step, or the copies of them that its group makes.
  std::vector<int> inputs_in_group(const Step& step) const;
  /// Adds the spreads that a group needs. Returns the length of its blocks, which short rows
  /// divide: a copy of such rows serves all blocks.
  std::int64_t add_spreads(int number, int first, const Group& group, State& buffer);
  /// Adds the instructions that copy spreads of a value.
  void copy_spreads(int v, std::int64_t block);

  /// A part of a group: the passes of one program, or a single pass.
  using GroupPart = std::vector<int>;
  std::vector<GroupPart> parts_of(int number, int first, const Group& group) const;

  /// Plans passes that run together, block by block, or as one program over all elements. Values
  /// that only the passes of a program read are in its registers and slots. Values that only
  /// the group reads are in a buffer of one block each. Other memory is not freed between the
  /// passes, because every block needs it again.
  void plan_group(int number, int first, const Group& group, State& state);
  bool is_pass(const Step& step) const { return !is_view(step) && !is_summed(step); }
  const Step& step_at(int segment, int i) const {
    return segment_of(segment).steps[static_cast<std::size_t>(i)];
  }
  /// Finds a place for the output of a pass of a group that ends at step `end`.
  void put_in_group(const GroupPart& part, const Step& step, int number, int i, const Group& group,
                    State& state, State& buffer);
  void add_part(const GroupPart& part, int number, const Group& group);
  std::size_t block_bytes(int v, const Group& group) const {
    const Layout& layout = value(v).layout;
    return bytes_in_block(layout.elements, size_of(layout.dtype), group.block, group.elements);
  }

  /// Finds the values that may be computed in the memory of a result, because a pass that reads
  /// them last computes this result, or another such value, in place.
  void find_homes(int number);
  bool may_share(int v, const Step& step, int number, int at) const;
  /// Whether a pass may write its output over the value of a Variable to which the step `at`
  /// assigns it: nothing reads the old value later, and steps of the same group read the same
  /// elements.
  bool may_write_over(int variable, int output, int number, int at) const;
  bool may_be_in_group(const Step& step) const {
    return is_view(step) || pass_of(step, reads_spread) || columns_of(step);
  }
  /// Puts a value into the memory of its result, if there is one. `end` is that of its group.
  bool take_home(int v, int end, ValuePlace::Kind kind);
  void allocate(int result);
  /// Allocates what a segment needs before it writes over a Variable, so that it fails before.
  void allocate_first(unsigned first, unsigned end);

  /// Gives the output of a pass the memory of an input that is not read later.
  bool take_over(int output, const Step& step, int segment, int at, State& state, Inputs inputs);
  /// Whether a step reads a view of this value. Then the step may not write to the value's memory:
  /// it could overwrite elements before it reads them.
  bool reads_part(const Step& step, int whole) const {
    return std::any_of(step.inputs.begin(), step.inputs.end(),
                       [&](int i) { return i >= 0 && i != whole && root(i) == whole; });
  }
  void hand_over(int from, int to, State& state);

  /// Opaque kernels may check values. Updates check their rates too, but their errors need no run.
  static bool can_fail(const Instruction& instruction);

  bool is_view(const Step& step) const {
    return step.outputs.size() == 1 && value(step.outputs[0]).kind == Value::Kind::view &&
           into(step.outputs[0]) < 0;
  }

  void add_view(int output);

  /// Finds memory for an output. A pass may reuse the memory of an input that is not read later.
  void put(int output, const Step& step, int segment, int at, State& state,
           Inputs inputs = reads_flat);

  /// Whether an input has one element for each element of the output, in the same order, or a
  /// single element.
  bool is_flat(const Layout& x, const Step& step) const {
    return x.elements == 1 || (x.contiguous && x.shape == value(step.outputs[0]).layout.shape);
  }
  /// The pass that computes the whole step, or none.
  Pass pass_of(const Step& step, Inputs inputs = reads_flat) const {
    return step.outputs.size() == 1 && step.outputs[0] >= 0 ? passes_of(step).by_inputs[inputs]
                                                            : Pass{};
  }
  Pass find_pass(const Step& step, Inputs inputs) const;
  /// Whether the pass that computes a step in a group can be a stage of a program.
  bool can_be_stage(const Step& step) const { return passes_of(step).is_stage; }
  /// What does not change while a plan is made: many groups are tried at each step.
  struct Passes {
    bool is_known = false, is_stage = false, spreads = false;  // spreads: an input needs one
    Pass by_inputs[2] = {};
  };
  const Passes& passes_of(const Step& step) const;

  void add_instruction(const Step& step, int segment, int at, Inputs inputs = reads_flat);

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
  bool replaces(const Step& step, std::size_t i, int segment, int at) const;

  bool on_cpu() const { return plan_.device == cpu(); }
  /// Whether a backend may execute an update among other calls. A replay finds out whether it can
  /// write in place then.
  bool is_planned_update(const Instruction& made) const;

  /// Whether a backend may draw random numbers among other calls.
  bool is_planned_draw(const Instruction& made) const;

  /// Sets, for each instruction, how many instructions a backend executes at once from there on.
  void find_planned(const Plan::PlannedSegment& segment);

  struct Made {
    int segment = -1, step = -1;
  };
  struct Home {
    int result = -1;
    Made reader = {};  // the last one
  };
  Plan& plan_;
  const std::vector<char>& owned_;
  const Tree& tree_;
  const Lifetimes lifetimes_;
  std::vector<char> copied_;      // of each spread: whether its group copies it
  std::size_t first_spread_ = 0;  // of the current group
  std::vector<int> into_;  // the value to whose memory this value is added; -1 if there is none
  std::vector<char> added_to_;  // whether another value is added to this value's memory
  std::vector<Made> made_;      // the step that computes each value
  std::vector<Home> homes_;     // of each value
  std::vector<int> over_;       // the Variable's value that each value may be written over
  std::vector<char> allocated_, viewed_;  // of each value
  mutable std::vector<Passes> passes_;    // of the step that makes each value
  int groups_ = 0;                        // that were tried
  std::vector<int> gathered_;             // the number of the last one that made each value
};
}  // namespace reel::tracing
