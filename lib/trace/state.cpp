// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/state.hpp"

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "lib/dispatch/context.hpp"
#include "lib/tensor/access.hpp"

namespace reel::tracing {
namespace {
constexpr std::uintptr_t page = 4096;
constexpr std::size_t word = sizeof(std::uintptr_t);
/// How much of an object is read: of one whose size nothing tells, and at most (a std::mt19937 has
/// 5,000 bytes, and its position is the last word).
constexpr std::size_t unknown_bytes = 64, most_bytes = 8192;
constexpr std::size_t most_leads[] = {0, 256, 64, 0};  // by steps: pointers are followed so far
/// On the stack nothing tells where an object ends: so far for a pointer, a vector, a text.
constexpr std::size_t most_stack_leads = 24;
constexpr std::size_t most_walk = 4096;  // from inside of an object to its start
constexpr std::size_t most_regions = 512, most_copied = std::size_t{1} << 20;
constexpr std::uintptr_t end_of_addresses = std::uintptr_t{1} << 47;

/// The end of this thread's stack if `at` is in a frame that is in use, else 0.
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

/// Whether it is code or a static of a program or library.
bool in_module(std::uintptr_t at) {
  return dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* wanted) {
        const std::uintptr_t address = *static_cast<std::uintptr_t*>(wanted);
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const auto& part = module->dlpi_phdr[i];
          if (part.p_type == PT_LOAD && address - module->dlpi_addr - part.p_vaddr < part.p_memsz)
            return 1;
        }
        return 0;
      },
      &at);
}

#if defined(__SANITIZE_ADDRESS__)
std::size_t heap_bytes(std::uintptr_t) { return 0; }
#else
/// Whether the first word of a block is what glibc writes into one that free() keeps for the next
/// malloc(): the address of another such block, mixed with its own.
bool is_kept_block(std::uintptr_t block, std::uintptr_t first) {
  const std::uintptr_t next = first ^ block >> 12, near = std::uintptr_t{1} << 26;
  return !next || (next % 16 == 0 && next - block + near < 2 * near);
}

/// Whether a block with this size word can be where it is: in the memory behind the program, in the
/// memory of another thread's arena, or in a mapping of its own.
bool is_malloc_memory(std::uintptr_t block, std::uintptr_t size_word) {
  constexpr std::uintptr_t mapped = 2, of_arena = 4, arena_bytes = std::uintptr_t{64} << 20;
  if (size_word & mapped) return block % page == 2 * word;
  if (!(size_word & of_arena)) return block < reinterpret_cast<std::uintptr_t>(sbrk(0));
  std::uintptr_t arena = 0, inside = 0;  // memory of an arena begins with where the arena is
  return read_memory(block & ~(arena_bytes - 1), &arena, sizeof arena) && arena % word == 0 &&
         read_memory(arena, &inside, sizeof inside);
}

/// How much there is from `at` to the end of the block of malloc() that starts at `block`, if one
/// in use seems to. glibc keeps the size of a block before it, with a bit that says whether the
/// block before that one is in use.
std::size_t bytes_in_block(std::uintptr_t block, std::uintptr_t at, bool& found) {
  std::uintptr_t words[2] = {}, behind = 0;  // the size, and the first of the block
  if (!read_memory(block - word, words, sizeof words)) return 0;
  const std::size_t bytes = words[0] & ~std::size_t{7};
  const bool mapped = words[0] & 2;
  if (bytes < 32 || bytes % 16 || bytes >= std::size_t{1} << 32 || at >= block + bytes ||
      !is_malloc_memory(block, words[0]))
    return 0;
  if (!mapped && (!read_memory(block + bytes - word, &behind, sizeof behind) || behind < 32))
    return 0;
  found = true;
  const bool used = mapped || (behind & 1 && !is_kept_block(block, words[1]));
  return used ? block + bytes - word - at : 0;
}
std::size_t heap_bytes(std::uintptr_t at) {
  bool found = false;
  return at % 16 ? 0 : bytes_in_block(at, at, found);
}
#endif

