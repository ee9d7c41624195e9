// SPDX-License-Identifier: BSD-3-Clause
// The captured paths through a function. Two paths part where C++ asked a value for something and
// got different answers.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/trace/capture.hpp"
#include "lib/trace/captured.hpp"

namespace reel::tracing {
/// The end of a path, at the end of a segment.
struct Ending : std::enable_shared_from_this<Ending> {
  std::size_t segment;
  std::shared_ptr<KeptResult> result;
  /// The number of replays up to the next one that is checked; 0 if none is.
  std::atomic<std::uint32_t> until_check = 1;
  std::atomic<int> checks = 0;               // checks that found no difference
  std::atomic<std::uint64_t> last_good = 0;  // the last call that was captured or checked
  CapturedWatch captured;
  /// Whether the path was made from those of two other signatures, and no run has checked it yet.
  std::atomic<bool> derived = false;
  std::vector<detail::TapedSource> sources;  // of a gradient, whose results are the last ones
};

/// A difference between a run and the trace.
struct Difference {
  std::string what, before, now;
  bool is_chance = false;  // it depends on values, and says nothing about the trace
  explicit operator bool() const { return !what.empty(); }
};

/// Where a path went.
struct Walked {
  int segment = 0;  // where it ends
};

/// A graph, the Variables that its values name by number, and the ends of its paths.
struct Tree : graph::Graph {
  std::vector<Variable> variables;
  std::vector<std::shared_ptr<Ending>> endings;  // of each segment; null where no path ends
  std::size_t paths = 0;
  std::size_t loop_paths = 0;  // paths of trips that were added to the steps of loops

  /// Adds a path. If it leaves a known path although all answers are equal, nothing is added, and
  /// the result says where it leaves.
  Difference add(const Capture& path) { return add(path, nullptr); }
  /// Adds the path of a trip of a loop, where the results must be equal too.
  Difference add(const Capture& path, Walked* walked);
  /// What add() may have made more.
  std::size_t path_count() const { return paths + loop_paths; }
  /// The end of the newest path.
  const std::shared_ptr<Ending>& ending() const { return endings.back(); }
};

/// Compares constants of the same layout.
bool same_elements(const Tensor& a, const Tensor& b);
using graph::element_text;
}  // namespace reel::tracing
