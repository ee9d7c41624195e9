// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/capture.hpp"

#include <algorithm>
#include <utility>

#include "cuda/emulate/graph.hpp"
#include "cuda/emulate/queue.hpp"

namespace reel::emulate {
namespace {
bool lives(const Capture* capture) {
  const auto& all = state().captures;
  return std::any_of(all.begin(), all.end(), [=](auto& one) { return one.get() == capture; });
}

bool holds(const std::vector<Node*>& nodes, const Node* node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// Whether every node of `nodes` is one of `last` or precedes one of them.
bool all_reach(const std::vector<std::unique_ptr<Node>>& nodes, const std::vector<Node*>& last) {
  std::vector<Node*> seen = last;
  for (std::size_t i = 0; i < seen.size(); ++i)
    for (Node* const node : seen[i]->before)
      if (!holds(seen, node)) seen.push_back(node);
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](const auto& node) { return holds(seen, node.get()); });
}

void leave(Capture& capture) {
  for (const cudaStream_t stream : capture.streams) {
    stream->capture = nullptr;
    stream->tail.clear();
  }
}

void add_to(Capture& capture, cudaStream_t stream) {
  stream->capture = &capture;
  stream->chain = capture.graph->chains++;
  capture.streams.push_back(stream);
}

cudaError_t begin(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const cudaStream_t stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->is_legacy()) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture) return cudaErrorIllegalState;
  auto& captures = state().captures;
  captures.push_back(std::make_unique<Capture>());
  Capture& capture = *captures.back();
  capture.graph = std::make_unique<CUgraph_st>();
  capture.origin = stream;
  capture.mode = mode;
  capture.thread = std::this_thread::get_id();
  capture.number = ++state().streams_made;
  add_to(capture, stream);
  ++state().counts.captures;
  return cudaSuccess;
}

cudaError_t end(cudaStream_t handle, cudaGraph_t* graph) {
  const cudaStream_t stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  *graph = nullptr;
  Capture* const capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->thread != std::this_thread::get_id() &&
      capture->mode != cudaStreamCaptureModeRelaxed)
    return cudaErrorStreamCaptureWrongThread;
  if (state().failing_captures > 0) {
    --state().failing_captures;
    capture->invalid = true;
  }
  cudaError_t error = cudaSuccess;
  if (capture->invalid)
    error = cudaErrorStreamCaptureInvalidated;
  else if (!all_reach(capture->graph->nodes, stream->tail))
    error = cudaErrorStreamCaptureUnjoined;
  if (error == cudaSuccess) *graph = capture->graph.release();
  leave(*capture);
  std::erase_if(state().captures, [=](auto& one) { return one.get() == capture; });
  return error;
}

cudaStreamCaptureStatus status_of(const CUstream_st& stream) {
  if (!stream.capture) return cudaStreamCaptureStatusNone;
  return stream.capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
}
}  // namespace

cudaError_t capture_node(cudaStream_t stream, Work work) {
  Capture& capture = *stream->capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  auto& nodes = capture.graph->nodes;
  nodes.push_back(std::make_unique<Node>());
  Node& node = *nodes.back();
  node.work = std::move(work);
  node.before = std::exchange(stream->tail, {&node});
  node.chain = stream->chain;
  return cudaSuccess;
}

cudaError_t implicit_capture_error(const CUstream_st& stream) {
  if (!stream.is_legacy()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const auto& other : state().streams)
    if (other->capture && other->device == stream.device && other->is_blocking()) {
      other->capture->invalid = true;
      error = cudaErrorStreamCaptureImplicit;
    }
  return error;
}

cudaError_t unsafe_call_error() {
  const cudaStreamCaptureMode mode = host_thread().capture_mode;
  if (mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const auto& capture : state().captures) {
    const bool mine = capture->thread == std::this_thread::get_id();
    const bool forbids =
        mine ? capture->mode != cudaStreamCaptureModeRelaxed
             : mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (!forbids) continue;
    capture->invalid = true;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t wait_while_captured(cudaStream_t stream) {
  if (!stream->capture) return implicit_capture_error(*stream);
  stream->capture->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t record_in_capture(cudaEvent_t event, cudaStream_t stream) {
  if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
  event->capture = stream->capture;
  event->captured = stream->tail;
  return cudaSuccess;
}

cudaError_t wait_in_capture(cudaStream_t stream, cudaEvent_t event) {
  if (event->capture && !lives(event->capture)) event->capture = nullptr;
  if (!event->capture) {  // an event that was recorded outside of the capture
    if (!event->mark) return cudaSuccess;
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (event->capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!stream->capture) {
    if (stream->is_legacy()) {
      event->capture->invalid = true;
      return cudaErrorStreamCaptureImplicit;
    }
    add_to(*event->capture, stream);
  }
  if (stream->capture != event->capture) {
    stream->capture->invalid = event->capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  for (Node* const node : event->captured)
    if (!holds(stream->tail, node)) stream->tail.push_back(node);
  return cudaSuccess;
}

bool is_captured(const CUevent_st& event) { return event.capture && lives(event.capture); }
}  // namespace reel::emulate

using namespace reel::emulate;

extern "C" {
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([=] { return begin(stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([=] { return end(stream, graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call([=] {
    const cudaStream_t stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    *status = status_of(*stream);
    return stream->capture ? cudaSuccess : implicit_capture_error(*stream);
  });
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* number, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  return call([=] {
    const cudaStream_t stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    *status = status_of(*stream);
    if (number) *number = stream->capture ? stream->capture->number : 0;
    if (graph) *graph = stream->capture ? stream->capture->graph.get() : nullptr;
    // A program cannot see the nodes of an unfinished graph.
    if (nodes) *nodes = nullptr;
    if (edges) *edges = nullptr;
    if (count) *count = 0;
    return cudaSuccess;
  });
}
#endif

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call([=] {
    std::swap(host_thread().capture_mode, *mode);
    return cudaSuccess;
  });
}
}
