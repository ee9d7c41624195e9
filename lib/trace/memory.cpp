// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/memory.hpp"

#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace reel::tracing {
namespace {
/// Whether the memory is in a program or a library, and whether that may write it.
Mapped mapped_by_loader(std::uintptr_t first, std::size_t bytes) {
  struct Wanted {
    std::uintptr_t first;
    std::size_t bytes;
    Mapped found = Mapped::no;
  } wanted{first, bytes};
  dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* data) {
        Wanted& wanted = *static_cast<Wanted*>(data);
        bool written = false, constant = false;
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const auto& part = module->dlpi_phdr[i];
          const std::uintptr_t inside = wanted.first - module->dlpi_addr - part.p_vaddr;
          if (inside >= part.p_memsz) continue;
          constant |=
              part.p_type == PT_GNU_RELRO || (part.p_type == PT_LOAD && !(part.p_flags & PF_W));
          written |= part.p_type == PT_LOAD && part.p_memsz - inside >= wanted.bytes;
        }
        if (constant || written) wanted.found = constant ? Mapped::constant : Mapped::always;
        return int{constant || written};
      },
      &wanted);
  return wanted.found;
}

/// The first address and the end of the mapping with this name; zeros if there is none.
struct Part {
  std::uintptr_t first = 0, end = 0;
};
Part find_part(const char* name) {
  Part part;
  if (std::FILE* const maps = std::fopen("/proc/self/maps", "re")) {
    char line[512];
    while (!part.first && std::fgets(line, sizeof line, maps)) {
      if (!std::strstr(line, name)) continue;
      char* behind = nullptr;
      part.first = std::strtoull(line, &behind, 16);
      part.end = std::strtoull(behind + 1, nullptr, 16);
    }
    std::fclose(maps);
  }
  return part;
}
/// An address that does not change, once it is known.
std::uintptr_t known_once(std::atomic<std::uintptr_t>& known, std::uintptr_t (*find)()) {
  if (!known.load(std::memory_order_relaxed)) known.store(find(), std::memory_order_relaxed);
  return known.load(std::memory_order_relaxed);
}
/// Whether malloc() is glibc's, which keeps the size of a block in front of it, with three flags.
bool is_glibc_malloc() {
  void* const block = std::malloc(40);
  std::size_t size = 0;
  read_memory(reinterpret_cast<std::uintptr_t>(block) - word, &size, word);
  const bool is = block && malloc_usable_size(block) == size / 8 * 8 - word;
  std::free(block);
  return is;
}
/// The start of the heap that brk() extends; `no_heap` where another malloc() is used.
constexpr std::uintptr_t no_heap = ~std::uintptr_t{0};
std::uintptr_t start_of_heap() {
  static constinit std::atomic<std::uintptr_t> known = 0;
  return known_once(known, [] { return is_glibc_malloc() ? find_part("[heap]").first : no_heap; });
}
/// Whether the memory is on the stack of the main thread. A used part of that stack stays mapped,
/// and nothing else is mapped so near to its end.
bool is_on_main_stack(std::uintptr_t first, std::size_t bytes) {
  static constinit std::atomic<std::uintptr_t> known = 0;
  constexpr std::size_t most = std::size_t{8} << 20;
  const std::uintptr_t end = known_once(known, [] { return find_part("[stack]").end; });
  return first < end && end - first <= most && end - first >= bytes;
}

/// The size of the block of glibc's malloc() that begins there; 0 if there is none. The words in
/// front of it and of the next block must look like sizes. Blocks that are not in the main heap
/// belong to the arena of a thread; while they are in use, a flag says so.
std::size_t block_bytes(std::uintptr_t at, bool in_main_heap) {
  constexpr std::size_t least = 32, most = std::size_t{1} << 32, in_use = 1, in_arena = 4;
  const auto size_at = [in_main_heap](std::uintptr_t header) {
    std::size_t size = 0;  // another thread may free the end of the heap meanwhile
    const bool there = read_memory(header, &size, word);
    const std::size_t flags = in_main_heap ? in_use : in_use | in_arena;
    return there && size >= least && size < most && !(size % 16 & ~flags) ? size / 16 * 16 : 0;
  };
  const std::size_t size = at % 16 ? 0 : size_at(at - word);
  return size && size_at(at - word + size) ? size - word : 0;
}

/// The stack of this thread; empty while the thread runs a fiber, whose stack is elsewhere.
Part own_stack() {
  static constinit thread_local Part stack;
  pthread_attr_t attributes;
  if (!stack.end && !pthread_getattr_np(pthread_self(), &attributes)) {
    void* first = nullptr;
    std::size_t bytes = 0;
    pthread_attr_getstack(&attributes, &first, &bytes);
    pthread_attr_destroy(&attributes);
    stack.first = reinterpret_cast<std::uintptr_t>(first);
    stack.end = stack.first + bytes;
  }
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return here >= stack.first && here < stack.end ? stack : Part();
}

