// SPDX-License-Identifier: BSD-3-Clause
// Memory of devices other than the CPU, as their backends provide it.
#pragma once
#include <cstddef>

#include <reel/device.hpp>

namespace reel {
/// Memory of the devices of one kind. The host must not read or write it. A block that was released
/// may be handed out again at once, as all work of a device runs in the order of its queue.
class DeviceMemory {
 public:
  /// Null where there is no memory.
  virtual std::byte* allocate(int index, std::size_t bytes) = 0;
  virtual void release(int index, std::byte* block, std::size_t bytes) noexcept = 0;

 protected:
  ~DeviceMemory() = default;
};
inline constexpr int device_kinds = 2;
/// By Device::Kind; null where the process has no such devices, and for the CPU.
extern constinit DeviceMemory* device_memories[device_kinds];
}  // namespace reel
