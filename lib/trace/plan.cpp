// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/plan.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/dispatch/pointwise.hpp"
#include "lib/ops/ops.hpp"

namespace reel::tracing {
namespace {
constexpr std::size_t alignment = 64;
constexpr std::size_t most_passes = 256;

/// Ranges of a frame's memory that are free, and where it ends so far.
class FreeRanges {
 public:
  std::size_t take(std::size_t bytes) {
    auto best = ranges_.end();
    for (auto range = ranges_.begin(); range != ranges_.end(); ++range)
      if (range->second >= bytes && (best == ranges_.end() || range->second < best->second))
        best = range;
    if (best == ranges_.end()) {
      const std::size_t offset = end_;
      end_ += bytes;
      return offset;
    }
    const std::size_t offset = best->first;
    best->first += bytes;
    best->second -= bytes;
    if (!best->second) ranges_.erase(best);
    return offset;
  }
  void give(std::size_t offset, std::size_t bytes) {
    auto after = std::lower_bound(ranges_.begin(), ranges_.end(), std::pair(offset, bytes));
    after = ranges_.insert(after, {offset, bytes});
    if (after + 1 != ranges_.end() && offset + bytes == after[1].first) {
      after->second += after[1].second;
      ranges_.erase(after + 1);
    }
    if (after != ranges_.begin() && after[-1].first + after[-1].second == offset) {
      after[-1].second += after->second;
      ranges_.erase(after);
    }
  }
  std::size_t end() const { return end_; }

 private:
  std::vector<std::pair<std::size_t, std::size_t>> ranges_;  // offset and bytes, in order
  std::size_t end_ = 0;
};

class Planner {
 public:
  explicit Planner(Plan& plan)
      : plan_(plan), tree_(plan.tree), uses_(tree_.values.size()), rank_(tree_.segments.size()) {}

  void run() {
    plan_.places.resize(tree_.values.size());
    plan_.segments.resize(tree_.segments.size());
    order_segments();
    find_places();
    find_uses();
    plan_.variable_values.assign(tree_.variables.size(), -1);
    for (std::size_t i = 0; i < tree_.values.size(); ++i) {
      const Value& value = tree_.values[i];
      const auto number = static_cast<std::size_t>(value.number);
      if (value.kind == Value::Kind::variable) plan_.variable_values[number] = static_cast<int>(i);
      if (value.kind != Value::Kind::argument) continue;
      if (plan_.argument_values.size() <= number) plan_.argument_values.resize(number + 1, -1);
      plan_.argument_values[number] = static_cast<int>(i);
    }
    std::vector<State> states(tree_.segments.size());
    for (const int segment : order_) {
      State& state = states[static_cast<std::size_t>(segment)];
      plan_segment(segment, state);
      for (const Branch& branch : tree_.segments[static_cast<std::size_t>(segment)].branches)
        states[static_cast<std::size_t>(branch.segment)] = state;
      state = {};
    }
  }

 private:
  struct State {
    FreeRanges free;
    std::vector<int> live;  // values in scratch memory
  };
  struct Use {
    int segment;  // its rank
    int step;
    friend auto operator<=>(const Use&, const Use&) = default;
  };
  static constexpr int at_end = 1 << 30;

  /// The value whose elements this one views, or itself.
  int root(int value) const {
    const Value& v = tree_.values[static_cast<std::size_t>(value)];
    return v.kind == Value::Kind::view ? v.number : value;
  }
  const Value& value(int i) const { return tree_.values[static_cast<std::size_t>(i)]; }
  Place& place(int i) { return plan_.places[static_cast<std::size_t>(i)]; }

  /// Segments so that what follows one stands behind it in one piece: ranks first to last.
  void order_segments() {
    std::vector<int> waiting{0};
    while (!waiting.empty()) {
      const int segment = waiting.back();
      waiting.pop_back();
      rank_[static_cast<std::size_t>(segment)] = {static_cast<int>(order_.size()), 0};
      order_.push_back(segment);
      for (const Branch& branch : tree_.segments[static_cast<std::size_t>(segment)].branches)
        waiting.push_back(branch.segment);
    }
    for (auto i = order_.rbegin(); i != order_.rend(); ++i) {
      auto& [first, last] = rank_[static_cast<std::size_t>(*i)];
      last = first;
      for (const Branch& branch : tree_.segments[static_cast<std::size_t>(*i)].branches)
        last = std::max(last, rank_[static_cast<std::size_t>(branch.segment)].second);
    }
  }

