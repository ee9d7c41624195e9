// SPDX-License-Identifier: BSD-3-Clause
// The ways through a function that were captured: they part where C++ asked a value for something
// and got different answers.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "lib/trace/capture.hpp"

namespace reel::tracing {
/// Where a way ends.
struct Ending : std::enable_shared_from_this<Ending> {
  std::vector<int> results;
  std::vector<std::pair<int, int>> assigned;
  std::shared_ptr<KeptResult> result;
  std::atomic<bool> verified = false;  // a replay gave what a run gave
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
  std::size_t ways = 0;

  /// Adds a way. False, with nothing changed, if it leaves a known one although no question was
  /// answered otherwise.
  bool add(const Capture& way);
};
}  // namespace reel::tracing
