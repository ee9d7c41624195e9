// SPDX-License-Identifier: BSD-3-Clause
// Correct programs: results of the emulated runtime, and its counts.
#include <algorithm>

#include "cuda/emulate/control.hpp"
#include "emulator/kernels.hpp"
#include "emulator/programs.hpp"

namespace programs {
namespace {
using reel::gpu::launch;
constexpr int n = 100;
constexpr std::size_t bytes = n * sizeof(float);

bool all_are(const float* x, float value) {
  const std::vector<float> values = from_device(x, n);
  return std::all_of(values.begin(), values.end(), [=](float v) { return v == value; });
}

bool votes(bool) {
  int* const y = device_memory<int>(32);
  ok(launch(kernels::votes, 1, 32, 0, nullptr, y));
  const std::vector<int> got = from_device(y, 32);
  for (int lane = 0; lane < 32; ++lane) {
    const int any = lane >= 16, every = lane < 16, other = lane ^ 1;
    if (got[std::size_t(lane)] != 16 + 100 * any + 1000 * every + 10000 * other + 5000000)
      return false;
  }
  return true;
}

bool counts(bool) {
  float* const x = device_memory<float>(n);
  cudaStream_t stream = nullptr;
  ok(cudaStreamCreate(&stream));
  reel::emulate::reset_counts();
  for (int i = 0; i < 5; ++i) ok(launch(kernels::fill, 3, 32, 0, stream, n, float(i), x));
  ok(cudaStreamSynchronize(stream));
  const reel::emulate::Counts seen = reel::emulate::counts();
  return seen.launches == 5 && seen.synchronizations == 1 && seen.allocations == 0 &&
         seen.copies == 0;
}

bool limited_memory(bool) {
  reel::emulate::set_device_memory(10000);
  void *first = nullptr, *second = nullptr;
  ok(cudaMalloc(&first, 6000));
  if (cudaMalloc(&second, 6000) != cudaErrorMemoryAllocation || second) return false;
  (void)cudaGetLastError();
  ok(cudaFree(first));
  return cudaMalloc(&second, 6000) == cudaSuccess;
}

bool last_error(bool) {
  float* const x = device_memory<float>(n);
  if (launch(kernels::fill, 0, 32, 0, nullptr, n, 1.0f, x) != cudaErrorInvalidConfiguration)
    return false;
  ok(cudaDeviceSynchronize());  // does not clear it
  return cudaPeekAtLastError() == cudaErrorInvalidConfiguration &&
         cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess;
}

bool sticky_error(bool) {
  ok(launch(kernels::fail, 3, 32, 0, nullptr));
  if (cudaDeviceSynchronize() != cudaErrorLaunchFailure) return false;
  void* at = nullptr;
  for (int i = 0; i < 2; ++i)
    if (cudaMalloc(&at, 100) != cudaErrorLaunchFailure ||
        cudaGetLastError() != cudaErrorLaunchFailure)
      return false;
  return true;
}

bool peer_copy(bool) {
  float* const x = on_device(std::vector<float>(n, 5.0f));
  ok(cudaSetDevice(1));
  float* const y = device_memory<float>(n);
  ok(cudaMemcpyPeer(y, 1, x, 0, bytes));
  ok(cudaDeviceSynchronize());
  return all_are(y, 5);
}

// Peer access does not open a memory pool, and access to a pool opens no other memory.
bool staged_copies(bool) {
  float* const of_device = on_device(std::vector<float>(n, 5.0f));
  void* of_pool = nullptr;
  ok(cudaMallocAsync(&of_pool, bytes, nullptr));
  ok(cudaMemsetAsync(of_pool, 0, bytes, nullptr));
  cudaMemPool_t pool = nullptr;
  ok(cudaDeviceGetDefaultMemPool(&pool, 0));
  ok(cudaSetDevice(1));
  float* const y = device_memory<float>(n);
  const auto staged = [=](const void* x) {
    reel::emulate::reset_counts();
    ok(cudaMemcpyPeer(y, 1, x, 0, bytes));
    return reel::emulate::counts().staged_copies == 1;
  };
  if (!staged(of_device) || !staged(of_pool)) return false;
  ok(cudaDeviceEnablePeerAccess(0, 0));
  if (staged(of_device) || !staged(of_pool)) return false;
  ok(cudaDeviceDisablePeerAccess(0));
  const cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 1},
                                    cudaMemAccessFlagsProtReadWrite};
  ok(cudaMemPoolSetAccess(pool, &access, 1));
  return staged(of_device) && !staged(of_pool);
}

bool no_pools(bool) {
  reel::emulate::set_memory_pools(false);
  cudaMemPool_t pool = nullptr;
  void* at = nullptr;
  return cudaDeviceGetDefaultMemPool(&pool, 0) == cudaErrorNotSupported &&
         cudaMallocAsync(&at, bytes, nullptr) == cudaErrorNotSupported;
}

