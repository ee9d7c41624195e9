// SPDX-License-Identifier: BSD-3-Clause
// Replaces the system calls on files of this program. Each call can fail, do less than was asked,
// or kill the process.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace reel::tests {
struct SystemCalls {
  bool armed = false;
  int until_failure = -1;    // the number of calls that still work; -1: all of them
  int error = 0;             // errno of the call that fails
  bool kills = false;        // kills the process in place of the failure
  bool kills_after = false;  // the kill comes after the call was made
  bool failed = false;
  std::string failed_call{};
  std::size_t most_bytes = 0;  // the most bytes of one write or read; 0: no limit
  std::vector<std::string> made{};
};
extern SystemCalls system_calls;

/// Counts the calls of this thread during its lifetime.
struct Armed {
  Armed() { system_calls.armed = true; }
  ~Armed() { system_calls.armed = false; }
};
}  // namespace reel::tests
