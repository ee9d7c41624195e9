// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fault.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

extern "C" {
alignas(4096) unsigned char reel_faults[REEL_FAULT_COUNT];
}

namespace {
/// REEL_FAULT is the active fault. REEL_FAULT_RECORD names a file that takes the place of the
/// array, so that a run that ends in any way, and its child processes, leave what they have
/// reached.
[[gnu::constructor(101)]] void choose_fault() {
  if (const char* number = std::getenv("REEL_FAULT"))
    reel_faults[std::atoi(number)] = reel_fault::active;
  const char* name = std::getenv("REEL_FAULT_RECORD");
  if (!name) return;
  const int file = open(name, O_RDWR | O_CLOEXEC);
  if (file < 0 || mmap(reel_faults, sizeof reel_faults, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
    _exit(99);
  close(file);
}
}  // namespace
