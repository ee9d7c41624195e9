// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "lib/graph/passes/passes.hpp"

namespace reel::graph {
bool assigns_whole(const Graph& graph, const Step& step) {
  if (step.updated.empty() || !step.op->replaces) return false;
  const Value& value = graph.values[static_cast<std::size_t>(step.inputs[1])];
  return value.kind == Value::Kind::computed &&
         value.layout == graph.values[static_cast<std::size_t>(step.inputs[0])].layout;
}

void put_assignments_last(Graph& graph) {
  for (Segment& segment : graph.segments)
    for (auto next = segment.steps.rbegin(); next != segment.steps.rend();) {
      const auto step = next++;
      if (!assigns_whole(graph, *step)) continue;
      const int variable = step->updated[0], assigned = step->outputs[0], source = step->inputs[1];
      const auto views = [&](int v) {
        const Value& value = graph.values[static_cast<std::size_t>(std::max(v, 0))];
        return value.kind == Value::Kind::view && value.number == assigned;
      };
      const auto first = step.base();
      auto end = std::find_if(first, segment.steps.end(), [&](const Step& later) {
        return later.user_code || later.op == &gradient_op ||
               std::any_of(later.outputs.begin(), later.outputs.end(), views) ||
               std::count(later.updated.begin(), later.updated.end(), variable);
      });
      for (auto later = first; later != end; ++later)
        std::replace(later->inputs.begin(), later->inputs.end(), assigned, source);
      while (end != first && assigns_whole(graph, end[-1])) --end;  // these keep their order
      std::rotate(first - 1, first, end);
    }
}
}  // namespace reel::graph
