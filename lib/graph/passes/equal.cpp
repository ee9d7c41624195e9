// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_map>

#include "lib/body/access.hpp"
#include "lib/graph/passes/passes.hpp"

namespace reel::graph {
namespace {
class Join {
 public:
  explicit Join(Graph& graph)
      : graph_(graph), first_(graph.values.size()), before_(graph.segments.size(), -1) {
    for (std::size_t i = 0; i < first_.size(); ++i) first_[i] = number_of_constant(i);
    for (const Segment& segment : graph.segments) {
      const auto keep = [&](int value) {
        if (value >= 0) kept_.push_back(root_of(graph_, value));
      };
      for (const int result : segment.results) keep(given_.emplace_back(result));
      for (const auto& [variable, value] : segment.assigned) keep(given_.emplace_back(value));
      for (const Step& step : segment.steps)
        if (!step.updated.empty())
          for (const int input : step.inputs) keep(input);
    }
    std::sort(kept_.begin(), kept_.end());
    std::sort(given_.begin(), given_.end());
  }

  void run() {
    for (std::size_t number = 0; number < graph_.segments.size(); ++number) {
      Segment& segment = graph_.segments[number];
      for (const Branch& branch : segment.branches)
        before_[static_cast<std::size_t>(branch.segment)] = static_cast<int>(number);
      for (Step& step : segment.steps) {
        for (int& input : step.inputs) replace(input);
        if (is_same_view(step))
          first_[static_cast<std::size_t>(step.outputs[0])] = step.inputs[0];
        else if (!may_join(step) || !join(step, static_cast<int>(number)))
          continue;
        step.op = nullptr;
      }
      for (int& input : segment.question.inputs) replace(input);
    }
    for (Segment& segment : graph_.segments)
      std::erase_if(segment.steps, [](const Step& step) { return !step.op; });
    for (Value& value : graph_.values)
      if (value.kind == Value::Kind::view) replace(value.number);
  }

 private:
  struct Known {
    const Step* step;
    int segment;
  };
  const Value& value(int i) const { return graph_.values[static_cast<std::size_t>(i)]; }
  /// Constants of one element are equal by their bytes; `first_` leads to the first of them.
  int number_of_constant(std::size_t i) {
    const Value& own = graph_.values[i];
    if (own.kind != Value::Kind::constant || own.layout.elements != 1 || !own.constant.defined() ||
        !(own.layout.device == cpu()))
      return static_cast<int>(i);
    const auto bytes = static_cast<std::size_t>(own.layout.bytes());
    std::uint64_t bits = 0;
    std::memcpy(&bits, Access::body(own.constant)->data, bytes);
    const auto [from, end] = constants_.equal_range(bits);
    for (auto known = from; known != end; ++known)
      if (value(known->second).layout == own.layout) return known->second;
    constants_.emplace(bits, static_cast<int>(i));
    return static_cast<int>(i);
  }
  int first_of(int i) const { return i < 0 ? i : first_[static_cast<std::size_t>(i)]; }
  /// A constant stays itself: a tape may follow one of two equal ones.
  void replace(int& i) const {
    if (i >= 0 && value(i).kind != Value::Kind::constant) i = first_of(i);
  }
  /// What a call gives away has memory of its own. What a step writes is never joined.
  bool may_join(const Step& step) const {
    if (step.op == &gradient_op || !step.op->shape || step.user_code || step.loop ||
        step.op->random || !step.updated.empty())
      return false;
    return std::none_of(step.outputs.begin(), step.outputs.end(), [&](int output) {
      return output >= 0 && std::binary_search(kept_.begin(), kept_.end(), root_of(graph_, output));
    });
  }
  /// Whether a step makes a view of all elements that is not given away.
  bool is_same_view(const Step& step) const {
    if (step.outputs.size() != 1 || step.inputs.empty() || step.inputs[0] < 0 ||
        step.outputs[0] < 0 || step.user_code ||
        std::binary_search(given_.begin(), given_.end(), step.outputs[0]))
      return false;
    const Value &made = value(step.outputs[0]), &from = value(step.inputs[0]);
    return made.kind == Value::Kind::view && made.layout == from.layout &&
           made.offset == from.offset && root_of(graph_, step.inputs[0]) == made.number;
  }
  bool leads_to(int segment, int later) const {
    while (later > segment) later = before_[static_cast<std::size_t>(later)];
    return later == segment;
  }
  bool are_equal(const Step& a, const Step& b) const {
    const auto equal_inputs = [&](int x, int y) { return first_of(x) == first_of(y); };
    const auto equal_outputs = [&](int x, int y) {
      return (x < 0) == (y < 0) &&
             (x < 0 || (value(x).layout == value(y).layout && value(x).kind == value(y).kind &&
                        value(x).offset == value(y).offset));
    };
    return a.op == b.op && a.part == b.part && a.options == b.options &&
           std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                      equal_inputs) &&
           std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(),
                      equal_outputs);
  }
  /// Whether the values of a step before this one are read instead.
  bool join(const Step& step, int segment) {
    std::size_t key = std::hash<const void*>()(step.op) + static_cast<std::size_t>(step.part);
    for (const int input : step.inputs)
      key = key * 0x9e3779b97f4a7c15u + static_cast<std::size_t>(first_of(input));
    const auto [from, end] = steps_.equal_range(key);
    const auto known = std::find_if(from, end, [&](const auto& each) {
      return leads_to(each.second.segment, segment) && are_equal(*each.second.step, step);
    });
    if (known == end) {
      steps_.emplace(key, Known{&step, segment});
      return false;
    }
    for (std::size_t i = 0; i < step.outputs.size(); ++i)
      if (step.outputs[i] >= 0)
        first_[static_cast<std::size_t>(step.outputs[i])] = known->second.step->outputs[i];
    return true;
  }

  Graph& graph_;
  std::vector<int> first_;   // the value that is read instead of each value
  std::vector<int> before_;  // the segment that branches to each segment
  std::vector<int> given_;   // results, and what Variables are at an end
  std::vector<int> kept_;    // the roots of given values, and of what updates read
  std::unordered_multimap<std::uint64_t, int> constants_;  // by their bytes
  std::unordered_multimap<std::size_t, Known> steps_;
};
}  // namespace

void join_equal_steps(Graph& graph) { Join(graph).run(); }
}  // namespace reel::graph
