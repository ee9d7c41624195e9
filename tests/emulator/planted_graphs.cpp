// SPDX-License-Identifier: BSD-3-Clause
// Faults in captures and graphs.
#include "emulator/kernels.hpp"
#include "emulator/programs.hpp"

namespace programs {
namespace {
using reel::gpu::launch;
constexpr int n = 100;
constexpr std::size_t bytes = n * sizeof(float);

struct Capturing {
  Capturing() {
    for (cudaStream_t* const stream : {&a, &b})
      ok(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    for (cudaEvent_t* const event : {&fork, &join})
      ok(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  void begin() const { ok(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal)); }
  cudaGraphExec_t end() const {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ok(cudaStreamEndCapture(a, &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    ok(cudaGraphDestroy(graph));
    return executable;
  }
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
};

bool all_are(const float* x, float value) {
  for (const float v : from_device(x, n))
    if (v != value) return false;
  return true;
}

// Two branches. The second one adds to memory that the first one fills.
bool branches(bool joined, bool ordered, bool fault) {
  Capturing c;
  float* const x = device_memory<float>(n);
  c.begin();
  ok(cudaEventRecord(c.fork, c.a));
  if (ordered || !fault) {
    ok(launch(kernels::fill, 3, 32, 0, c.a, n, 3.0f, x));
    ok(cudaEventRecord(c.fork, c.a));
    ok(cudaStreamWaitEvent(c.b, c.fork, 0));
  } else {
    ok(cudaStreamWaitEvent(c.b, c.fork, 0));
    ok(launch(kernels::fill, 3, 32, 0, c.a, n, 3.0f, x));
  }
  ok(launch(kernels::add, 3, 32, 0, c.b, n, 1.0f, x));
  ok(cudaEventRecord(c.join, c.b));
  if (joined || !fault) ok(cudaStreamWaitEvent(c.a, c.join, 0));
  const cudaGraphExec_t graph = c.end();
  for (int i = 0; i < 3; ++i) ok(cudaGraphLaunch(graph, c.a));
  ok(cudaStreamSynchronize(c.a));
  return all_are(x, 4);
}
bool unordered_branches(bool fault) { return branches(true, false, fault); }
bool unjoined_stream(bool fault) { return branches(false, true, fault); }

// A launch does not wait for the launch of another graph on another stream.
bool graphs_on_two_streams(bool fault) {
  Capturing c;
  float* const x = device_memory<float>(n);
  c.begin();
  ok(launch(kernels::fill, 3, 32, 0, c.a, n, 3.0f, x));
  const cudaGraphExec_t first = c.end();
  c.begin();
  ok(launch(kernels::add, 3, 32, 0, c.a, n, 1.0f, x));
  const cudaGraphExec_t second = c.end();
  ok(cudaGraphLaunch(first, c.a));
  ok(cudaGraphLaunch(second, fault ? c.b : c.a));
  ok(cudaDeviceSynchronize());
  return all_are(x, 4);
}

bool freed_under_a_graph(bool fault) {
  Capturing c;
  float *const x = device_memory<float>(n), *const y = device_memory<float>(n);
  c.begin();
  ok(launch(kernels::fill, 3, 32, 0, c.a, n, 3.0f, x));
  ok(launch(kernels::scale, 3, 32, 0, c.a, n, 2.0f, x, y, false));
  const cudaGraphExec_t graph = c.end();
  if (fault) ok(cudaFree(x));
  ok(cudaGraphLaunch(graph, c.a));
  ok(cudaStreamSynchronize(c.a));
  return all_are(y, 6);
}

bool freed_inside_a_graph(bool fault) {
  Capturing c;
  float* const y = device_memory<float>(n);
  void* at = nullptr;
  c.begin();
  ok(cudaMallocAsync(&at, bytes, c.a));
  auto* const x = static_cast<float*>(at);
  ok(launch(kernels::fill, 3, 32, 0, c.a, n, 3.0f, x));
  if (fault) ok(cudaFreeAsync(x, c.a));
  ok(launch(kernels::scale, 3, 32, 0, c.a, n, 2.0f, x, y, false));
  if (!fault) ok(cudaFreeAsync(x, c.a));
  const cudaGraphExec_t graph = c.end();
  for (int i = 0; i < 2; ++i) ok(cudaGraphLaunch(graph, c.a));
  ok(cudaStreamSynchronize(c.a));
  return all_are(y, 6);
}

bool relaunch_without_free(bool fault) {
  Capturing c;
  void* at = nullptr;
  c.begin();
  ok(cudaMallocAsync(&at, bytes, c.a));
  ok(launch(kernels::fill, 3, 32, 0, c.a, n, 3.0f, static_cast<float*>(at)));
  const cudaGraphExec_t graph = c.end();
  ok(cudaGraphLaunch(graph, c.a));
  if (!fault) ok(cudaFreeAsync(at, c.a));
  ok(cudaStreamSynchronize(c.a));
  const bool relaunched = expect_success(cudaGraphLaunch(graph, c.a));
  ok(cudaDeviceSynchronize());
  return relaunched;
}

bool allocation_while_capturing(bool fault) {
  Capturing c;
  void* at = nullptr;
  if (!fault) ok(cudaMalloc(&at, bytes));
  c.begin();
  if (fault) (void)cudaMalloc(&at, bytes);
  cudaGraph_t graph = nullptr;
  return expect_success(cudaStreamEndCapture(c.a, &graph)) && graph;
}

bool wait_while_capturing(bool fault) {
  Capturing c;
  float* const x = device_memory<float>(n);
  c.begin();
  ok(launch(kernels::fill, 3, 32, 0, c.a, n, 3.0f, x));
  const cudaError_t waited = fault ? cudaStreamSynchronize(c.a) : cudaSuccess;
  if (!expect_success(waited)) return false;
  (void)c.end();
  return true;
}

bool legacy_stream_while_capturing(bool fault) {
  cudaStream_t blocking = nullptr;
  ok(cudaStreamCreate(&blocking));
  float* const x = device_memory<float>(n);
  if (!fault) ok(launch(kernels::fill, 3, 32, 0, nullptr, n, 3.0f, x));
  ok(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
  const cudaError_t error =
      fault ? launch(kernels::fill, 3, 32, 0, nullptr, n, 3.0f, x) : cudaSuccess;
  cudaGraph_t graph = nullptr;
  return expect_success(error) && expect_success(cudaStreamEndCapture(blocking, &graph));
}

bool event_from_outside(bool fault) {
  Capturing c;
  ok(cudaEventRecord(c.fork, c.b));
  c.begin();
  const cudaError_t error = fault ? cudaStreamWaitEvent(c.a, c.fork, 0) : cudaSuccess;
  if (!expect_success(error)) return false;
  (void)c.end();
  return true;
}

bool query_of_captured_event(bool fault) {
  Capturing c;
  c.begin();
  ok(cudaEventRecord(c.fork, c.a));
  const cudaError_t error = fault ? cudaEventSynchronize(c.fork) : cudaSuccess;
  if (!expect_success(error)) return false;
  (void)c.end();
  return true;
}

bool end_on_wrong_stream(bool fault) {
  Capturing c;
  c.begin();
  ok(cudaEventRecord(c.fork, c.a));
  ok(cudaStreamWaitEvent(c.b, c.fork, 0));
  cudaGraph_t graph = nullptr;
  return expect_success(cudaStreamEndCapture(fault ? c.b : c.a, &graph));
}

bool two_captures_merge(bool fault) {
  Capturing c;
  c.begin();
  ok(cudaStreamBeginCapture(c.b, cudaStreamCaptureModeGlobal));
  ok(cudaEventRecord(c.fork, c.a));
  const cudaError_t error = fault ? cudaStreamWaitEvent(c.b, c.fork, 0) : cudaSuccess;
  if (!expect_success(error)) return false;
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(c.b, &graph));
  ok(cudaStreamEndCapture(c.a, &graph));
  return true;
}

constexpr Program list[] = {
    {"unordered branches of a graph", unordered_branches, comparison | thread, ""},
    {"captured stream that is not joined", unjoined_stream, check, "Unjoined"},
    {"graphs on two streams", graphs_on_two_streams, comparison | thread, ""},
    {"memory freed under a graph", freed_under_a_graph, closed_memory | address, ""},
    {"memory freed inside a graph", freed_inside_a_graph, closed_memory, ""},
    {"graph launched again before a free", relaunch_without_free, check, "cudaErrorInvalidValue"},
    {"cudaMalloc while capturing", allocation_while_capturing, check, "Invalidated"},
    {"wait while capturing", wait_while_capturing, check, "CaptureUnsupported"},
    {"legacy stream while capturing", legacy_stream_while_capturing, check, "CaptureImplicit"},
    {"event recorded outside of a capture", event_from_outside, check, "CaptureIsolation"},
    {"wait for a captured event", query_of_captured_event, check, "cudaErrorCapturedEvent"},
    {"capture ended on another stream", end_on_wrong_stream, check, "Unmatched"},
    {"two captures merge", two_captures_merge, check, "CaptureMerge"},
};
}  // namespace

std::span<const Program> in_graphs() { return list; }
}  // namespace programs
