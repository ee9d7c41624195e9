// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/memory.hpp"

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

/// Sanitizers use their own malloc(), which stores no sizes in front of its blocks.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REEL_BLOCKS_OF_GLIBC 0
#else
#define REEL_BLOCKS_OF_GLIBC 1
#endif

namespace reel::tracing {
namespace {
// the largest distance from the inside of an object to its start
constexpr std::size_t most_walk = 4096;
constexpr std::uintptr_t arena_bytes = std::uintptr_t{64} << 20;

/// Whether the address is in a writable static of a program or a library.
bool is_in_static(std::uintptr_t at) {
  return dl_iterate_phdr(
             [](dl_phdr_info* module, std::size_t, void* wanted) {
               const std::uintptr_t address = *static_cast<std::uintptr_t*>(wanted);
               bool found = false, constant = false;
               for (int i = 0; i < module->dlpi_phnum; ++i) {
                 const auto& part = module->dlpi_phdr[i];
                 if (address - module->dlpi_addr - part.p_vaddr >= part.p_memsz) continue;
                 found |= part.p_type == PT_LOAD && part.p_flags & PF_W;
                 constant |= part.p_type == PT_GNU_RELRO;
               }
               return int{found && !constant};
             },
             &at) != 0;
}

struct Segment {
  std::uintptr_t inside, first, bytes;
};
/// The memory that the C library's statics are in.
Segment segment_of_libc() {
  Segment segment{reinterpret_cast<std::uintptr_t>(stdout), 0, 0};
  dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* wanted) {
        Segment& found = *static_cast<Segment*>(wanted);
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const auto& part = module->dlpi_phdr[i];
          const std::uintptr_t first = module->dlpi_addr + part.p_vaddr;
          if (part.p_type == PT_LOAD && found.inside - first < part.p_memsz)
            found.first = first, found.bytes = part.p_memsz;
        }
        return 0;
      },
      &segment);
  return segment;
}
/// Whether the value is the address of a list of free blocks, or of another static of the C
/// library. Standard streams do not count, because objects of a user may point to them.
bool is_static_of_libc(std::uintptr_t value) {
  static constinit std::uintptr_t first = 0, bytes = 0;
  if (!__atomic_load_n(&bytes, __ATOMIC_ACQUIRE)) {
    const Segment libc = segment_of_libc();
    __atomic_store_n(&first, libc.first, __ATOMIC_RELAXED);
    __atomic_store_n(&bytes, libc.bytes, __ATOMIC_RELEASE);
  }
  const bool is_stream = value == reinterpret_cast<std::uintptr_t>(stdin) ||
                         value == reinterpret_cast<std::uintptr_t>(stdout) ||
                         value == reinterpret_cast<std::uintptr_t>(stderr);
  return value - __atomic_load_n(&first, __ATOMIC_RELAXED) < bytes && !is_stream;
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
std::uintptr_t known_once(std::uintptr_t& known, std::uintptr_t (*find)()) {
  if (!__atomic_load_n(&known, __ATOMIC_RELAXED))
    __atomic_store_n(&known, find(), __ATOMIC_RELAXED);
  return __atomic_load_n(&known, __ATOMIC_RELAXED);
}
/// The start of the heap that brk() extends.
std::uintptr_t start_of_heap() {
  static constinit std::uintptr_t known = 0;
  return known_once(known, [] { return find_part("[heap]").first; });
}
/// Whether the range is on the stack of the main thread. A used part of the stack stays mapped, and
/// nothing else is mapped so near to its end.
bool is_on_main_stack(std::uintptr_t first, std::size_t bytes) {
  static constinit std::uintptr_t known = 0;
  constexpr std::size_t most = std::size_t{8} << 20;
  const std::uintptr_t end = known_once(known, [] { return find_part("[stack]").end; });
  return first < end && end - first <= most && end - first >= bytes;
}

/// Whether the range is in the first memory of an arena of malloc(). This memory begins with three
/// words: the address of the arena, which is inside of the same memory; the address of earlier
/// memory, which is 0; and the size of this memory.
bool is_first_of_arena(Memory& memory, std::uintptr_t first, std::size_t bytes) {
  const std::uintptr_t start = first & ~(arena_bytes - 1);
  std::uintptr_t head[3];
  return memory.read(start, head, sizeof head) && head[0] - start < page && head[0] % word == 0 &&
         !head[1] && head[2] <= arena_bytes && first + bytes <= start + head[2];
}

#if REEL_BLOCKS_OF_GLIBC
/// Whether these words, the size and the first two words of a block, are those of a block that
/// free() keeps for the next malloc(). glibc writes two words there: the address of the next such
/// block, mixed with the address of this block, and a key, which malloc() clears. The next block
/// has the same key. A block in use may still hold the key: the end of a thread frees its blocks
/// again and clears nothing. In a list without keys the address points to the word in front of the
/// next block's size, so the word compared here is that size. Both blocks have the same size, at
/// most 128 bytes.
bool is_kept_block(Memory& memory, std::uintptr_t block, const std::uintptr_t (&words)[3]) {
  const std::uintptr_t known = key_of_free();
  const auto [size, first, key] = words;
  const std::uintptr_t next = first ^ block >> 12, near = std::uintptr_t{1} << 26;
  const bool may_have_no_key = size < 136;
  const bool has_key = known && key == known;
  if (known && !has_key && !may_have_no_key) return false;
  if (!key || !next) return key;
  std::uintptr_t there = 0;
  return next % 16 == 0 && (has_key || next - block + near < 2 * near) &&
         memory.read(next + word, &there, sizeof there) &&
         (there == key || (may_have_no_key && (there ^ size) <= 7));
}

/// Whether a block with this size word can be at this address: in the heap of brk(), in the memory
/// of another thread's arena, or in its own mapping.
bool is_malloc_memory(Memory& memory, std::uintptr_t block, std::uintptr_t size_word) {
  constexpr std::uintptr_t mapped = 2, of_arena = 4;
  if (size_word & mapped) return block % page == 2 * word;
  if (!(size_word & of_arena)) return block < reinterpret_cast<std::uintptr_t>(sbrk(0));
  // the memory of an arena begins with the address of the arena
  std::uintptr_t arena = 0, inside = 0;
  return memory.read(block & ~(arena_bytes - 1), &arena, sizeof arena) && arena % word == 0 &&
         memory.read(arena, &inside, sizeof inside);
}

/// The number of bytes from `at` to the end of the block of malloc() that starts at `block`; 0
/// unless a block in use seems to start there. glibc stores the size in front of a block. A bit of
/// the size says whether the previous block is in use.
std::size_t bytes_in_block(Memory& memory, std::uintptr_t block, std::uintptr_t at, bool& found) {
  std::uintptr_t words[3] = {}, behind = 0;  // the size, and the first two words of the block
  if (!memory.read(block - word, words, sizeof words)) return 0;
  const std::size_t bytes = words[0] & ~std::size_t{7};
  const bool mapped = words[0] & 2;
  // The last word belongs to the next block. A block with its own mapping has no next block.
  const std::uintptr_t end = block + bytes - (mapped ? 2 : 1) * word;
  if (bytes < 32 || bytes % 16 || bytes >= std::size_t{1} << 32 || at >= end ||
      !is_malloc_memory(memory, block, words[0]))
    return 0;
  if (!mapped && (!memory.read(block + bytes - word, &behind, sizeof behind) || behind < 32))
    return 0;
  found = true;
  const bool used = mapped || (behind & 1 && !is_kept_block(memory, block, words));
  return used ? end - at : 0;
}
#endif
}  // namespace

