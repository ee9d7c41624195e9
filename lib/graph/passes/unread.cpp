// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "lib/graph/passes/passes.hpp"

namespace reel::graph {
namespace {
class Reads {
 public:
  explicit Reads(const Graph& graph) : graph_(graph), read_(graph.values.size()) {}

  void note(const Segment& segment) {
    for (const int input : segment.question.inputs) note(input);
    for (const int result : segment.results) note(result);
    for (const auto& [variable, value] : segment.assigned) note(value);
  }
  void note(const Step& step) {
    for (const int input : step.inputs) note(input);
  }
  bool needs(const Step& step) const {
    const bool may_throw = step.op->fusion == Fusion::opaque && !step.op->takes_all_values;
    const bool is_view = step.outputs.size() == 1 && step.outputs[0] >= 0 &&
                         root_of(graph_, step.outputs[0]) != step.outputs[0];
    if (step.op == &gradient_op || step.user_code || step.loop || step.op->random ||
        !step.updated.empty() || (may_throw && !is_view))
      return true;
    return std::any_of(step.outputs.begin(), step.outputs.end(), [&](int output) {
      return output >= 0 && read_[static_cast<std::size_t>(output)];
    });
  }

 private:
  void note(int value) {
    if (value < 0) return;
    read_[static_cast<std::size_t>(value)] = true;
    read_[static_cast<std::size_t>(root_of(graph_, value))] = true;
  }
  const Graph& graph_;
  std::vector<char> read_;  // values that a later step or a result reads
};
}  // namespace

void drop_unread_steps(Graph& graph) {
  Reads reads(graph);
  // A segment comes behind the one that branches to it.
  for (auto segment = graph.segments.rbegin(); segment != graph.segments.rend(); ++segment) {
    reads.note(*segment);
    std::vector<Step> kept;
    for (auto step = segment->steps.rbegin(); step != segment->steps.rend(); ++step)
      if (reads.needs(*step)) {
        reads.note(*step);
        kept.push_back(std::move(*step));
      }
    segment->steps.assign(std::make_move_iterator(kept.rbegin()),
                          std::make_move_iterator(kept.rend()));
  }
}
}  // namespace reel::graph
