// SPDX-License-Identifier: BSD-3-Clause
// Reads of memory that may not be mapped.
#include "lib/trace/memory.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
using tracing::page;

std::uintptr_t address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

/// Whether `f` returns true in a child of this process.
bool true_in_child(const std::function<bool()>& f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(f() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

/// From now on this system call of the process fails with an error.
bool forbid(unsigned call, unsigned error) {
  sock_filter rules[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},  // the number of the system call
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{4, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Three pages, of which the middle one is not mapped.
struct Pages {
  std::byte* const first = static_cast<std::byte*>(
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Pages() {
    std::memset(first, 7, 3 * page);
    munmap(first + page, page);
  }
  ~Pages() { munmap(first, 3 * page); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
};

bool reads_around(const Pages& pages) {
  std::array<std::array<std::byte, 64>, 4> got = {};
  const std::uintptr_t first = address(pages.first);
  std::array<tracing::Piece, 4> pieces = {{{first + page - 16, got[0].data(), 64},
                                           {first + page, got[1].data(), 64},
                                           {first + 2 * page, got[2].data(), 64},
                                           {8, got[3].data(), 64}}};
  tracing::read_memory(pieces);
  std::byte there;
  return pieces[0].read == 16 && !pieces[1].read && pieces[2].read == 64 && !pieces[3].read &&
         got[0][15] == std::byte{7} && got[0][16] == std::byte{0} && got[2][63] == std::byte{7} &&
         tracing::read_memory(first, &there, 1) && !tracing::read_memory(first + page, &there, 1);
}
}  // namespace

TEST_CASE("memory is read as far as it can be, and other memory beside it") {
  CHECK(reads_around(Pages()));
}

TEST_CASE("memory is read where a sandbox forbids the call for it", "[fork]") {
  if (sanitized) return;  // a sanitizer opens files itself
  const Pages pages;
  for (const unsigned error : {EPERM, ENOSYS})
    CHECK(
        true_in_child([&] { return forbid(SYS_process_vm_readv, error) && reads_around(pages); }));
}
}  // namespace reel::tests