bool read_memory(std::uintptr_t from, void* to, std::size_t bytes) {
  const iovec local{to, bytes};
  const iovec remote{reinterpret_cast<void*>(from), bytes};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (got >= 0) return static_cast<std::size_t>(got) == bytes;
  if (errno != EPERM && errno != ENOSYS) return false;
  // Some sandboxes forbid the call. Reading the file also fails without a fault if an address is
  // not mapped. The file is opened at each use: after a fork, an open file would still read the
  // memory of the parent.
  const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (memory < 0) return false;
  const ssize_t read = pread(memory, to, bytes, static_cast<off_t>(from));
  close(memory);
  return read == static_cast<ssize_t>(bytes);
}

void* MappedMemory::do_allocate(std::size_t bytes, std::size_t) {
  void* const first =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (first == MAP_FAILED) throw std::bad_alloc();
  return first;
}
void MappedMemory::do_deallocate(void* first, std::size_t bytes, std::size_t) {
  munmap(first, bytes);
}

/// Reads a page at a time, because most of what is read is in few pages.
bool Memory::read(std::uintptr_t from, void* to, std::size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  while (bytes) {
    const std::size_t offset = from % page, piece = std::min<std::size_t>(bytes, page - offset);
    auto [found, is_new] = pages_.try_emplace(from - offset);
    if (is_new) {
      auto* const copy = static_cast<std::byte*>(own_.allocate(page, word));
      if (read_memory(from - offset, copy, page)) found->second = copy;
    }
    if (!found->second) return false;
    std::memcpy(out, found->second + offset, piece);
    out += piece;
    from += piece;
    bytes -= piece;
  }
  return true;
}

