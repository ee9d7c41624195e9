// SPDX-License-Identifier: BSD-3-Clause
// Memory for the length of one kernel call.
#pragma once
#include <cstddef>

namespace reel {
/// All that a kernel throws, out of scratch(): the system has no memory. The caller names the op.
struct NoScratch {
  std::size_t bytes;
};
}  // namespace reel

namespace reel::kernels {
/// At least this many bytes, aligned to 64; throws NoScratch if the system has none. One buffer for
/// a thread: the next call may move it, so a kernel that calls another asks for all it needs
/// itself.
void* scratch(std::size_t bytes);
/// Another buffer, for kernels that are made of products, which use the first.
void* lasting_scratch(std::size_t bytes);
}  // namespace reel::kernels
