// SPDX-License-Identifier: BSD-3-Clause
// The signal handler for accesses to closed memory. The first access of a kernel to a block opens
// the block. This finds memory that is freed, not yet allocated, or on another device, without a
// sanitizer.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda/emulate/arena.hpp"
#include "cuda/emulate/report.hpp"
#include "cuda/emulate/state.hpp"

namespace reel::emulate {
namespace {
struct sigaction before;

[[noreturn]] void say_whose(const void* address, Device& device) {
  const int number = int(device.number);
  if (const MemoryBlock* const block = device.memory.find(address)) {
    if (!block->live) report("memory at %p is used before its stream has allocated it", address);
    report("work on device %d accesses %p of device %d without peer access", running_device(),
           address, number);
  }
  if (const MemoryBlock* const block = device.memory.find_freed(address))
    report("memory at %p is used after it was freed (a block of %zu bytes)", address, block->bytes);
  report("%p is out of bounds of all blocks of device %d", address, number);
}

void on_fault(int signal, siginfo_t* about, void* context) {
  void* const address = about->si_addr;
  for (auto& device : state().devices) {
    if (!device->memory.contains(address)) continue;
    if (!device_work_runs())
      report("the host accesses %p, which is memory of device %zu", address, device->number);
    MemoryBlock* const block = device->memory.find(address);
    if (!block || !block->live || block->open || !may_touch(running_device(), *device))
      say_whose(address, *device);
    device->memory.open(*block);
    return;
  }
  if (Fiber* const fiber = Fiber::current(); fiber && fiber->holds(address))
    report("stack overflow of a CUDA thread");
  if (in_kernel()) report("a kernel accesses %p, which is not device memory", address);
  if (before.sa_flags & SA_SIGINFO && before.sa_sigaction)
    before.sa_sigaction(signal, about, context);
  else
    sigaction(SIGSEGV, &before, nullptr);
}
}  // namespace

// Called before each task, because a test framework may have installed its own handler.
void catch_faults() {
  struct sigaction action {
  }, old{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &old);
  if (!(old.sa_flags & SA_SIGINFO) || old.sa_sigaction != on_fault) before = old;
}
}  // namespace reel::emulate