/// Visits all blocks of malloc() in the heap of brk(); each block stores the distance to the next
/// one. A guess at a single address may be wrong, because the rest of an older block inside of
/// another block looks like a block too.
void Memory::find_blocks() {
  constexpr std::size_t piece = std::size_t{64} << 10, most = std::size_t{1} << 28;
  const std::uintptr_t start = start_of_heap();
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0));
  blocks_known_ = true;
  heap_ = heap_end_ = start;
  if (!start || end < start || end - start > most) return;
  auto* const copy = static_cast<std::byte*>(own_.allocate(piece, word));
  std::uintptr_t copied = 0, copied_end = 0;
  for (std::uintptr_t chunk = start; chunk + 2 * word <= end;) {
    if (chunk + 2 * word > copied_end) {
      copied = chunk;
      copied_end = std::min(chunk + piece, end);
      if (!read_memory(copied, copy, copied_end - copied)) return;
    }
    std::uintptr_t size = 0;
    std::memcpy(&size, copy + (chunk + word - copied), word);
    size &= ~std::uintptr_t{7};
    if (size < 2 * word || size % 16 || size > end - chunk) return;
    blocks_.push_back(chunk + 2 * word);
    chunk += size;
    heap_end_ = chunk;
  }
}
std::optional<Memory::Block> Memory::block_around(std::uintptr_t at) {
  if (!blocks_known_) find_blocks();
  if (at < heap_ || at >= heap_end_) return {};
  const auto next = std::upper_bound(blocks_.begin(), blocks_.end(), at);
  if (next == blocks_.begin()) return Block{at, at, 0};
  Block block{next[-1], 0, 0};
  read(block.first - word, &block.size_word, word);
  std::uintptr_t behind = 0;
  block.end = block.first + (block.size_word & ~std::uintptr_t{7}) - word;
  const bool used = block.end + word <= heap_end_ && read(block.end, &behind, word) && behind & 1;
  if (!used) block.end = block.first;
  return block;
}

bool Memory::is_static(std::uintptr_t at) {
  const auto [found, is_new] = static_.try_emplace(at - at % page);
  if (is_new) found->second = is_in_static(at);
  return found->second;
}

Mapped mapped(Memory& memory, std::uintptr_t first, std::size_t bytes) {
  if (is_on_main_stack(first, bytes)) return Mapped::main_stack;
  if (const std::uintptr_t end = stack_end(first))
    return end - first >= bytes ? Mapped::stack : Mapped::no;
  const std::uintptr_t start = start_of_heap();
  if (start && first >= start && first + bytes <= reinterpret_cast<std::uintptr_t>(sbrk(0)))
    return Mapped::below_break;
  const std::uintptr_t last = first + bytes - 1;
  if (memory.is_static(first) && (first / page == last / page || memory.is_static(last)))
    return Mapped::always;
  return is_first_of_arena(memory, first, bytes) ? Mapped::always : Mapped::no;
}

std::uintptr_t stack_end(std::uintptr_t at) {
  static constinit thread_local std::uintptr_t end = 0;
  pthread_attr_t attributes;
  if (!end && !pthread_getattr_np(pthread_self(), &attributes)) {
    void* first = nullptr;
    std::size_t bytes = 0;
    pthread_attr_getstack(&attributes, &first, &bytes);
    pthread_attr_destroy(&attributes);
    end = reinterpret_cast<std::uintptr_t>(first) + bytes;
  }
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return at > here && at < end ? end : 0;
}

namespace {
std::uintptr_t find_key_of_free() {
  std::uintptr_t keys[2] = {1, 2};
  for (std::uintptr_t& key : keys) {
    auto* const block = static_cast<volatile std::uintptr_t*>(std::malloc(key * 4 * word));
    if (!block) return 0;
    block[1] = key;
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    std::free(const_cast<std::uintptr_t*>(block));
    if (!read_memory(at + word, &key, sizeof key)) return 0;
  }
  const bool may_be_address = keys[0] < std::uintptr_t{1} << 48;
  return keys[0] == keys[1] && !may_be_address ? keys[0] : 0;
}
constexpr std::uintptr_t not_asked = 1;
constinit std::atomic<std::uintptr_t> known_key = not_asked;
}  // namespace
std::uintptr_t key_of_free() {
  std::uintptr_t key = known_key.load(std::memory_order_relaxed);
  if (key == not_asked) known_key.store(key = find_key_of_free(), std::memory_order_relaxed);
  return key;
}

bool is_waiting_block(Memory& memory, std::uintptr_t at, const std::byte* bytes,
                      std::size_t count) {
  std::uintptr_t words[2] = {};
  std::memcpy(words, bytes, std::min(count, sizeof words));
  if (is_static_of_libc(words[0])) return true;
  std::byte there;
  if (!is_static_of_libc(words[1]) || words[0] % 16 || !memory.read(words[0], &there, 1))
    return false;
  const auto block = memory.block_around(at);  // this call is slow, but rarely needed
  return !block || block->first != at || block->end == at;
}

#if !REEL_BLOCKS_OF_GLIBC
std::size_t heap_bytes(Memory&, std::uintptr_t) { return 0; }
#else
std::size_t heap_bytes(Memory& memory, std::uintptr_t at) {
  bool found = false;
  return at % 16 ? 0 : bytes_in_block(memory, at, at, found);
}
#endif

std::size_t bytes_inside([[maybe_unused]] Memory& memory, std::uintptr_t at) {
#if REEL_BLOCKS_OF_GLIBC
  bool found = false;
  for (std::uintptr_t block = at & ~std::uintptr_t{15}; block + most_walk > at; block -= 16) {
    const std::size_t bytes = bytes_in_block(memory, block, at, found);
    if (found) return std::min(bytes, unknown_bytes);
  }
#endif
  return word - at % word;
}

}  // namespace reel::tracing
