// SPDX-License-Identifier: BSD-3-Clause
// Tests of the CUDA backend on the emulator.
#pragma once
#include <reel/reel.hpp>

#include "cuda/emulate/control.hpp"
#include "support/catch.hpp"

namespace reel::tests {
/// Whether the plugin was built with the header of cuDNN. The emulator has its functions then.
#ifdef REEL_CUDNN
inline constexpr bool with_cudnn = true;
#else
inline constexpr bool with_cudnn = false;
#endif
/// Counts the runtime calls of f(), after a first call of f() that may allocate.
template <class F>
emulate::Counts counts_of(const F& f) {
  f();
  f();
  emulate::reset_counts();
  f();
  return emulate::counts();
}
/// Whether the kernels of the plugin count the bytes that they read and write. Kernels that
/// are compiled for a sanitizer do not.
inline bool counts_bytes() {
  emulate::reset_counts();
  const Tensor x = ones({100}).to(cuda(0));
  x + x;
  synchronize(cuda(0));
  return emulate::counts().written_bytes > 0;
}
}  // namespace reel::tests