  void find_places() {
    for (std::size_t i = 0; i < tree_.values.size(); ++i)
      if (tree_.values[i].kind == Value::Kind::computed)
        place(static_cast<int>(i)).kind = Place::Kind::scratch;
    for (const Segment& segment : tree_.segments) {
      for (const Step& step : segment.steps)
        if (!step.updated.empty() || step.op->composite)
          for (const int output : step.outputs)
            place(output).kind = step.updated.empty() ? Place::Kind::given : Place::Kind::variable;
      if (!segment.ending) continue;
      for (const int result : segment.ending->results)
        if (result >= 0 && place(root(result)).kind == Place::Kind::scratch)
          place(root(result)).kind = Place::Kind::fresh;
    }
  }

  void find_uses() {
    for (const int i : order_) {
      const Segment& segment = tree_.segments[static_cast<std::size_t>(i)];
      const int rank = rank_[static_cast<std::size_t>(i)].first;
      const auto use = [&](int value, int step) {
        if (value >= 0) uses_[static_cast<std::size_t>(root(value))].push_back({rank, step});
      };
      int step = 0;
      for (const Step& s : segment.steps) {
        for (const int input : s.inputs) use(input, step);
        ++step;
      }
      if (!segment.branches.empty()) use(segment.question.inputs[0], at_end);
      if (!segment.ending) continue;
      for (const int result : segment.ending->results) use(result, at_end);
    }
  }

  /// Whether a value is read after this step of this segment, or in what follows it.
  bool used_after(int value, int segment, int step) const {
    const auto& uses = uses_[static_cast<std::size_t>(value)];
    const auto [first, last] = rank_[static_cast<std::size_t>(segment)];
    const auto next = std::upper_bound(uses.begin(), uses.end(), Use{first, step});
    return next != uses.end() && next->segment <= last;
  }

  static std::size_t bytes_of(const Value& value) {
    const auto bytes = static_cast<std::size_t>(value.layout.bytes());
    return std::max((bytes + alignment - 1) / alignment * alignment, alignment);
  }

  void release_dead(State& state, int segment, int step) {
    std::erase_if(state.live, [&](int v) {
      if (used_after(v, segment, step)) return false;
      state.free.give(place(v).offset, bytes_of(value(v)));
      return true;
    });
  }

  void plan_segment(int number, State& state) {
    const Segment& segment = tree_.segments[static_cast<std::size_t>(number)];
    Plan::PlannedSegment& planned = plan_.segments[static_cast<std::size_t>(number)];
    release_dead(state, number, -1);
    planned.first = static_cast<unsigned>(plan_.instructions.size());
    for (std::size_t i = 0; i < segment.steps.size(); ++i) {
      const Step& step = segment.steps[i];
      if (const std::size_t end = end_of_blocks(segment, i)) {
        plan_blocks(number, static_cast<int>(i), static_cast<int>(end), state);
        i = end - 1;
      } else if (!is_view(step)) {
        for (const int output : step.outputs)
          if (output >= 0) put(output, step, number, static_cast<int>(i), state);
        add_instruction(step, number, static_cast<int>(i));
      } else {
        add_view(step.outputs[0]);
      }
      release_dead(state, number, static_cast<int>(i));
    }
    planned.end = static_cast<unsigned>(plan_.instructions.size());
    bool settled = segment.ending != nullptr;
    for (unsigned i = planned.end; i-- > planned.first;) {
      Instruction& instruction = plan_.instructions[i];
      instruction.settled = settled;
      settled &= !can_fail(instruction);
    }
    planned.ending = segment.ending;
    planned.branches = segment.branches;
    if (segment.branches.empty()) return;
    planned.asked = segment.question.inputs[0];
    planned.read = segment.question.read;
  }

