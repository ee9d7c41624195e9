// SPDX-License-Identifier: BSD-3-Clause
// Devices, errors, launches.
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "cuda/emulate/capture.hpp"
#include "cuda/emulate/launch.hpp"
#include "cuda/emulate/queue.hpp"

namespace reel::emulate {
namespace {
constexpr unsigned most_threads = 1024;
constexpr std::size_t usual_shared = 48 << 10, most_shared = 227 << 10;
// Few processors, so that a launch of one block for each of them needs a grid-stride loop.
constexpr int multiprocessors = 2;

struct Capability {
  int major, minor;
};
Capability capability_of(int device) {
  return device == state().old_device ? Capability{7, 5} : Capability{9, 0};
}
cudaError_t code_error(int device) {
  return device == state().old_device ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

bool is_device(int device) { return device >= 0 && device < int(state().devices.size()); }

cudaError_t launch_error(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  const auto threads = std::uint64_t(block.x) * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || !threads || threads > most_threads || block.z > 64)
    return cudaErrorInvalidConfiguration;
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  const auto& limits = state().dynamic_shared_limits;
  const auto limit = limits.find(kernel);
  if (shared_bytes > (limit == limits.end() ? usual_shared : limit->second))
    return cudaErrorInvalidValue;
  return cudaSuccess;
}

// As cuDevicePrimaryCtxGetState.
CUresult primary_context_state(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = has_context(device);
  return CUDA_SUCCESS;
}
}  // namespace

cudaError_t queue_kernel(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                         cudaStream_t handle, std::function<void()> body) {
  return call([&] {
    const cudaStream_t stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (stream->device != host_thread().device) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = code_error(stream->device)) return error;
    if (const cudaError_t error = launch_error(kernel, grid, block, shared_bytes)) return error;
    const std::size_t used = current_device().memory.used() + state().launch_memory;
    if (state().launch_memory && used > state().device_memory) return cudaErrorMemoryAllocation;
    ++state().counts.launches;
    note_use(kernel, *stream);
    Largest& largest = state().largest_launches[kernel];
    largest.blocks = std::max(largest.blocks, std::uint64_t(grid.x) * grid.y * grid.z);
    largest.threads = std::max(largest.threads, std::uint64_t(block.x) * block.y * block.z);
    return enqueue(stream,
                   [launch = Launch{kernel, grid, block, shared_bytes, std::move(body)}](
                       Lane& lane, int) { return run_grid(launch, lane.team, lane.identity); });
  });
}
}  // namespace reel::emulate

using namespace reel::emulate;

extern "C" {
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return call(
      [=] {
        *count = int(state().devices.size());
        return cudaSuccess;
      },
      Context::none);
}

// Since CUDA 12 it makes the context of the device, and makes it current on this thread.
cudaError_t cudaSetDevice(int device) {
  return call(
      [=] {
        if (!is_device(device)) return cudaErrorInvalidDevice;
        host_thread().device = device;
        current_device().has_context = host_thread().has_context = true;
        return current_device().sticky;
      },
      Context::none);
}

cudaError_t cudaGetDevice(int* device) {
  return call(
      [=] {
        *device = host_thread().device;
        return cudaSuccess;
      },
      Context::none);
}

cudaError_t cudaDriverGetVersion(int* version) {
  Entry entry;
  *version = state().driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call(
      [=] {
        if (!is_device(device)) return cudaErrorInvalidDevice;
        *properties = {};
        std::snprintf(properties->name, sizeof(properties->name), "emulated device %d", device);
        properties->totalGlobalMem = state().device_memory;
        properties->sharedMemPerBlock = usual_shared;
        properties->sharedMemPerBlockOptin = most_shared;
        properties->warpSize = 32;
        properties->maxThreadsPerBlock = int(most_threads);
        properties->maxThreadsPerMultiProcessor = 2048;
        properties->multiProcessorCount = multiprocessors;
        properties->major = capability_of(device).major;
        properties->minor = capability_of(device).minor;
        properties->l2CacheSize = 50 << 20;
        properties->memoryPoolsSupported = int(state().has_pools);
        properties->unifiedAddressing = 1;
        properties->asyncEngineCount = 2;
        properties->concurrentKernels = 1;
        return cudaSuccess;
      },
      Context::none);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call(
      [=] {
        if (!is_device(device)) return cudaErrorInvalidDevice;
        switch (attribute) {
          case cudaDevAttrMaxThreadsPerBlock:
            *value = int(most_threads);
            break;
          case cudaDevAttrMaxSharedMemoryPerBlock:
            *value = int(usual_shared);
            break;
          case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = int(most_shared);
            break;
          case cudaDevAttrMultiProcessorCount:
            *value = multiprocessors;
            break;
          case cudaDevAttrMaxThreadsPerMultiProcessor:
            *value = 2048;
            break;
          case cudaDevAttrComputeCapabilityMajor:
            *value = capability_of(device).major;
            break;
          case cudaDevAttrComputeCapabilityMinor:
            *value = capability_of(device).minor;
            break;
          case cudaDevAttrWarpSize:
            *value = 32;
            break;
          case cudaDevAttrMemoryPoolsSupported:
            *value = int(state().has_pools);
            break;
          default:
            return cudaErrorInvalidValue;
        }
        return cudaSuccess;
      },
      Context::none);
}

// The functions of the driver that a program may ask for by name.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool known = std::string_view(name) == "cuDevicePrimaryCtxGetState";
  *function = known ? reinterpret_cast<void*>(primary_context_state) : nullptr;
  if (found) *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([=] {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([] {
    if (const cudaError_t error = unsafe_call_error()) return error;
    Device& device = current_device();
    wait_for_device(int(device.number));
    return device.sticky;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call(
      [=] {
        if (!is_device(device) || !is_device(peer)) return cudaErrorInvalidDevice;
        *can = device != peer;
        return cudaSuccess;
      },
      Context::none);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call([=] {
    if (flags) return cudaErrorInvalidValue;
    Device& device = current_device();
    if (!is_device(peer) || peer == int(device.number)) return cudaErrorInvalidDevice;
    return device.peers.insert(peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return call([=] {
    return current_device().peers.erase(peer) ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

// A sticky error is not cleared: every later call sets it as the last error again.
cudaError_t cudaPeekAtLastError() {
  Entry entry;
  const bool broken = availability() == cudaSuccess && current_device().sticky != cudaSuccess;
  return broken ? current_device().sticky : host_thread().last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t last = cudaPeekAtLastError();
  host_thread().last_error = cudaSuccess;
  return last;
}

// The compiler sets the static attributes of a kernel. Here only the limit has an effect.
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return call([=] {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || std::size_t(value) > most_shared) return cudaErrorInvalidValue;
    state().dynamic_shared_limits[kernel] = std::size_t(value);
    return cudaSuccess;
  });
}

// It loads the kernel. Only the error is as on a GPU, and the limits that all kernels have here.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return call([=] {
    state().used.insert({host_thread().device, kernel});
    *attributes = {};
    attributes->maxThreadsPerBlock = int(most_threads);
    return code_error(int(current_device().number));
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          size_t) {
  return call([=] {
    if (threads <= 0 || threads > int(most_threads)) return cudaErrorInvalidValue;
    *blocks = 1;  // the minimum: a correct kernel does not rely on more
    return cudaSuccess;
  });
}
}
