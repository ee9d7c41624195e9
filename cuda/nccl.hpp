// SPDX-License-Identifier: BSD-3-Clause
// Collectives of ranks that have a GPU each, by NCCL. The plugin opens the library when a program
// first asks for it.
#pragma once
#include "lib/table/engine.hpp"

namespace reel::gpu {
class Gpu;
/// Fills the table, which says the rank and the number of ranks. Messages are in memory of the GPU.
/// They run on the stream of the thread that starts them, so Memory orders them with other work on
/// their buffers. Returns null, or why there is no NCCL, a text that is never freed.
const char* fill_with_nccl(Gpu& gpu, dist::EngineTable& engine);
}  // namespace reel::gpu
