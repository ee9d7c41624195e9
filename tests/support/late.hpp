// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <reel/device.hpp>

namespace reel::tests {
/// If the tests run on another device than the CPU, waits for its kernels and throws their errors.
inline void await_errors() {
  if (cuda_available()) synchronize(cuda(0));
}
}  // namespace reel::tests
