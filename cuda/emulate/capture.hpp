// SPDX-License-Identifier: BSD-3-Clause
// Captures streams into graphs, and launches the graphs.
#pragma once
#include "cuda/emulate/state.hpp"

namespace reel::emulate {
/// One captured operation.
struct Node {
  Work work;
  std::vector<Node*> before;
  std::size_t chain = 0;  // the number of its chain; nodes of one stream form a chain
};

/// Puts the work into the graph that the stream is captured to.
cudaError_t capture_node(cudaStream_t stream, Work work);
/// The error of work on the legacy stream while a blocking stream is captured. Such work would wait
/// for the captured stream. The capture becomes invalid.
cudaError_t implicit_capture_error(const CUstream_st& stream);
/// The error of a call that is not safe while a stream is captured (cudaMalloc, cudaEventQuery).
cudaError_t unsafe_call_error();
/// The error of waiting for a stream that is captured.
cudaError_t wait_while_captured(cudaStream_t stream);

/// Runs one node of a launched graph. False if all nodes had already run.
bool run_node(GraphRun& run, CUstream_st& stream);
}  // namespace reel::emulate
