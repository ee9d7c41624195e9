// SPDX-License-Identifier: BSD-3-Clause
// What the tests of threads share.
#pragma once
#include <reel/threads.hpp>

namespace reel::tests {
/// Sets the number of threads back at its end.
struct KeepThreads {
  int before = num_threads();
  ~KeepThreads() { set_num_threads(before); }
};
}  // namespace reel::tests
