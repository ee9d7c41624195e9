// SPDX-License-Identifier: BSD-3-Clause
// Tests of the CUDA backend on the emulator.
#pragma once
#include "cuda/emulate/control.hpp"
#include "support/catch.hpp"

namespace reel::tests {
/// Counts the runtime calls of f(), after a first call of f() that may allocate.
template <class F>
emulate::Counts counts_of(const F& f) {
  f();
  f();
  emulate::reset_counts();
  f();
  return emulate::counts();
}
}  // namespace reel::tests
