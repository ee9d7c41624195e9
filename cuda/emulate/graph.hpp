// SPDX-License-Identifier: BSD-3-Clause
// Graphs: captured, executable and running ones.
#pragma once
#include "cuda/emulate/capture.hpp"

struct CUgraph_st {
  std::vector<std::unique_ptr<reel::emulate::Node>> nodes;
  std::size_t chains = 0;
  std::vector<reel::emulate::MemoryBlock*> blocks;  // allocated and not freed by its nodes
  int device = 0;
};

namespace reel::emulate {
struct Capture {
  std::unique_ptr<CUgraph_st> graph;
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  std::vector<cudaStream_t> streams;
  std::uint64_t number = 0;
  bool invalid = false;
};

/// An executable graph. It exists until its last launch has run.
struct GraphBody {
  struct Step {
    Work work;
    std::vector<std::size_t> before;
    std::size_t chain;
  };
  std::vector<Step> steps;
  std::vector<std::unique_ptr<Lane>> lanes;  // one for each chain
  std::vector<MemoryBlock*> blocks;
  int device = 0;
  GraphRun* running = nullptr;  // launches of one executable graph run in order
};

struct GraphRun {
  std::shared_ptr<GraphBody> body;
  std::vector<char> done;
  std::vector<Clock> clocks;  // one for each step
  Clock start;
  std::size_t left = 0;
  bool begun = false;
};

// Records and waits of events on captured streams.
cudaError_t record_in_capture(cudaEvent_t event, cudaStream_t stream);
cudaError_t wait_in_capture(cudaStream_t stream, cudaEvent_t event);
bool is_captured(const CUevent_st& event);
}  // namespace reel::emulate

struct CUgraphExec_st {
  std::shared_ptr<reel::emulate::GraphBody> body;
};
