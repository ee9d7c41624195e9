// SPDX-License-Identifier: BSD-3-Clause
// Faults in the use of memory: access by the host, use after free, memory of another device.
#include "emulator/kernels.hpp"
#include "emulator/programs.hpp"

namespace programs {
namespace {
using reel::gpu::launch;
constexpr int n = 100;

bool all_are(const float* x, float value) {
  for (const float v : from_device(x, n))
    if (v != value) return false;
  return true;
}

bool host_reads_device(bool fault) {
  float* const x = device_memory<float>(n);
  ok(launch(kernels::fill, 3, 32, 0, nullptr, n, 3.0f, x));
  ok(cudaDeviceSynchronize());
  return fault ? *static_cast<volatile float*>(x) == 3 : all_are(x, 3);
}

bool kernel_reads_host(bool fault) {
  std::vector<float> values(n, 2.0f);
  float *const x = on_device(values), *const y = device_memory<float>(n);
  float* const null = nullptr;
  ok(launch(kernels::scale, 3, 32, 0, nullptr, n, 2.0f, fault ? null : x, y, false));
  ok(cudaDeviceSynchronize());
  return all_are(y, 4);
}

bool use_after_free(bool fault) {
  float* const x = device_memory<float>(n);
  if (fault) ok(cudaFree(x));
  ok(launch(kernels::fill, 3, 32, 0, nullptr, n, 3.0f, x));
  ok(cudaDeviceSynchronize());
  return fault || all_are(x, 3);
}

bool free_twice(bool fault) {
  float* const x = device_memory<float>(n);
  ok(cudaFree(x));
  return !fault || expect_success(cudaFree(x));
}

bool copy_too_long(bool fault) {
  float* const x = device_memory<float>(n);
  ok(launch(kernels::fill, 3, 32, 0, nullptr, n, 3.0f, x));
  std::vector<float> values(2 * n);
  const std::size_t count = fault ? n + 64 : n;
  if (!expect_success(cudaMemcpy(values.data(), x, count * sizeof(float), cudaMemcpyDeviceToHost)))
    return false;
  return values[n - 1] == 3;
}

bool wrong_direction(bool fault) {
  float* const x = on_device(std::vector<float>(n, 1.0f));
  std::vector<float> values(n);
  const auto kind = fault ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  return expect_success(cudaMemcpy(values.data(), x, n * sizeof(float), kind)) && values[0] == 1;
}

bool uninitialised(bool fault) {
  float* const x = device_memory<float>(n);
  if (!fault) ok(cudaMemset(x, 0, n * sizeof(float)));
  ok(launch(kernels::add, 3, 32, 0, nullptr, n, 1.0f, x));
  ok(cudaDeviceSynchronize());
  return all_are(x, 1);
}

bool peer_without_access(bool fault) {
  ok(cudaSetDevice(1));
  float* const y = device_memory<float>(n);
  ok(cudaSetDevice(0));
  float* const x = on_device(std::vector<float>(n, 2.0f));
  if (!fault) ok(cudaDeviceEnablePeerAccess(1, 0));
  ok(launch(kernels::scale, 3, 32, 0, nullptr, n, 2.0f, x, y, false));
  ok(cudaDeviceSynchronize());
  return all_are(y, 4);
}

/// A copy may use memory of both devices. The kernel behind it may not.
bool peer_after_copy(bool fault) {
  ok(cudaSetDevice(1));
  float* const y = device_memory<float>(n);
  ok(cudaSetDevice(0));
  float* const x = on_device(std::vector<float>(n, 2.0f));
  if (!fault) ok(cudaDeviceEnablePeerAccess(1, 0));
  ok(cudaMemcpyPeerAsync(y, 1, x, 0, n * sizeof(float), nullptr));
  ok(launch(kernels::scale, 3, 32, 0, nullptr, n, 2.0f, x, y, false));
  ok(cudaDeviceSynchronize());
  return all_are(y, 4);
}

bool stream_of_other_device(bool fault) {
  cudaStream_t stream = nullptr;
  ok(cudaSetDevice(fault ? 1 : 0));
  ok(cudaStreamCreate(&stream));
  ok(cudaSetDevice(0));
  float* const x = device_memory<float>(n);
  if (!expect_success(launch(kernels::fill, 3, 32, 0, stream, n, 3.0f, x))) return false;
  ok(cudaStreamSynchronize(stream));
  return all_are(x, 3);
}

bool out_of_memory(bool fault) {
  std::size_t free = 0, total = 0;
  ok(cudaMemGetInfo(&free, &total));
  void* at = nullptr;
  return expect_success(cudaMalloc(&at, fault ? free + 1 : 1000));
}

constexpr Program list[] = {
    {"host reads device memory", host_reads_device, closed_memory | any_order, "the host accesses"},
    {"kernel reads a null pointer", kernel_reads_host, closed_memory, ""},
    {"kernel after free", use_after_free, closed_memory | address, ""},
    {"free twice", free_twice, check, "cudaErrorInvalidValue"},
    {"copy too long", copy_too_long, check, "cudaErrorInvalidValue"},
    {"copy in the wrong direction", wrong_direction, check, "cudaErrorInvalidValue"},
    {"uninitialised memory", uninitialised, comparison, "wrong"},
    {"peer without access", peer_without_access, closed_memory | any_order, "without peer access"},
    {"peer after a copy", peer_after_copy, closed_memory | any_order, "without peer access"},
    {"stream of another device", stream_of_other_device, check, "cudaErrorInvalidResourceHandle"},
    {"out of memory", out_of_memory, check, "cudaErrorMemoryAllocation"},
};
}  // namespace

std::span<const Program> in_memory() { return list; }
}  // namespace programs
