// SPDX-License-Identifier: BSD-3-Clause
// Faults between streams, and between streams and the host.
#include <algorithm>
#include <memory>
#include <thread>

#include "emulator/kernels.hpp"
#include "emulator/programs.hpp"

namespace programs {
namespace {
using reel::gpu::launch;
constexpr int n = 100;
constexpr std::size_t bytes = n * sizeof(float);

struct Streams {
  Streams() {
    ok(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    ok(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;
};

bool all_are(const std::vector<float>& values, float value) {
  for (const float v : values)
    if (v != value) return false;
  return true;
}

bool missing_wait(bool fault) {
  Streams s;
  float *const x = device_memory<float>(n), *const y = device_memory<float>(n);
  ok(launch(kernels::fill, 3, 32, 0, s.a, n, 3.0f, x));
  ok(cudaEventRecord(s.event, s.a));
  if (!fault) ok(cudaStreamWaitEvent(s.b, s.event, 0));
  ok(launch(kernels::scale, 3, 32, 0, s.b, n, 2.0f, x, y, false));
  ok(cudaDeviceSynchronize());
  return all_are(from_device(y, n), 6);
}

// A wait for an event before it is recorded waits for nothing.
bool wait_before_record(bool fault) {
  Streams s;
  float *const x = device_memory<float>(n), *const y = device_memory<float>(n);
  ok(launch(kernels::fill, 3, 32, 0, s.a, n, 3.0f, x));
  if (fault) ok(cudaStreamWaitEvent(s.b, s.event, 0));
  ok(cudaEventRecord(s.event, s.a));
  if (!fault) ok(cudaStreamWaitEvent(s.b, s.event, 0));
  ok(launch(kernels::scale, 3, 32, 0, s.b, n, 2.0f, x, y, false));
  ok(cudaDeviceSynchronize());
  return all_are(from_device(y, n), 6);
}

// A non-blocking stream runs concurrently with a copy on the legacy stream.
bool copy_on_the_legacy_stream(bool fault) {
  Streams s;
  cudaStream_t blocking = nullptr;
  ok(cudaStreamCreate(&blocking));
  const std::vector<float> values(n, 3.0f);
  float *const x = device_memory<float>(n), *const y = device_memory<float>(n);
  const cudaStream_t stream = fault ? s.a : blocking;
  ok(cudaMemcpy(x, values.data(), bytes, cudaMemcpyHostToDevice));
  ok(launch(kernels::scale, 3, 32, 0, stream, n, 2.0f, x, y, false));
  ok(cudaStreamSynchronize(stream));
  return all_are(from_device(y, n), 6);
}

bool host_reads_early(bool fault) {
  Streams s;
  float* const x = device_memory<float>(n);
  void* pinned = nullptr;
  ok(cudaMallocHost(&pinned, bytes));
  auto* const values = static_cast<float*>(pinned);
  for (int i = 0; i < n; ++i) values[i] = 0;
  ok(launch(kernels::fill, 3, 32, 0, s.a, n, 3.0f, x));
  ok(cudaMemcpyAsync(values, x, bytes, cudaMemcpyDeviceToHost, s.a));
  if (!fault) ok(cudaStreamSynchronize(s.a));
  const bool right = values[0] == 3 && values[n - 1] == 3;
  ok(cudaDeviceSynchronize());
  return right;
}

bool host_overwrites_early(bool fault) {
  Streams s;
  float* const x = device_memory<float>(n);
  void* pinned = nullptr;
  ok(cudaMallocHost(&pinned, bytes));
  auto* const values = static_cast<float*>(pinned);
  for (int i = 0; i < n; ++i) values[i] = 3;
  ok(cudaMemcpyAsync(x, values, bytes, cudaMemcpyHostToDevice, s.a));
  if (!fault) ok(cudaStreamSynchronize(s.a));
  for (int i = 0; i < n; ++i) values[i] = 4;
  ok(cudaDeviceSynchronize());
  return all_are(from_device(x, n), 3);
}

// The host's vector is destroyed before the copy reads it.
bool pageable_memory_dies(bool fault) {
  Streams s;
  float* const x = device_memory<float>(n);
  auto values = std::make_unique<std::vector<float>>(n, 3.0f);
  ok(cudaMemcpyAsync(x, values->data(), bytes, cudaMemcpyHostToDevice, s.a));
  if (!fault) ok(cudaStreamSynchronize(s.a));
  std::fill(values->begin(), values->end(), 4.0f);
  values.reset();
  ok(cudaDeviceSynchronize());
  return all_are(from_device(x, n), 3);
}

// A pool gives a block of one stream to another stream at once. A caching allocator must not do
// this.
bool reuse_across_streams(bool fault) {
  Streams s;
  float* const block = device_memory<float>(n);
  float* const y = device_memory<float>(n);
  ok(launch(kernels::fill, 3, 32, 0, s.a, n, 3.0f, block));
  ok(launch(kernels::scale, 3, 32, 0, s.a, n, 2.0f, block, y, false));
  ok(cudaEventRecord(s.event, s.a));  // the first stream is done with the block
  if (!fault) ok(cudaStreamWaitEvent(s.b, s.event, 0));
  ok(launch(kernels::fill, 3, 32, 0, s.b, n, 7.0f, block));
  ok(cudaDeviceSynchronize());
  return all_are(from_device(y, n), 6);
}

bool free_in_other_stream(bool fault) {
  Streams s;
  float* const y = device_memory<float>(n);
  void* at = nullptr;
  ok(cudaMallocAsync(&at, bytes, s.a));
  auto* const x = static_cast<float*>(at);
  ok(launch(kernels::fill, 3, 32, 0, s.a, n, 3.0f, x));
  ok(launch(kernels::scale, 3, 32, 0, s.a, n, 2.0f, x, y, false));
  ok(cudaEventRecord(s.event, s.a));
  if (!fault) ok(cudaStreamWaitEvent(s.b, s.event, 0));
  ok(cudaFreeAsync(x, s.b));
  ok(cudaDeviceSynchronize());
  return all_are(from_device(y, n), 6);
}

bool use_before_allocation(bool fault) {
  Streams s;
  void* at = nullptr;
  ok(cudaMallocAsync(&at, bytes, s.a));
  auto* const x = static_cast<float*>(at);
  ok(cudaEventRecord(s.event, s.a));
  if (!fault) ok(cudaStreamWaitEvent(s.b, s.event, 0));
  ok(launch(kernels::fill, 3, 32, 0, s.b, n, 3.0f, x));
  ok(cudaDeviceSynchronize());
  return all_are(from_device(x, n), 3);
}

bool use_after_async_free(bool fault) {
  Streams s;
  void* at = nullptr;
  ok(cudaMallocAsync(&at, bytes, s.a));
  auto* const x = static_cast<float*>(at);
  if (fault) ok(cudaFreeAsync(x, s.a));
  ok(launch(kernels::fill, 3, 32, 0, s.a, n, 3.0f, x));
  ok(cudaStreamSynchronize(s.a));
  return true;
}

bool host_function_calls_runtime(bool fault) {
  Streams s;
  static bool planted = false;
  static cudaError_t inside = cudaSuccess;
  planted = fault;
  ok(cudaLaunchHostFunc(
      s.a,
      [](void*) {
        int device = 0;
        if (planted) inside = cudaGetDevice(&device);
      },
      nullptr));
  ok(cudaStreamSynchronize(s.a));
  return expect_success(inside);
}

bool event_without_timing(bool fault) {
  cudaEvent_t start = nullptr, end = nullptr;
  const unsigned flags = fault ? cudaEventDisableTiming : cudaEventDefault;
  ok(cudaEventCreateWithFlags(&start, flags));
  ok(cudaEventCreateWithFlags(&end, flags));
  ok(cudaEventRecord(start, nullptr));
  ok(cudaEventRecord(end, nullptr));
  ok(cudaEventSynchronize(end));
  float milliseconds = -1;
  return expect_success(cudaEventElapsedTime(&milliseconds, start, end)) && milliseconds >= 0;
}

bool destroyed_stream(bool fault) {
  Streams s;
  float* const x = device_memory<float>(n);
  if (fault) ok(cudaStreamDestroy(s.a));
  return expect_success(launch(kernels::fill, 3, 32, 0, s.a, n, 3.0f, x));
}

// Two host threads with one stream each.
bool two_host_threads(bool fault) {
  float* const x = device_memory<float>(n);
  float* const y = device_memory<float>(n);
  const auto work = [](float* to, float value) {
    for (int i = 0; i < 3; ++i)
      ok(launch(kernels::fill, 3, 32, 0, cudaStreamPerThread, n, value, to));
    ok(cudaStreamSynchronize(cudaStreamPerThread));
  };
  std::thread first(work, x, 3.0f), second(work, fault ? x : y, 4.0f);
  first.join();
  second.join();
  return all_are(from_device(x, n), 3) && (fault || all_are(from_device(y, n), 4));
}

constexpr Program list[] = {
    {"missing wait between streams", missing_wait, comparison | thread, ""},
    {"wait before the record", wait_before_record, comparison | thread, ""},
    {"legacy copy and a non-blocking stream", copy_on_the_legacy_stream, comparison | thread, ""},
    {"two host threads and one block", two_host_threads, thread, "data race"},
    {"host reads early", host_reads_early, comparison | thread, ""},
    {"host overwrites early", host_overwrites_early, comparison | thread, ""},
    {"pageable memory freed early", pageable_memory_dies, comparison | address | thread, ""},
    {"block reused in another stream", reuse_across_streams, comparison | thread, ""},
    {"free in another stream", free_in_other_stream, closed_memory | thread, ""},
    {"use before the allocation", use_before_allocation, closed_memory | thread, ""},
    {"use after cudaFreeAsync", use_after_async_free, closed_memory | address, ""},
    {"host function calls the runtime", host_function_calls_runtime, check, "NotPermitted"},
    {"event without timing", event_without_timing, check, "cudaErrorInvalidResourceHandle"},
    {"destroyed stream", destroyed_stream, check, "cudaErrorInvalidResourceHandle"},
};
}  // namespace

std::span<const Program> in_streams() { return list; }
}  // namespace programs
