// SPDX-License-Identifier: BSD-3-Clause
#include "lib/graph/passes/passes.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace reel::graph {
namespace {
bool is_update(const Step& step) { return !step.updated.empty(); }
/// Whether the kernel of a step may find a wrong value.
bool can_fail(const Graph& graph, const Step& step) {
  if (is_update(step) || draws(step) || step.op->fusion != Fusion::opaque) return false;
  const int made = step.outputs.size() == 1 ? step.outputs[0] : -1;
  return made < 0 || graph.values[static_cast<std::size_t>(made)].kind != Value::Kind::view;
}

class Order {
 public:
  Order(const Graph& graph, std::vector<Step>& steps)
      : graph_(graph), steps_(steps), needed_(graph.values.size()), moves_(steps.size()) {}

  void run() {
    const std::size_t first = first_update(first_step());
    if (std::count(moves_.begin() + static_cast<std::ptrdiff_t>(first), moves_.end(), true) == 0)
      return;
    std::vector<Step> moved, rest;
    for (std::size_t i = first; i < steps_.size(); ++i)
      (moves_[i] ? moved : rest).push_back(std::move(steps_[i]));
    const auto next =
        std::move(moved.begin(), moved.end(), steps_.begin() + static_cast<std::ptrdiff_t>(first));
    std::move(rest.begin(), rest.end(), next);
  }

 private:
  /// Finds the steps to move, from the last one on. Returns the first step of those that may
  /// change places.
  std::size_t first_step() {
    bool draws_needed = false;
    for (std::size_t i = steps_.size(); i-- > 0;) {
      const Step& step = steps_[i];
      // Random numbers have positions in the order of their steps.
      const bool wanted = is_needed(step) || (draws(step) && draws_needed);
      if (step.user_code || step.loop || (is_update(step) && wanted)) return i + 1;
      if (is_update(step)) {  // its numbers are the last inputs
        need({step.inputs.end() - step.op->numbers, step.inputs.end()});
      } else if (wanted || can_fail(graph_, step)) {
        moves_[i] = true;
        draws_needed |= draws(step);
        need(step.inputs);
      }
    }
    return 0;
  }
  std::size_t first_update(std::size_t i) const {
    while (i < steps_.size() && !is_update(steps_[i])) ++i;
    return i;
  }
  bool is_needed(const Step& step) const {
    return std::any_of(step.outputs.begin(), step.outputs.end(), [&](int output) {
      return output >= 0 && needed_[static_cast<std::size_t>(output)];
    });
  }
  void need(std::span<const int> values) {
    for (const int value : values)
      if (value >= 0) needed_[static_cast<std::size_t>(value)] = true;
  }

  const Graph& graph_;
  std::vector<Step>& steps_;
  std::vector<bool> needed_;  // the values that moved steps read, and the numbers of updates
  std::vector<bool> moves_;   // the steps that are moved, if an update is in front of them
};
}  // namespace

void put_updates_last(Graph& graph) {
  for (Segment& segment : graph.segments) {
    if (!segment.ends) continue;
    auto& steps = segment.steps;
    const auto gradient = std::find_if(steps.begin(), steps.end(),
                                       [](const Step& step) { return step.op == &gradient_op; });
    std::vector<Step> rest(std::make_move_iterator(gradient), std::make_move_iterator(steps.end()));
    steps.erase(gradient, steps.end());
    Order(graph, steps).run();
    std::move(rest.begin(), rest.end(), std::back_inserter(steps));
  }
}
}  // namespace reel::graph
