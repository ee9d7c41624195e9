// SPDX-License-Identifier: BSD-3-Clause
// The paths through a function that were captured: they part where C++ asked a value for something
// and got different answers.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/trace/capture.hpp"
#include "lib/trace/captured.hpp"

namespace reel::tracing {
/// Where a path ends.
struct Ending : std::enable_shared_from_this<Ending> {
  std::vector<int> results;
  std::vector<std::pair<int, int>> assigned;
  std::shared_ptr<KeptResult> result;
  /// Replays up to the next one that runs beside the function; 0 if none does.
  std::atomic<std::uint32_t> until_check = 1;
  std::atomic<int> checks = 0;               // that found no difference
  std::atomic<std::uint64_t> last_good = 0;  // the call that was captured or checked last
  CapturedWatch captured;
};

/// What a run found otherwise than the trace has it.
struct Difference {
  std::string what, before, now;
  explicit operator bool() const { return !what.empty(); }
};

struct Branch {
  std::string answer;
  int segment;
};

/// Steps without a question among them; then a question, whose answer names the next segment, or
/// the end.
struct Segment {
  std::vector<Step> steps;
  Step question;  // if there are branches
  std::vector<Branch> branches;
  std::shared_ptr<Ending> ending;
};

struct Tree {
  std::vector<Value> values;
  std::vector<Variable> variables;
  std::vector<Segment> segments;
  std::size_t paths = 0;

  /// Adds a path. If it leaves a known one although no question was answered otherwise, nothing is
  /// changed, and where it does is the result.
  Difference add(const Capture& path);
  /// The newest.
  std::shared_ptr<Ending> ending() const { return segments.back().ending; }
};

/// "multiply at train.cpp:12"
std::string place_of(const Step& step);
/// An element, with as few digits as name it.
std::string element_text(const Body& x, std::int64_t i);
}  // namespace reel::tracing
