// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/memory.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cuda/emulate/queue.hpp"
#include "cuda/emulate/report.hpp"

namespace reel::emulate {
namespace {
void open_for(const void* address, std::size_t bytes, const char* what) {
  const Location there = locate(address);
  if (!there.device) return;
  if (!there.block) {
    const MemoryBlock* const freed = there.device->memory.find_freed(address);
    report("%s uses %p, which %s", what, address, freed ? "was freed" : "is in no block");
  }
  if (!there.block->live)
    report("%s uses memory at %p that its stream has not allocated, or has freed", what, address);
  if (!there.block->holds(address, bytes))
    report("%s of %zu bytes at %p runs out of bounds of a block of %zu bytes", what, bytes, address,
           there.block->bytes);
  there.device->memory.open(*there.block);
}
}  // namespace

Device* locate_device(const void* address) {
  for (auto& device : state().devices)
    if (device->memory.contains(address)) return device.get();
  return nullptr;
}

Location locate(const void* address) {
  if (Device* const device = locate_device(address))
    return {device, device->memory.find(address), false};
  return {nullptr, nullptr, state().host_memory.contains(address)};
}

bool hides_memory() {
  static const char here = 0;
  void* const reader = dlsym(RTLD_DEFAULT, "process_vm_readv");
  Dl_info its{}, own{};
  return dladdr(reader, &its) && dladdr(&here, &own) && its.dli_fbase == own.dli_fbase;
}

bool is_within(const Location& location, const void* address, std::size_t bytes) {
  return !location.device || (location.block && location.block->holds(address, bytes));
}

void touch_read(Identity lane, const void* address, std::size_t bytes, const char* what) {
  if (bytes == 0) return;
  open_for(address, bytes, what);
  become(lane);
  const void* const bad = note_read(address, bytes);
  become(emulator_identity());
  if (bad) report("%s of %zu bytes at %p reads out of bounds at %p", what, bytes, address, bad);
}

void touch_write(Identity lane, void* address, std::size_t bytes, const char* what) {
  if (bytes == 0) return;
  open_for(address, bytes, what);
  become(lane);
  const void* const bad = note_write(address, bytes);
  become(emulator_identity());
  if (bad) report("%s of %zu bytes at %p writes out of bounds at %p", what, bytes, address, bad);
}
}  // namespace reel::emulate

extern "C" {
/// Takes the place of the C library's function, which reads memory that a protection key closes. No
/// process can read the memory of a GPU.
ssize_t process_vm_readv(pid_t process, const iovec* to, unsigned long to_count, const iovec* from,
                         unsigned long from_count, unsigned long flags) {
  const auto is_device = [](const iovec& part) {
    return reel::emulate::locate_device(part.iov_base) != nullptr;
  };
  if (std::any_of(from, from + from_count, is_device)) {
    errno = EFAULT;
    return -1;
  }
  return syscall(SYS_process_vm_readv, process, to, to_count, from, from_count, flags);
}
}
