// SPDX-License-Identifier: BSD-3-Clause
// Allocation of device memory, of pinned memory, and in stream order.
#include <algorithm>

#include "cuda/emulate/graph.hpp"
#include "cuda/emulate/memory.hpp"
#include "cuda/emulate/queue.hpp"
#include "cuda/emulate/report.hpp"

struct CUmemPoolHandle_st {
  int device = 0;
  std::uint64_t release_threshold = 0;
};

namespace reel::emulate {
namespace {
std::map<const void*, std::size_t>& registered() {
  static std::map<const void*, std::size_t> ranges;
  return ranges;
}

cudaMemPool_t pool_of(int device) {
  static CUmemPoolHandle_st pools[most_devices];
  pools[device].device = device;
  return &pools[device];
}

MemoryBlock* take(Device& device, std::size_t bytes) {
  ++state().counts.allocations;
  const std::size_t limit = state().device_memory;
  if (device.memory.used() > limit || bytes > limit - device.memory.used()) return nullptr;
  return device.memory.allocate(bytes);
}

cudaError_t allocate(void** at, std::size_t bytes) {
  if (const cudaError_t error = unsafe_call_error()) return error;
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  MemoryBlock* const block = take(current_device(), bytes);
  if (!block) return cudaErrorMemoryAllocation;
  *at = block->at;
  return cudaSuccess;
}

cudaError_t allocate_pinned(void** at, std::size_t bytes) {
  if (const cudaError_t error = unsafe_call_error()) return error;
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  ++state().counts.allocations;
  *at = state().host_memory.allocate(bytes)->at;
  return cudaSuccess;
}

// Waits for the device's work, as CUDA does.
cudaError_t release(void* at) {
  if (!at) return cudaSuccess;
  if (const cudaError_t error = unsafe_call_error()) return error;
  const Location there = locate(at);
  if (!there.device || !there.block || there.block->at != at) return cudaErrorInvalidValue;
  wait_for_device(int(there.device->number));
  MemoryBlock* const block = there.device->memory.find(at);
  if (!block || block->freeing) return cudaErrorInvalidValue;
  if (block->of_graph) {
    there.device->memory.end(*block);  // the graph's next launch allocates it again
    block->kept = false;
  } else {
    there.device->memory.release(*block);
  }
  return cudaSuccess;
}

cudaError_t release_pinned(void* at) {
  if (!at) return cudaSuccess;
  if (const cudaError_t error = unsafe_call_error()) return error;
  MemoryBlock* const block = state().host_memory.find(at);
  if (!block || block->at != at) return cudaErrorInvalidValue;
  state().host_memory.release(*block);
  return cudaSuccess;
}

// The address is known at once. The memory may be used when the stream has reached the allocation.
Work begin_work(Arena& memory, MemoryBlock& block) {
  return [&](Lane& lane, int) {
    memory.begin(block);
    touch_write(lane.identity, block.at, block.bytes, "an allocation");
    return cudaSuccess;
  };
}

// A free counts as a write, so every use of the memory must be ordered before it.
Work end_work(Device& device, void* at) {
  return [&device, at](Lane& lane, int) {
    MemoryBlock* const block = device.memory.find(at);
    if (!block || !block->live) report("cudaFreeAsync of %p, which is not allocated", at);
    touch_write(lane.identity, at, block->bytes, "cudaFreeAsync");
    block->freeing = false;
    if (block->of_graph)
      device.memory.end(*block);
    else
      device.memory.release(*block);
    return cudaSuccess;
  };
}

cudaError_t allocate_async(void** at, std::size_t bytes, cudaStream_t handle) {
  const cudaStream_t stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  Device& device = *state().devices[std::size_t(stream->device)];
  MemoryBlock* const block = take(device, bytes);
  if (!block) return cudaErrorMemoryAllocation;
  device.memory.end(*block);
  block->of_pool = true;
  *at = block->at;
  if (stream->capture) {
    block->of_graph = true;
    stream->capture->graph->blocks.push_back(block);
    stream->capture->graph->device = stream->device;
  }
  return enqueue(stream, begin_work(device.memory, *block));
}

cudaError_t release_async(void* at, cudaStream_t handle) {
  const cudaStream_t stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!at) return cudaSuccess;
  const Location there = locate(at);
  if (!there.device || !there.block || there.block->at != at || there.block->freeing)
    return cudaErrorInvalidValue;
  if (stream->capture) {
    std::erase(stream->capture->graph->blocks, there.block);
  } else {
    there.block->freeing = !there.block->of_graph;
    there.block->kept = false;
  }
  return enqueue(stream, end_work(*there.device, at));
}
}  // namespace
}  // namespace reel::emulate

using namespace reel::emulate;

extern "C" {
cudaError_t cudaMalloc(void** at, size_t bytes) {
  return call([=] { return allocate(at, bytes); });
}

cudaError_t cudaFree(void* at) {
  return call([=] { return release(at); });
}

cudaError_t cudaMallocHost(void** at, size_t bytes) {
  return call([=] { return allocate_pinned(at, bytes); });
}

cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned) {
  return call([=] { return allocate_pinned(at, bytes); });
}

cudaError_t cudaFreeHost(void* at) {
  return call([=] { return release_pinned(at); });
}

cudaError_t cudaHostRegister(void* at, size_t bytes, unsigned) {
  return call([=] {
    if (!at || !bytes) return cudaErrorInvalidValue;
    return registered().emplace(at, bytes).second ? cudaSuccess
                                                  : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* at) {
  return call(
      [=] { return registered().erase(at) ? cudaSuccess : cudaErrorHostMemoryNotRegistered; });
}

cudaError_t cudaMallocAsync(void** at, size_t bytes, cudaStream_t stream) {
  return call([=] {
    return state().has_pools ? allocate_async(at, bytes, stream) : cudaErrorNotSupported;
  });
}

cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
  return call(
      [=] { return state().has_pools ? release_async(at, stream) : cudaErrorNotSupported; });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([=] {
    *total = state().device_memory;
    *free = *total - std::min(*total, current_device().memory.used());
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return call([=] {
    if (device < 0 || device >= int(state().devices.size())) return cudaErrorInvalidDevice;
    if (!state().has_pools) return cudaErrorNotSupported;
    *pool = pool_of(device);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return call([=] {
    if (!pool || !value) return cudaErrorInvalidValue;
    if (attribute == cudaMemPoolAttrReleaseThreshold)
      pool->release_threshold = *static_cast<std::uint64_t*>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list, size_t count) {
  return call([=] {
    if (!pool || !list) return cudaErrorInvalidValue;
    const auto& devices = state().devices;
    for (const cudaMemAccessDesc* each = list; each != list + count; ++each) {
      const int device = each->location.id;
      if (each->location.type != cudaMemLocationTypeDevice || device < 0 ||
          device >= int(devices.size()) || device == pool->device)
        return cudaErrorInvalidValue;
      if (each->flags == cudaMemAccessFlagsProtReadWrite)
        devices[std::size_t(pool->device)]->pool_readers.insert(device);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  return call([=] { return pool ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* at) {
  return call([=] {
    const Location there = locate(at);
    *attributes = {};
    attributes->type = there.device   ? cudaMemoryTypeDevice
                       : there.pinned ? cudaMemoryTypeHost
                                      : cudaMemoryTypeUnregistered;
    attributes->device = there.device ? int(there.device->number) : cudaInvalidDeviceId;
    attributes->devicePointer = there.device || there.pinned ? const_cast<void*>(at) : nullptr;
    attributes->hostPointer = there.pinned ? const_cast<void*>(at) : nullptr;
    return cudaSuccess;
  });
}
}