/// The rest of the block that an address inside of an object is in. Where none is near, it may be
/// on the stack of another thread, which writes what is beside the object: one word.
std::size_t bytes_inside(std::uintptr_t at) {
#if !defined(__SANITIZE_ADDRESS__)
  bool found = false;
  for (std::uintptr_t block = at & ~std::uintptr_t{15}; block + most_walk > at; block -= 16) {
    const std::size_t bytes = bytes_in_block(block, at, found);
    if (found) return std::min(bytes, unknown_bytes);
  }
#endif
  return word - at % word;
}

/// The object that this address leads to, as far as can be told; 0 if nothing tells.
std::size_t size_behind(std::uintptr_t at) {
  if (const std::uintptr_t end = stack_end(at)) return end - at;
  if (in_module(at)) return unknown_bytes;
  if (const std::size_t bytes = heap_bytes(at)) return bytes;
  const std::size_t shared = heap_bytes(at - 2 * word);  // behind the counts of make_shared()
  return shared ? shared - 2 * word : 0;
}
}  // namespace

bool read_memory(std::uintptr_t from, void* to, std::size_t bytes) {
  const iovec local{to, bytes};
  const iovec remote{reinterpret_cast<void*>(from), bytes};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (got >= 0) return static_cast<std::size_t>(got) == bytes;
  if (errno != EPERM && errno != ENOSYS) return false;
  // Some sandboxes forbid the call; the file reports an address that is not mapped too.
  // It is opened anew each time: after a fork an open one would read the parent's memory.
  const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (memory < 0) return false;
  const ssize_t read = pread(memory, to, bytes, static_cast<off_t>(from));
  close(memory);
  return read == static_cast<ssize_t>(bytes);
}

void StateWatch::add(const void* first, std::size_t bytes) {
  if (bytes)
    regions_.push_back({reinterpret_cast<std::uintptr_t>(first), bytes, 0, bytes, 0, -1, 0});
}
void StateWatch::exclude(const void* first, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(first);
  excluded_.push_back({at, at + bytes});
}
void StateWatch::exclude(const Body& body) { exclude(&body, body.block_class * block_unit); }
void StateWatch::exclude(const Variable& variable) {
  exclude(&Access::cell(variable), sizeof(Cell));
}

void StateWatch::begin() {
  std::vector<Region> known;
  std::swap(known, regions_);
  for (const Region& region : known) copy(region);
  for (std::size_t i = 0;
       i < regions_.size() && regions_.size() < most_regions && copies_.size() < most_copied; ++i)
    follow(i);
}

void StateWatch::follow(std::size_t number) {
  const Region region = regions_[number];
  const std::size_t first = (word - region.at % word) % word;
  const auto word_at = [&](std::size_t i) {
    std::uintptr_t value = 0;
    if (i + word <= region.bytes) std::memcpy(&value, copies_.data() + region.copy + i, word);
    return value;
  };
  for (std::size_t i = first; i + word <= std::min(region.bytes, region.leads); i += word) {
    const std::uintptr_t at = word_at(i), second = word_at(i + word), third = word_at(i + 2 * word);
    if (at < page || at >= end_of_addresses) continue;
    const std::size_t bytes = heap_bytes(at);
    // A vector: its first element, the end of its elements, the end of its memory.
    const bool is_vector = at <= second && second <= third && third - at <= bytes;
    // A text: where it is, its length, and 16 bytes that are the text itself if it is short.
    const bool is_short = at == region.at + i + 2 * word;
    const bool is_long = second && second <= third && third < bytes;
    if (!is_vector || second > at) lead_to(at, is_vector ? second - at : most_bytes, number, i);
    if (is_vector) i += 2 * word;
    if (is_short || is_long) i += 3 * word;
  }
}