// A device that the kernels have no code for still has memory.
bool old_device(bool) {
  reel::emulate::set_old_device(0);
  float* const x = device_memory<float>(n);
  cudaFuncAttributes attributes = {};
  const auto* const kernel = reinterpret_cast<const void*>(kernels::fill);
  if (launch(kernels::fill, 3, 32, 0, nullptr, n, 1.0f, x) != cudaErrorNoKernelImageForDevice ||
      cudaFuncGetAttributes(&attributes, kernel) != cudaErrorNoKernelImageForDevice)
    return false;
  ok(cudaSetDevice(1));
  ok(cudaFuncGetAttributes(&attributes, kernel));
  return attributes.maxThreadsPerBlock == 1024;
}

bool events(bool) {
  cudaEvent_t event = nullptr;
  ok(cudaEventCreate(&event));
  ok(cudaEventQuery(event));  // never recorded
  float* const x = device_memory<float>(n);
  ok(launch(kernels::fill, 3, 32, 0, nullptr, n, 2.0f, x));
  ok(cudaEventRecord(event, nullptr));
  while (cudaEventQuery(event) == cudaErrorNotReady) {
  }
  return all_are(x, 2);
}

bool host_function(bool) {
  cudaStream_t stream = nullptr;
  ok(cudaStreamCreate(&stream));
  int calls = 0;
  for (int i = 0; i < 3; ++i)
    ok(cudaLaunchHostFunc(
        stream, [](void* at) { ++*static_cast<int*>(at); }, &calls));
  ok(cudaStreamSynchronize(stream));
  return calls == 3;
}

bool graph(bool) {
  cudaStream_t stream = nullptr;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  float* const x = device_memory<float>(n);
  ok(cudaMemsetAsync(x, 0, bytes, stream));
  ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 3; ++i) ok(launch(kernels::add, 3, 32, 0, stream, n, 1.0f, x));
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t executable = nullptr;
  ok(cudaStreamEndCapture(stream, &captured));
  std::size_t nodes = 0;
  ok(cudaGraphGetNodes(captured, nullptr, &nodes));
  ok(cudaGraphInstantiate(&executable, captured, 0));
  ok(cudaGraphDestroy(captured));
  for (int i = 0; i < 4; ++i) ok(cudaGraphLaunch(executable, stream));
  ok(cudaGraphExecDestroy(executable));  // launches that are already queued still run
  ok(cudaStreamSynchronize(stream));
  return nodes == 3 && all_are(x, 12);
}

bool large_shared_memory(bool) {
  const float* const x = on_device(std::vector<float>(64, 1.0f));
  float* const y = device_memory<float>(64);
  const auto run = [=](std::size_t shared) {
    return launch(kernels::transpose, 1, dim3(8, 8), shared, nullptr, 8, 8, x, y, false);
  };
  if (run(60000) != cudaErrorInvalidValue) return false;
  (void)cudaGetLastError();
  ok(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernels::transpose),
                          cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
  ok(run(60000));
  return from_device(y, 1)[0] == 1;
}

// CUDA may wait in an asynchronous copy of pageable memory.
bool pageable_copies(bool) {
  float* const x = device_memory<float>(n);
  void* pinned = nullptr;
  ok(cudaMallocHost(&pinned, bytes));
  std::vector<float> pageable(n);
  const auto counted = [=](void* host, cudaMemcpyKind kind) {
    const bool up = kind == cudaMemcpyHostToDevice;
    reel::emulate::reset_counts();
    ok(cudaMemcpyAsync(up ? x : host, up ? host : x, bytes, kind, nullptr));
    return reel::emulate::counts().pageable_copies;
  };
  const bool right = counted(pinned, cudaMemcpyHostToDevice) == 0 &&
                     counted(pinned, cudaMemcpyDeviceToHost) == 0 &&
                     counted(pageable.data(), cudaMemcpyHostToDevice) == 1 &&
                     counted(pageable.data(), cudaMemcpyDeviceToHost) == 1;
  ok(cudaDeviceSynchronize());
  return right;
}

constexpr Program list[] = {
    {"votes and shuffles", votes, 0, ""},
    {"counts", counts, 0, ""},
    {"limited memory", limited_memory, 0, ""},
    {"last error", last_error, 0, ""},
    {"sticky error repeated", sticky_error, 0, ""},
    {"copy between devices", peer_copy, 0, ""},
    {"copies through the host are counted", staged_copies, 0, ""},
    {"no memory pools", no_pools, 0, ""},
    {"an old device", old_device, 0, ""},
    {"a loop of queries ends", events, 0, ""},
    {"host functions", host_function, 0, ""},
    {"graph launched again", graph, 0, ""},
    {"copies of pageable memory are counted", pageable_copies, 0, ""},
    {"large shared memory", large_shared_memory, 0, ""},
};
}  // namespace

std::span<const Program> facts() { return list; }
}  // namespace programs
