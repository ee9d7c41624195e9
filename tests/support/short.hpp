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
/// How many random problems a test tries. A setup may ask for fewer, as the CUDA emulator is slow:
/// REEL_TEST_COUNT=20.
inline int at_most_asked(int usual) {
  const char* const asked = std::getenv("REEL_TEST_COUNT");
  const int most = asked ? std::atoi(asked) : usual;
  return most < usual ? most : usual;
}
}  // namespace reel::tests
