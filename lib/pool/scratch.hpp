// SPDX-License-Identifier: BSD-3-Clause
// Memory for the time of one kernel call.
#pragma once
#include <cstddef>

namespace reel {
/// The only exception of a kernel. scratch() throws it if the system has no memory; the caller adds
/// the name of the op.
struct NoScratch {
  std::size_t bytes;
};
}  // namespace reel

namespace reel::kernels {
/// At least this many bytes, aligned to 64; throws NoScratch if the system has none. Each thread
/// has one buffer, and the next call may move it. So a kernel that calls another kernel must ask
/// for the memory of both.
void* scratch(std::size_t bytes);
/// A second buffer, for kernels that call matrix products: products use the first one.
void* lasting_scratch(std::size_t bytes);
}  // namespace reel::kernels
