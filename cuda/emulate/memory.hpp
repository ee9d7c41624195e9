// SPDX-License-Identifier: BSD-3-Clause
// Finds the owner of an address. Records accesses that the emulator makes for a stream.
#pragma once
#include "cuda/emulate/state.hpp"

namespace reel::emulate {
/// The location of an address: in a block of a device, in pinned memory, or in other memory.
struct Location {
  Device* device = nullptr;
  MemoryBlock* block = nullptr;  // null although there is a device: no live block is there
  bool pinned = false;
};
Location locate(const void* address);
/// The device whose memory this is, or null.
Device* locate_device(const void* address);
/// Whether the program calls the process_vm_readv() of the emulator. It does if the emulator is
/// linked or was loaded by LD_PRELOAD, but not if it came with a plugin.
bool hides_memory();

/// Whether the range is host memory, or is within one block of a device.
bool is_within(const Location& location, const void* address, std::size_t bytes);

/// Records an access for a lane, and opens the block. If the memory is freed or too small, the
/// program ends with a report that names `what`. The caller then accesses the memory with the
/// emulator's identity, so that the emulator's own variables do not count for the lane.
void touch_read(Identity lane, const void* address, std::size_t bytes, const char* what);
void touch_write(Identity lane, void* address, std::size_t bytes, const char* what);
}  // namespace reel::emulate
