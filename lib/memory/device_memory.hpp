// SPDX-License-Identifier: BSD-3-Clause
// Memory of devices other than the CPU, as their backends provide it.
#pragma once
#include <cstddef>
#include <string>

#include <reel/device.hpp>

#include "lib/body/body.hpp"

namespace reel {
/// Memory of the devices of one kind. The host must not read or write it. A block that was released
/// may be handed out again at once, as all work of a device runs in the order of its queue.
class DeviceMemory {
 public:
  /// Null where there is no memory.
  virtual std::byte* allocate(int index, std::size_t bytes) = 0;
  virtual void release(int index, std::byte* block, std::size_t bytes) noexcept = 0;
  virtual DeviceMemoryUse use(int /*index*/) { return {}; }
  /// Gives back to the devices what no tensor uses.
  virtual void trim() noexcept {}
  /// For an error, after allocate() has returned null: what uses the memory. Empty if that is not
  /// known.
  virtual std::string largest(int /*index*/) { return {}; }

 protected:
  ~DeviceMemory() = default;
};
/// What takes the memory of a device, for an error.
std::string largest_on(Device device);
/// Indexed by Device::Kind; null for the CPU, and if the process has no such devices.
extern constinit DeviceMemory* device_memories[device_kinds];
}  // namespace reel
