// SPDX-License-Identifier: BSD-3-Clause
// Passes change a graph before it is planned. A pass keeps the bits of all results and of all
// Variables, the order of updates and of random numbers, and the errors that a step may throw. Run
// a second time, it changes nothing.
#pragma once
#include <span>
#include <string_view>

#include "lib/graph/graph.hpp"

namespace reel::graph {
/// Drops steps that make only values that nothing reads. Steps stay that may throw, that write a
/// Variable, that draw random numbers, and that are loops or run user code.
void drop_unread_steps(Graph& graph);

/// Where two steps on one path are the same op with the same options and inputs, what the second
/// one makes is read from the first one. A view of all elements is read from what it views.
void join_equal_steps(Graph& graph);

/// Moves each assignment of a whole value behind the steps that follow it, up to the next update of
/// its Variable, or up to user code. These steps read the assigned value instead of the Variable,
/// so steps before and after the assignment can run together.
void put_assignments_last(Graph& graph);

/// An update may write in place if nothing after it can fail. At the end of each path this moves
/// the steps that can fail in front of the updates, with the steps that make the numbers of
/// updates, and all that these steps need. It moves nothing over an update whose result it needs,
/// or over user code, which may read Variables.
void put_updates_last(Graph& graph);

struct GraphPass {
  std::string_view name;
  void (*run)(Graph& graph);
};
/// All passes, in the order in which they run.
std::span<const GraphPass> all_passes();

/// Whether an update replaces its Variable by a value that has the same layout.
bool assigns_whole(const Graph& graph, const Step& step);
/// The value whose elements this one views, or itself.
inline int root_of(const Graph& graph, int value) {
  const Value& v = graph.values[static_cast<std::size_t>(value)];
  return v.kind == Value::Kind::view ? v.number : value;
}
}  // namespace reel::graph