  /// Where the passes over values of one size end that begin at step i, with views among them;
  /// 0 where they are too few, or too short to be worth it.
  std::size_t end_of_blocks(const Segment& segment, std::size_t i) const {
    std::vector<int> made;
    std::int64_t elements = 0;
    std::size_t end = i;
    for (; i < segment.steps.size() && made.size() < most_passes; ++i) {
      const Step& step = segment.steps[i];
      if (is_view(step)) {
        if (std::count(made.begin(), made.end(), root(step.outputs[0]))) break;
        continue;
      }
      if (!tile_of(step)) break;
      const std::int64_t own = value(step.outputs[0]).layout.elements;
      if (own < 2 * block_elements || (!made.empty() && own != elements)) break;
      elements = own;
      made.push_back(step.outputs[0]);
      end = i + 1;
    }
    return made.size() > 1 ? end : 0;
  }

  /// Passes that run together, block by block: what only they read lies in a buffer of blocks.
  /// Nothing that lives outside it is given up between them, as each block starts anew.
  void plan_blocks(int number, int first, int end, State& state) {
    const Segment& segment = tree_.segments[static_cast<std::size_t>(number)];
    const auto step_at = [&](int i) -> const Step& {
      return segment.steps[static_cast<std::size_t>(i)];
    };
    FreeRanges buffer;
    std::vector<int> live;
    unsigned passes = 0;
    for (int i = first; i < end; ++i) {
      const Step& step = step_at(i);
      const int output = step.outputs[0];
      if (is_view(step)) {
        add_view(output);
        continue;
      }
      ++passes;
      if (place(output).kind == Place::Kind::scratch && !used_after(output, number, end - 1))
        place(output).kind = Place::Kind::block;
      if (place(output).kind != Place::Kind::block) {
        put(output, step, number, i, state);
        continue;
      }
      if (const auto taken = take_over(output, step, number, i, live)) {
        place(output).offset = *taken;
      } else {
        place(output).offset = buffer.take(block_bytes(output));
        live.push_back(output);
      }
      std::erase_if(live, [&](int v) {
        if (used_after(v, number, i)) return false;
        buffer.give(place(v).offset, block_bytes(v));
        return true;
      });
    }
    Instruction blocks{.kind = Instruction::Kind::blocks};
    blocks.input_count = passes;
    blocks.output_count = static_cast<unsigned>(buffer.end());
    blocks.elements = value(step_at(end - 1).outputs[0]).layout.elements;
    plan_.instructions.push_back(blocks);
    for (int i = first; i < end; ++i)
      if (!is_view(step_at(i))) add_instruction(step_at(i), number, i);
  }
  std::size_t block_bytes(int v) const {
    return static_cast<std::size_t>(block_elements * size_of(value(v).layout.dtype));
  }

  /// The offset of an input of a pass that dies with it, which the output may have.
  std::optional<std::size_t> take_over(int output, const Step& step, int segment, int at,
                                       std::vector<int>& live) {
    if (!tile_of(step)) return std::nullopt;
    for (const int input : step.inputs) {
      const auto found = std::find(live.begin(), live.end(), input);
      if (found == live.end() || used_after(input, segment, at) ||
          value(input).layout.bytes() != value(output).layout.bytes() ||
          value(input).layout.elements != value(output).layout.elements)
        continue;
      *found = output;
      return place(input).offset;
    }
    return std::nullopt;
  }

  /// Opaque kernels may look at values. So may updates, at rates; their errors need no run.
  static bool can_fail(const Instruction& instruction) {
    return instruction.kind == Instruction::Kind::user ||
           ((instruction.kind == Instruction::Kind::kernel ||
             instruction.kind == Instruction::Kind::call) &&
            instruction.op->fusion == Fusion::opaque);
  }

  bool is_view(const Step& step) const {
    return step.outputs.size() == 1 && value(step.outputs[0]).kind == Value::Kind::view;
  }

  void add_view(int output) {
    if (place(root(output)).kind == Place::Kind::scratch ||
        value(root(output)).kind == Value::Kind::constant)
      return;
    Instruction view{.kind = Instruction::Kind::view, .output_count = 1};
    view.first = static_cast<unsigned>(plan_.operands.size());
    plan_.operands.push_back(output);
    plan_.instructions.push_back(view);
  }