void StateWatch::lead_to(std::uintptr_t at, std::size_t most, std::size_t from,
                         std::size_t offset) {
  const int level = regions_[from].level + 1;
  std::size_t bytes = size_behind(at);
  if (!bytes && level == 1) bytes = bytes_inside(at);
  bytes = std::min({bytes, most, most_bytes});
  for (const Region& known : regions_) {
    if (at < known.at || at >= known.at + known.bytes) continue;
    if (at < known.at + std::max<std::size_t>(known.leads, 1)) return;
    bytes = std::min(bytes, unknown_bytes);  // to be followed
  }
  if (!bytes || (level > 1 && at % word)) return;
  std::size_t leads = most_leads[level];
  if (stack_end(at)) leads = std::min(leads, most_stack_leads);
  if (at % word) leads = 0;  // nothing there is a pointer
  // The last word of a block may be none of the object, and hold what was there before.
  if (most > bytes && bytes > word) leads = std::min(leads, bytes - word);
  copy({at, bytes, 0, leads, level, static_cast<int>(from), offset});
}

/// In pieces of a page: what follows an object need not be mapped.
void StateWatch::copy(Region region) {
  region.copy = copies_.size();
  copies_.resize(region.copy + region.bytes);
  std::size_t done = 0;
  while (done < region.bytes) {
    const std::uintptr_t at = region.at + done;
    const std::size_t piece = std::min<std::size_t>(region.bytes - done, page - at % page);
    if (!read_memory(at, copies_.data() + region.copy + done, piece)) break;
    done += piece;
  }
  region.bytes = done;
  copies_.resize(region.copy + done);
  if (done) regions_.push_back(region);
}

bool StateWatch::excluded(std::uintptr_t at) const {
  auto range = std::upper_bound(excluded_.begin(), excluded_.end(), at,
                                [](std::uintptr_t a, const Range& b) { return a < b.first; });
  return range != excluded_.begin() && at < (--range)->end;
}

/// In order, none within another.
void StateWatch::merge_excluded() {
  std::sort(excluded_.begin(), excluded_.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  std::size_t last = 0;
  for (const Range& range : excluded_)
    if (last && range.first <= excluded_[last - 1].end)
      excluded_[last - 1].end = std::max(excluded_[last - 1].end, range.end);
    else
      excluded_[last++] = range;
  excluded_.resize(last);
}

std::string StateWatch::change() {
  merge_excluded();
  std::vector<std::byte> now;
  for (const Region& region : regions_) {
    now.resize(region.bytes);
    if (led_by_known(region) || !read_memory(region.at, now.data(), region.bytes)) continue;
    const std::byte* const before = copies_.data() + region.copy;
    std::size_t i = 0;
    while (i < region.bytes && (now[i] == before[i] || excluded(region.at + i))) ++i;
    if (i == region.bytes || was_freed(region)) continue;
    const std::size_t start = i - i % std::min(word, region.bytes);
    const std::size_t bytes = std::min(word, region.bytes - start);
    std::uint64_t value = 0;
    std::memcpy(&value, now.data() + start, bytes);
    if (region.level > 1) doubtful_ = {region.at, region.bytes, region.at + start, bytes, value};
    return describe(region, start, value);
  }
  return {};
}

/// What a tensor or a Variable leads to is the trace's concern.
bool StateWatch::led_by_known(const Region& region) const {
  return region.from >= 0 &&
         excluded(regions_[static_cast<std::size_t>(region.from)].at + region.offset);
}
/// Whether the pointer was a stale one. Who frees what he still points to changes the pointer too.
bool StateWatch::was_freed(const Region& region) {
  return region.from >= 0 && !stack_end(region.at) && !in_module(region.at) &&
         !bytes_inside(region.at);
}

std::string StateWatch::describe(const Region& region, std::size_t offset,
                                 std::uint64_t now) const {
  std::uint64_t before = 0;
  std::memcpy(&before, copies_.data() + region.copy + offset,
              std::min(word, region.bytes - offset));
  std::string path = "byte " + std::to_string(offset);
  for (const Region* at = &region; at->from >= 0;) {
    path += " behind the pointer at byte " + std::to_string(at->offset);
    at = &regions_[static_cast<std::size_t>(at->from)];
  }
  char values[64];
  std::snprintf(values, sizeof values, "%#llx, now %#llx", static_cast<unsigned long long>(before),
                static_cast<unsigned long long>(now));
  return path + " of the function object: before " + values;
}

void StateWatch::clear() {
  doubtful_ = {};
  excluded_.clear();
  regions_.clear();
  copies_.clear();
}
}  // namespace reel::tracing
