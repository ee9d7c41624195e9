// SPDX-License-Identifier: BSD-3-Clause
// Compares what the watch of state finds out about memory with what the system reports.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "trace/memory.hpp"

namespace reel::tests {
namespace {
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

/// The first address and the end of the mapping whose line of /proc/self/maps ends with this name.
std::array<std::uintptr_t, 2> mapping(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.size() > name.size() && line.substr(line.size() - name.size()) == name)
      return {std::stoull(line, nullptr, 16),
              std::stoull(line.substr(line.find('-') + 1), nullptr, 16)};
  return {0, 0};
}

struct Virtual {
  virtual ~Virtual() = default;
};
int written = 1;
}  // namespace

TEST_CASE("memory is read as far as it can be") {
  const Pages pages(4);
  std::array<std::byte, 2 * page> got;
  for (const std::size_t at : {std::size_t{0}, page - 1, page - 8, page, 2 * page - 3})
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{8}, page, page + 9}) {
      Memory memory;
      got.fill({});
      CHECK(memory.read(address(pages + at), got.data(), bytes));
      CHECK(!std::memcmp(got.data(), pages + at, bytes));
      CHECK(got[bytes] == std::byte{});
      got.fill({});
      CHECK(tracing::read_memory(address(pages + at), got.data(), bytes));
      CHECK(!std::memcmp(got.data(), pages + at, bytes));
    }
  Memory memory;
  const std::uintptr_t end = address(pages + 4 * page);
  for (const std::size_t behind : {1u, 4u, 8u}) {
    CHECK(tracing::read_memory(end - 8, got.data(), 8));
    CHECK_FALSE(tracing::read_memory(end - 8 + behind, got.data(), 8));
    CHECK(memory.read(end - 8, got.data(), 8));
    CHECK_FALSE(memory.read(end - 8 + behind, got.data(), 8));
  }
  CHECK_FALSE(tracing::read_memory(end, got.data(), 8));  // mapped, but not readable
  CHECK_FALSE(memory.read(0, got.data(), 8));
  // A Memory keeps the content of its first read.
  const std::byte before = *(pages + 5);
  *(pages + 5) ^= std::byte{1};
  CHECK(memory.read(address(pages + 5), got.data(), 1));
  CHECK(got[0] == (*(pages + 5)));
  *(pages + 5) = before;
  CHECK(memory.read(address(pages + 5), got.data(), 1));
  CHECK(got[0] != before);
}

TEST_CASE("memory is read where a sandbox forbids the call for it") {
  if (sanitized) return;  // a sanitizer opens files itself
  const Pages pages(2);
  for (const unsigned error : {EPERM, ENOSYS})
    CHECK(true_in_child([&] {
      close(0);  // the next file that is opened gets number 0
      if (!forbid(SYS_process_vm_readv, error)) return false;
      std::array<std::byte, 64> got = {};
      errno = 0;
      return tracing::read_memory(address(pages + (page - 32)), got.data(), 64) &&
             !std::memcmp(got.data(), pages + (page - 32), 64) &&
             !tracing::read_memory(64, got.data(), 64) && open("/dev/null", O_RDONLY) == 0;
    }));
}

TEST_CASE("memory of its own is mapped and given back") {
  tracing::MappedMemory memory, other;
  const std::pmr::memory_resource& same = memory;
  CHECK(same.is_equal(memory));
  CHECK_FALSE(same.is_equal(other));
  constexpr std::size_t bytes = std::size_t{8} << 20;
  void* const first = memory.allocate(bytes, 64);
  std::memset(first, 1, bytes);
  CHECK(tracing::Memory().read(address(first) + bytes - 8, std::array<char, 8>().data(), 8));
  memory.deallocate(first, bytes, 64);
  CHECK_FALSE(tracing::Memory().read(address(first) + bytes / 2, std::array<char, 8>().data(), 8));
  CHECK_THROWS_AS(static_cast<void>(memory.allocate(std::size_t{1} << 60, 64)), std::bad_alloc);
}

