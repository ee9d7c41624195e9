// SPDX-License-Identifier: BSD-3-Clause
// The system calls on files that this program makes, one by one: each can fail, do less than was
// asked, or be the last that the process makes.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace reel::tests {
struct SystemCalls {
  bool armed = false;
  int until_failure = -1;    // calls that still work; -1: all of them
  int error = 0;             // errno of the one that fails
  bool kills = false;        // it kills the process instead
  bool kills_after = false;  // after the call was made
  bool failed = false;
  std::string failed_call{};
  std::size_t most_bytes = 0;  // of a write or read; 0: as many as asked
  std::vector<std::string> made{};
};
extern SystemCalls system_calls;

/// Counts calls of this thread while it lives.
struct Armed {
  Armed() { system_calls.armed = true; }
  ~Armed() { system_calls.armed = false; }
};
}  // namespace reel::tests