/// Reads the file of this process's memory. The file is opened at each use: after a fork, an open
/// file would still read the memory of the parent.
class MemoryFile {
 public:
  MemoryFile() : file_(open("/proc/self/mem", O_RDONLY | O_CLOEXEC)) {}
  ~MemoryFile() {
    if (file_ >= 0) close(file_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::size_t read(const iovec& from, void* to) const {
    const ssize_t got = pread(file_, to, from.iov_len,
                              static_cast<off_t>(reinterpret_cast<std::uintptr_t>(from.iov_base)));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

 private:
  int file_;
};

/// The part of a piece that is not read yet, up to the end of its first page: the next page may
/// not be mapped.
iovec next_part(const Piece& piece) {
  const std::uintptr_t at = piece.from + piece.read;
  const std::size_t left = piece.bytes - piece.read, in_page = page - at % page;
  // a long piece is an object, which is mapped as a whole
  return {reinterpret_cast<void*>(at), left <= window_bytes ? std::min(left, in_page) : left};
}
/// Reads the rest of the pieces. Some sandboxes forbid the faster call.
void read_from_file(std::span<Piece> pieces) {
  const MemoryFile file;
  for (Piece& piece : pieces)
    while (piece.read < piece.bytes) {
      const std::size_t got =
          file.read(next_part(piece), static_cast<std::byte*>(piece.to) + piece.read);
      if (!got) break;
      piece.read += got;
    }
}
}  // namespace

void read_memory(std::span<Piece> pieces) {
  constexpr std::size_t most = 64;
  while (!pieces.empty()) {
    iovec from[2 * most], to[2 * most];
    std::size_t count = 0, parts = 0;
    for (; count < std::min(pieces.size(), most); ++count) {
      Piece piece = pieces[count];  // a copy, to divide it
      for (piece.read = 0; piece.read < piece.bytes; piece.read += from[parts++].iov_len) {
        from[parts] = next_part(piece);
        to[parts] = {static_cast<std::byte*>(piece.to) + piece.read, from[parts].iov_len};
      }
    }
    const ssize_t got = process_vm_readv(getpid(), to, parts, from, parts, 0);
    if (got < 0 && (errno == EPERM || errno == ENOSYS)) return read_from_file(pieces);
    // The call ends at the first byte that cannot be read. The next call begins with the next
    // piece.
    std::size_t left = got < 0 ? 0 : static_cast<std::size_t>(got), done = 0;
    while (done < count) {
      Piece& piece = pieces[done++];
      piece.read = std::min(left, piece.bytes);
      left -= piece.read;
      if (piece.read < piece.bytes) break;
    }
    pieces = pieces.subspan(done);
  }
}
bool read_memory(std::uintptr_t from, void* to, std::size_t bytes) {
  Piece piece{from, to, bytes};
  read_memory({&piece, 1});
  return piece.read == bytes;
}

Mapped mapped(std::uintptr_t first, std::size_t bytes) {
  if (is_on_main_stack(first, bytes)) return Mapped::always;
  const Part stack = own_stack();
  if (first >= stack.first && first < stack.end)
    return stack.end - first >= bytes ? Mapped::stack : Mapped::no;
  const std::uintptr_t start = start_of_heap();
  if (start && first >= start && first + bytes <= reinterpret_cast<std::uintptr_t>(sbrk(0)))
    return Mapped::below_break;
  return mapped_by_loader(first, bytes);
}

std::size_t certain_bytes(std::uintptr_t at, Mapped where, std::size_t bytes) {
  if (where != Mapped::no && where != Mapped::below_break) return bytes;
  const bool in_main_heap = where == Mapped::below_break, is_glibc = start_of_heap() != no_heap;
  std::size_t certain = is_glibc || at % 16 ? word - at % word : 16;
  if (is_glibc) {
    if (const std::size_t block = block_bytes(at, in_main_heap))
      certain = block;
    else if (block_bytes(at + word, in_main_heap))  // the pointer leads to the size of a block
      certain = 0;
  }
  return std::min(bytes, certain);
}

bool is_unused_stack(std::uintptr_t at, std::uintptr_t object) {
  constexpr std::uintptr_t most_of_fiber = std::uintptr_t{256} << 10;
  const Part stack = own_stack();
  return at < object && (stack.end ? at >= stack.first : object - at <= most_of_fiber);
}

}  // namespace reel::tracing
