// SPDX-License-Identifier: BSD-3-Clause
// Copies and fills.
#include <cstring>

#include "cuda/emulate/capture.hpp"
#include "cuda/emulate/dice.hpp"
#include "cuda/emulate/memory.hpp"
#include "cuda/emulate/queue.hpp"
#include "cuda/emulate/report.hpp"

namespace reel::emulate {
namespace {
void move_bytes(Lane& lane, void* to, const void* from, std::size_t bytes) {
  touch_read(lane.identity, from, bytes, "a copy");
  touch_write(lane.identity, to, bytes, "a copy");
  std::memcpy(to, from, bytes);
}

Work copy_work(void* to, const void* from, std::size_t bytes) {
  return [=](Lane& lane, int) {
    move_bytes(lane, to, from, bytes);
    return cudaSuccess;
  };
}

// Reads host memory now, not when the task runs.
Work staged_work(void* to, const void* from, std::size_t bytes) {
  become(caller());
  const void* const bad = note_read(from, bytes);
  become(emulator_identity());
  if (bad) report("a copy of %zu bytes reads out of bounds of host memory at %p", bytes, bad);
  const auto* const first = static_cast<const std::byte*>(from);
  const auto staged = std::make_shared<std::vector<std::byte>>(first, first + bytes);
  return [=](Lane& lane, int) {
    touch_write(lane.identity, to, bytes, "a copy");
    std::memcpy(to, staged->data(), bytes);
    return cudaSuccess;
  };
}

bool overlap(const void* a, const void* b, std::size_t bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + bytes && y < x + bytes;
}

// cudaMemcpyDefault takes the direction from the addresses. Any other kind must agree with them.
cudaError_t check_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Location target = locate(to), source = locate(from);
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  if (kind != cudaMemcpyDefault &&
      (to_device != (target.device != nullptr) || from_device != (source.device != nullptr)))
    return cudaErrorInvalidValue;
  if (!is_within(target, to, bytes) || !is_within(source, from, bytes))
    return cudaErrorInvalidValue;
  if (bytes && overlap(to, from, bytes)) report("the ranges of a copy overlap");
  return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t handle, bool waits) {
  const cudaStream_t stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = check_copy(to, from, bytes, kind)) return error;
  if (waits)
    if (const cudaError_t error = wait_while_captured(stream)) return error;
  ++state().counts.copies;
  state().counts.copied_bytes += bytes;
  if (bytes == 0) return cudaSuccess;
  const Location target = locate(to), source = locate(from);
  if (waits) {
    // CUDA copies pageable memory into a staging buffer and returns. It does not wait for a copy
    // within a device.
    const bool staged = target.device && !source.device && !source.pinned;
    const Work work = staged ? staged_work(to, from, bytes) : copy_work(to, from, bytes);
    if (const cudaError_t error = enqueue(stream, work)) return error;
    if (!target.device || source.pinned) wait_for(stream);
    return state().devices[std::size_t(stream->device)]->sticky;
  }
  if (const cudaError_t error = enqueue(stream, copy_work(to, from, bytes))) return error;
  // With pageable memory CUDA may wait or not. A correct program works in both cases.
  const bool pageable = (!target.device && !target.pinned) || (!source.device && !source.pinned);
  state().counts.pageable_copies += pageable;
  if (pageable && !stream->capture && roll(2)) wait_for(stream);
  return cudaSuccess;
}

cudaError_t fill(void* to, int value, std::size_t bytes, cudaStream_t handle, bool waits) {
  const cudaStream_t stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  const Location target = locate(to);
  if (!target.device && !target.pinned) return cudaErrorInvalidValue;
  if (!is_within(target, to, bytes)) return cudaErrorInvalidValue;
  if (waits)
    if (const cudaError_t error = wait_while_captured(stream)) return error;
  const Work work = [=](Lane& lane, int) {
    touch_write(lane.identity, to, bytes, "a fill");
    std::memset(to, value, bytes);
    return cudaSuccess;
  };
  if (const cudaError_t error = enqueue(stream, work)) return error;
  if (waits && target.pinned) wait_for(stream);
  return cudaSuccess;
}

/// Whether the device may read this memory of another one. Each kind has its own permission.
bool reads(const Device& device, const Location& source) {
  return source.block && source.block->of_pool
             ? source.device->pool_readers.count(int(device.number)) > 0
             : device.peers.count(int(source.device->number)) > 0;
}

bool is_device(int device) { return device >= 0 && device < int(state().devices.size()); }

cudaError_t copy_between(void* to, int to_device, const void* from, int from_device,
                         std::size_t bytes, cudaStream_t stream, bool waits) {
  return call([=] {
    if (!is_device(to_device) || !is_device(from_device)) return cudaErrorInvalidDevice;
    const Location source = locate(from);
    Device& writer = *state().devices[std::size_t(to_device)];
    if (locate(to).device != &writer ||
        source.device != state().devices[std::size_t(from_device)].get())
      return cudaErrorInvalidValue;
    state().counts.staged_copies += &writer != source.device && !reads(writer, source);
    // Without a stream the copy runs after all work of both devices.
    for (const int device : {to_device, from_device})
      if (waits) wait_for_device(device);
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, waits);
  });
}
}  // namespace
}  // namespace reel::emulate

using namespace reel::emulate;

extern "C" {
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return call([=] { return copy(to, from, bytes, kind, nullptr, true); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([=] { return copy(to, from, bytes, kind, stream, false); });
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           size_t bytes) {
  return copy_between(to, to_device, from, from_device, bytes, nullptr, true);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  return copy_between(to, to_device, from, from_device, bytes, stream, false);
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return call([=] { return fill(to, value, bytes, nullptr, true); });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return call([=] { return fill(to, value, bytes, stream, false); });
}
}
