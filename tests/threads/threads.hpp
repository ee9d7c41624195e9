// SPDX-License-Identifier: BSD-3-Clause
// Shared by the tests of threads.
#pragma once
#include <reel/threads.hpp>

namespace reel::tests {
/// Restores the number of threads at its end.
struct KeepThreads {
  int before = num_threads();
  ~KeepThreads() { set_num_threads(before); }
};
}  // namespace reel::tests
