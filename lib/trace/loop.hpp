// SPDX-License-Identifier: BSD-3-Clause
// A loop as one step of a trace: the paths that its trips have taken, merged into a tree.
#pragma once
#include <vector>

#include "lib/trace/tree.hpp"

namespace reel::tracing {
/// One path of a trip. The arguments of its capture are the state, the rows, the values that a
/// gradient reads of the trip of its loop, and what else the trip reads; the results are the next
/// state, what the trip makes, and the values that a gradient reads.
struct LoopPath {
  Capture capture;
  bool stops = false;
  std::size_t kept = 0;  // arguments of a gradient, results of another loop
};

struct Loop : graph::Loop {
  Tree tree;                // of a loop that is no gradient
  std::vector<char> stops;  // for each segment of the tree, whether its end ends the loop
  /// Of a gradient: a tree for each segment where a trip of the other loop ends.
  struct GradientBody {
    int segment;
    std::size_t kept;
    Tree tree;
  };
  std::vector<GradientBody> gradient_bodies;
  std::vector<LoopPath> paths;  // the first of each kind
  std::vector<int> segments;    // where they end, in this tree or, of a gradient, in the other one

  std::vector<const graph::Graph*> bodies() const override;
  bool stops_at(std::size_t segment) const override {
    return segment < stops.size() && stops[segment];
  }
  /// The segment of the tree where a path ends; -1 if it differs from a known one other than by an
  /// answer. For a gradient, `of` is the segment where the trip of the other loop ends.
  int add(const LoopPath& path, int of = -1);
};

inline const Loop& loop_of(const graph::Step& step) { return static_cast<const Loop&>(*step.loop); }
/// The path with other numbers of what else it reads: `places[i]` for number i.
LoopPath renumbered(LoopPath path, const Loop& loop, const std::vector<int>& places);
}  // namespace reel::tracing