TEST_CASE("statics are told from constants, code, the heap and the stack") {
  static int zero, one = 1;
  static const Virtual object;
  const int local = 0;
  const Block block(40);
  const auto table = *reinterpret_cast<const std::uintptr_t*>(&object);
  Memory memory;
  for (int round = 0; round < 2; ++round) {
    CHECK(memory.is_static(address(&zero)));
    CHECK(memory.is_static(address(&one)));
    CHECK(memory.is_static(address(&written)));
    CHECK(memory.is_static(address(stdout)));
    CHECK_FALSE(memory.is_static(address("text")));
    CHECK_FALSE(memory.is_static(table));  // written only once, when the program is loaded
    CHECK_FALSE(memory.is_static(reinterpret_cast<std::uintptr_t>(&tracing::read_memory)));
    CHECK_FALSE(memory.is_static(address(&local)));
    CHECK_FALSE(memory.is_static(address(block.first)));
    CHECK_FALSE(memory.is_static(0));
  }
}

TEST_CASE("the stack of a thread ends where the system says, and begins at its newest frame") {
  const int local = 0;
  const auto below = address(__builtin_frame_address(0)) - 8 * page;
  std::uintptr_t end = 0;
  std::thread([&] {
    const int own = 0;
    CHECK(tracing::stack_end(address(&local)) == 0);
    end = tracing::stack_end(address(&own));
    CHECK(end > address(&own));
    CHECK(tracing::stack_end(end - 1) == end);
    CHECK(tracing::stack_end(end) == 0);
    CHECK(tracing::stack_end(address(__builtin_frame_address(0)) - 8 * page) == 0);
  }).join();
  const std::uintptr_t whole = tracing::stack_end(address(&local));
  CHECK(whole > address(&local));
  CHECK(whole <= mapping("[stack]")[1]);
  CHECK(tracing::stack_end(end - 1) == 0);
  CHECK(tracing::stack_end(below) == 0);
  CHECK(tracing::stack_end(address(&written)) == 0);
}

TEST_CASE("all blocks behind the program are found") {
  if (sanitized) return;
  const auto files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = files();
  const std::array<std::uintptr_t, 2> heap = mapping("[heap]");
  REQUIRE(heap[0]);
  std::vector<std::unique_ptr<Block>> blocks;
  for (std::size_t i = 0; i < 400; ++i) blocks.push_back(std::make_unique<Block>(8 + 37 * i));
  const std::array<std::uintptr_t, 2> grown = mapping("[heap]");
  for (const auto& block : blocks)
    if (address(block->first) < grown[0] || address(block->first) >= grown[1])
      SKIP("malloc takes memory outside of the heap");
  const auto check = [&](const Memory::Block& found, const Block& block) {
    return found.first == address(block.first) && found.end == found.first + block.usable() &&
           (found.size_word & ~std::uintptr_t{7}) == block.usable() + 8;
  };
  Memory memory;
  for (const auto& block : blocks)
    for (const std::size_t inside : {std::size_t{0}, std::size_t{7}, block->usable() - 1}) {
      const auto found = memory.block_around(address(block->first) + inside);
      REQUIRE(found);
      CHECK(check(*found, *block));
    }
  // Memory in front of the first block belongs to no block.
  const auto front = memory.block_around(heap[0] + 1);
  REQUIRE(front);
  CHECK(front->first == heap[0] + 1);
  CHECK(front->end == front->first);
  CHECK(front->size_word == 0);
  CHECK_FALSE(memory.block_around(heap[0] - 1));
  CHECK_FALSE(memory.block_around(address(&front)));
  CHECK_FALSE(memory.block_around(0));
  CHECK(files() == before);
  // Memory of brk() that does not belong to malloc() ends the search.
  CHECK(true_in_child([&] {
    if (sbrk(3 * page) == reinterpret_cast<void*>(-1)) return false;
    Memory other;
    const auto found = other.block_around(address(blocks[300]->first) + 5);
    return found && check(*found, *blocks[300]) && !other.block_around(address(sbrk(0)) - 8);
  }));
}
}  // namespace reel::tests