  /// Finds memory for an output: that of an input which dies here, if a pass may overwrite it.
  void put(int output, const Step& step, int segment, int at, State& state) {
    Place& here = place(output);
    if (here.kind == Place::Kind::fresh) {
      Instruction make{.kind = Instruction::Kind::allocate, .output_count = 1};
      make.first = static_cast<unsigned>(plan_.operands.size());
      plan_.operands.push_back(output);
      plan_.instructions.push_back(make);
    }
    if (here.kind != Place::Kind::scratch) return;
    if (const auto taken = take_over(output, step, segment, at, state.live)) {
      here.offset = *taken;
      return;
    }
    here.offset = state.free.take(bytes_of(value(output)));
    plan_.scratch_bytes = std::max(plan_.scratch_bytes, state.free.end());
    state.live.push_back(output);
  }

  /// The pass that does all of the step, if one does.
  Tile tile_of(const Step& step) const {
    const Op& op = *step.op;
    if (!op.tiles || op.composite || step.part == Part::gradients) return nullptr;
    const Layout& output = value(step.outputs[0]).layout;
    if (step.part != Part::value)
      return op.tiles->gradient[step.part == Part::gradient_1][static_cast<int>(output.dtype)];
    for (const int input : step.inputs) {
      const Layout& x = value(input).layout;
      if (x.elements != 1 && !(x.contiguous && x.shape == output.shape)) return nullptr;
    }
    const int typed = step.inputs[op.promoted & 1 ? 0 : 1];
    return op.tiles->value[static_cast<int>(value(typed).layout.dtype)];
  }

  void add_instruction(const Step& step, int segment, int at) {
    Instruction made{.kind = Instruction::Kind::call};
    made.op = step.op;
    made.options = step.options.view();
    made.site = step.site;
    made.input_count = static_cast<unsigned>(step.inputs.size());
    made.output_count = static_cast<unsigned>(step.outputs.size());
    plan_.most_operands = std::max(plan_.most_operands, step.inputs.size() + step.outputs.size());
    made.first = static_cast<unsigned>(plan_.operands.size());
    plan_.operands.insert(plan_.operands.end(), step.inputs.begin(), step.inputs.end());
    plan_.operands.insert(plan_.operands.end(), step.outputs.begin(), step.outputs.end());
    plan_.operands.insert(plan_.operands.end(), step.updated.begin(), step.updated.end());
    if (step.op == &random_op) {
      made.kind = Instruction::Kind::random;
    } else if (!step.updated.empty()) {
      made.kind = Instruction::Kind::update;
      for (std::size_t i = 0; i < step.updated.size(); ++i)
        if (replaces(step, i, segment, at)) made.how |= 1u << i;
    } else if (step.op->composite) {
      made.kind = Instruction::Kind::user;
    } else if (step.part == Part::gradients) {
      made.kind = Instruction::Kind::kernel;
      made.kernel = step.op->cpu_gradient;
    } else if (const Tile tile = tile_of(step)) {
      made.kind = Instruction::Kind::pass;
      made.tile = tile;
      made.elements = value(step.outputs[0]).layout.elements;
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        if (step.inputs[i] >= 0 && is_scalar(value(step.inputs[i]).layout, step))
          made.how |= 1u << i;
    } else if (!step.op->tiles && !(step.op->contiguous_inputs && any_strided(step))) {
      made.kind = Instruction::Kind::kernel;
      made.kernel = step.op->cpu;
    }
    plan_.instructions.push_back(made);
  }

  /// Whether a pass takes one number for all.
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
    if (used_after(before, segment, at)) return false;
    for (std::size_t k = 0; k < step.inputs.size(); ++k)
      if (k != i && step.inputs[k] >= 0 && root(step.inputs[k]) == before) return false;
    return true;
  }

  Plan& plan_;
  const Tree& tree_;
  std::vector<std::vector<Use>> uses_;     // of roots, in order
  std::vector<std::pair<int, int>> rank_;  // of each segment, and the last of what follows it
  std::vector<int> order_;
};
}  // namespace

Plan::Plan(const Tree& t) : tree(t) { Planner(*this).run(); }
}  // namespace reel::tracing
