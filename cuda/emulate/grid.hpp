// SPDX-License-Identifier: BSD-3-Clause
// Runs the blocks of one launch one after the other, in random order. The threads of a block are
// fibers. Between barriers they run in random order.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "cuda/emulate/context.hpp"
#include "cuda/emulate/threads.hpp"

namespace reel::emulate {
struct Launch {
  const void* kernel = nullptr;
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  std::function<void()> body;  // one thread's work
};

/// The fibers of one stream. Streams do not share fibers: a shared identity would order their work.
class Team {
 public:
  /// Returns `count` fibers, different from the last ones if possible. So the same thread of two
  /// blocks has different identities.
  std::vector<Fiber*> pick(std::size_t count);

 private:
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::size_t next_ = 0;
};

/// Runs the launch with the identity of `stream`: after the stream's earlier work and before its
/// later work. Returns the error of stop_kernel, which also stops the other threads of the grid.
cudaError_t run_grid(const Launch& launch, Team& team, Identity stream);
/// Runs a function on one fiber as run_grid() runs a launch, for example for cudaLaunchHostFunc.
void run_alone(const std::function<void()>& body, Team& team, Identity stream);

/// in_kernel(): whether the emulator runs a kernel now. explain_thread(): adds lines about the
/// current CUDA thread to a report.
bool in_kernel();
void explain_thread();
}  // namespace reel::emulate
