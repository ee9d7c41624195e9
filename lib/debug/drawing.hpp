// SPDX-License-Identifier: BSD-3-Clause
// Graphs in layers, as SVG.
#pragma once
#include <string>
#include <vector>

#include "lib/debug/table.hpp"

namespace reel::debugger {
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  int layer = 0;
};
struct Drawing {
  std::vector<Box> boxes;  // of the nodes
  /// The corners of each edge, from its first node to its last one.
  struct Line {
    int from, to;
    std::vector<std::pair<double, double>> points;
  };
  std::vector<Line> lines;
  double width = 0, height = 0;
};
/// Places nodes in layers, each below its inputs, without loops of calls. Where an edge would cross
/// too many layers, the number of its node stands at its end instead: it becomes one of `labels`.
Drawing layout(const std::vector<DrawnNode>& nodes, std::vector<std::string>& labels);
/// Joins nodes into one with a counter.
std::vector<DrawnNode> folded(std::vector<DrawnNode> nodes, debug::Fold fold);
/// 0 well, 1 dead, 2 saturated, 3 not finite.
int health_of(const debug::Statistics& statistics);
/// Reads the values of the nodes.
void add_health(std::vector<DrawnNode>& nodes);
std::string svg_of(const std::vector<DrawnNode>& nodes);
}  // namespace reel::debugger
