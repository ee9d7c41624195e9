// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <cstdlib>

namespace reel::tests {
/// Whether tests of a device take fewer samples and smaller tensors: with REEL_TEST_SHORT=1, as
/// under a sanitizer.
inline bool is_short() {
  static const bool one = std::getenv("REEL_TEST_SHORT") != nullptr;
  return one;
}
}  // namespace reel::tests
