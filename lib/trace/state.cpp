// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/state.hpp"

#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include "lib/dispatch/context.hpp"
#include "lib/tensor/access.hpp"
#include "lib/tensor/live.hpp"

namespace reel::tracing {
namespace {
constexpr std::uintptr_t page = 4096;
constexpr std::size_t word = sizeof(std::uintptr_t);
/// How much of an object is read: of a static, of what an address leads into the middle of, on the
/// stack, where nothing tells where an object ends, and at most.
constexpr std::size_t unknown_bytes = 64, most_stack_bytes = 8192,
                      most_bytes = std::size_t{256} << 10;
/// So far into an object pointers are followed: into one that the function points to, and others.
constexpr std::size_t most_leads = 4096, most_inner_leads = 512, most_stack_leads = 512;
/// On the stack, what is so far from a captured object is perhaps none of it; it is followed less.
constexpr std::size_t surely_captured = 64, most_beside_leads = 64;
constexpr int most_levels = 8, most_beside_levels = 3;
constexpr std::size_t most_walk = 4096;  // from inside of an object to its start
constexpr int most_levels_inside = 2;    // so many steps away an address may be inside of an object
constexpr std::size_t most_doubtful_of_region = 8;
constexpr std::size_t most_regions = 1024, most_copied = std::size_t{4} << 20;
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

/// Whether it is a static, of a program or a library, that can be written.
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
/// Whether it is the address of a list of free blocks, or another static of the C library.
bool is_static_of_libc(std::uintptr_t value) {
  static constinit std::uintptr_t first = 0, bytes = 0;
  if (!__atomic_load_n(&bytes, __ATOMIC_ACQUIRE)) {
    const Segment libc = segment_of_libc();
    __atomic_store_n(&first, libc.first, __ATOMIC_RELAXED);
    __atomic_store_n(&bytes, libc.bytes, __ATOMIC_RELEASE);
  }
  return value - __atomic_load_n(&first, __ATOMIC_RELAXED) < bytes;
}

/// Whether malloc() has this memory, or has just given it away: a block that waits begins with the
/// addresses of others, or of the list that it is in.
bool is_waiting_block(const std::byte* bytes, std::size_t count) {
  std::uintptr_t words[2] = {};
  std::memcpy(words, bytes, std::min(count, sizeof words));
  return is_static_of_libc(words[0]) || is_static_of_libc(words[1]);
}

/// Whether a tensor is there: the trace knows those that matter, and no other changes.
bool is_tensor(Memory& memory, std::uintptr_t at) {
  alignas(Body) std::byte copy[sizeof(Body)];
  if (at % block_unit || !memory.read(at, copy, sizeof copy)) return false;
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(copy[i]); };
  const unsigned device = byte(offsetof(Body, device_kind));
  if (byte(offsetof(Body, dtype)) >= 16 || byte(offsetof(Body, contiguous)) > 1 ||
      (device && device != live_number))
    return false;
  const Body& body = *std::launder(reinterpret_cast<const Body*>(copy));
  if (!body.references || body.shape.rank() > Shape::max_rank) return false;
  std::int64_t elements = 1;
  for (const std::int64_t length : body.shape)
    if (length < 0 || __builtin_mul_overflow(elements, length, &elements)) return false;
  const bool has_elements = body.owner || body.large_class ||
                            reinterpret_cast<std::uintptr_t>(body.data) == at + body_bytes;
  return elements == body.elements && has_elements && body.block_class >= body_bytes / block_unit &&
         body.block_class < small_classes;
}

/// Where the memory behind the program begins; 0 if nothing tells.
std::uintptr_t start_of_heap() {
  std::uintptr_t start = 0;
  if (std::FILE* const maps = std::fopen("/proc/self/maps", "re")) {
    char line[512];
    while (!start && std::fgets(line, sizeof line, maps))
      if (std::strstr(line, "[heap]")) start = std::strtoull(line, nullptr, 16);
    std::fclose(maps);
  }
  return start;
}

#if defined(__SANITIZE_ADDRESS__)
std::size_t heap_bytes(Memory&, std::uintptr_t) { return 0; }
#else
/// Whether the first words of a block are what glibc writes into one that free() keeps for the next
/// malloc(): the address of another such block, mixed with its own, and a key, which malloc()
/// clears.
bool is_kept_block(std::uintptr_t block, std::uintptr_t first, std::uintptr_t key) {
  const std::uintptr_t next = first ^ block >> 12, near = std::uintptr_t{1} << 26;
  return key && (!next || (next % 16 == 0 && next - block + near < 2 * near));
}

/// Whether a block with this size word can be where it is: in the memory behind the program, in the
/// memory of another thread's arena, or in a mapping of its own.
bool is_malloc_memory(Memory& memory, std::uintptr_t block, std::uintptr_t size_word) {
  constexpr std::uintptr_t mapped = 2, of_arena = 4, arena_bytes = std::uintptr_t{64} << 20;
  if (size_word & mapped) return block % page == 2 * word;
  if (!(size_word & of_arena)) return block < reinterpret_cast<std::uintptr_t>(sbrk(0));
  std::uintptr_t arena = 0, inside = 0;  // memory of an arena begins with where the arena is
  return memory.read(block & ~(arena_bytes - 1), &arena, sizeof arena) && arena % word == 0 &&
         memory.read(arena, &inside, sizeof inside);
}

/// How much there is from `at` to the end of the block of malloc() that starts at `block`, if one
/// in use seems to. glibc keeps the size of a block before it, with a bit that says whether the
/// block before that one is in use.
std::size_t bytes_in_block(Memory& memory, std::uintptr_t block, std::uintptr_t at, bool& found) {
  std::uintptr_t words[3] = {}, behind = 0;  // the size, and the first two of the block
  if (!memory.read(block - word, words, sizeof words)) return 0;
  const std::size_t bytes = words[0] & ~std::size_t{7};
  const bool mapped = words[0] & 2;
  if (bytes < 32 || bytes % 16 || bytes >= std::size_t{1} << 32 || at >= block + bytes ||
      !is_malloc_memory(memory, block, words[0]))
    return 0;
  if (!mapped && (!memory.read(block + bytes - word, &behind, sizeof behind) || behind < 32))
    return 0;
  found = true;
  const bool used = mapped || (behind & 1 && !is_kept_block(block, words[1], words[2]));
  return used ? block + bytes - word - at : 0;
}
std::size_t heap_bytes(Memory& memory, std::uintptr_t at) {
  bool found = false;
  return at % 16 ? 0 : bytes_in_block(memory, at, at, found);
}
#endif

/// The rest of the block that an address inside of an object is in. Where none is near, it may be
/// on the stack of another thread, which writes what is beside the object: one word.
std::size_t bytes_inside([[maybe_unused]] Memory& memory, std::uintptr_t at) {
#if !defined(__SANITIZE_ADDRESS__)
  bool found = false;
  for (std::uintptr_t block = at & ~std::uintptr_t{15}; block + most_walk > at; block -= 16) {
    const std::size_t bytes = bytes_in_block(memory, block, at, found);
    if (found) return std::min(bytes, unknown_bytes);
  }
#endif
  return word - at % word;
}

/// The object that this address leads to, as far as can be told; 0 if nothing tells.
std::size_t size_behind(Memory& memory, std::uintptr_t at, int level) {
  if (const std::uintptr_t end = stack_end(at))
    return std::min<std::size_t>(end - at, level == 1   ? most_stack_bytes
                                           : level == 2 ? most_stack_leads
                                                        : unknown_bytes);
  if (const std::size_t bytes = heap_bytes(memory, at)) return std::min(bytes, most_bytes);
  const std::size_t shared = heap_bytes(memory, at - 2 * word);  // behind counts of make_shared()
  if (shared) return std::min(shared - 2 * word, most_bytes);
  if (level <= most_levels_inside && memory.is_static(at)) return unknown_bytes;
  return level <= most_levels_inside ? bytes_inside(memory, at) : 0;
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

void* MappedMemory::do_allocate(std::size_t bytes, std::size_t) {
  void* const first =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (first == MAP_FAILED) throw std::bad_alloc();
  return first;
}
void MappedMemory::do_deallocate(void* first, std::size_t bytes, std::size_t) {
  munmap(first, bytes);
}

/// A page at a time: most of what is looked at is in few pages.
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

/// Walks the blocks of malloc() in the memory behind the program, each of which says where the next
/// one is: what is left of an older block inside of another one looks like one too.
void Memory::find_blocks() {
  constexpr std::size_t piece = std::size_t{64} << 10, most = std::size_t{1} << 28;
  static constinit std::uintptr_t known = 0;
  if (!__atomic_load_n(&known, __ATOMIC_RELAXED))
    __atomic_store_n(&known, start_of_heap(), __ATOMIC_RELAXED);
  const std::uintptr_t start = __atomic_load_n(&known, __ATOMIC_RELAXED);
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

void StateWatch::add(const void* first, std::size_t bytes) {
  if (bytes)
    regions_.push_back({reinterpret_cast<std::uintptr_t>(first), bytes, 0, bytes, 0, -1, 0});
}
void StateWatch::exclude(const void* first, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(first);
  excluded_.push_back({at, at + bytes});
}
void StateWatch::exclude(const Body& body) {
  exclude(&body, body.block_class * block_unit);
  if (body.large_class) exclude(body.data, static_cast<std::size_t>(body.bytes()));
}
void StateWatch::exclude(const Variable& variable) {
  exclude(&Access::cell(variable), sizeof(Cell));
}

void StateWatch::begin() {
  exclude_free_blocks();
  merge_excluded();
  Memory memory;
  std::pmr::vector<Region> known{&own_};
  std::swap(known, regions_);
  for (const Region& region : known) copy(memory, region);
  for (std::size_t i = 0;
       i < regions_.size() && regions_.size() < most_regions && copies_.size() < most_copied; ++i)
    follow(memory, i);
}

/// What tensors have left and will use again. A stale pointer may lead there.
void StateWatch::exclude_free_blocks() {
  for (const FreeList& list : Context::here().blocks)
    for (FreeBlock* block = list.first; block; block = block->next)
      exclude(block, malloc_usable_size(block));
}

void StateWatch::follow(Memory& memory, std::size_t number) {
  const Region region = regions_[number];
  const std::size_t first = (word - region.at % word) % word;
  const auto word_at = [&](std::size_t i) {
    std::uintptr_t value = 0;
    if (i + word <= region.bytes) std::memcpy(&value, copies_.data() + region.copy + i, word);
    return value;
  };
  for (std::size_t i = first; i + word <= std::min(region.bytes, region.leads); i += word) {
    const std::uintptr_t at = word_at(i), second = word_at(i + word), third = word_at(i + 2 * word);
    if (at < page || at >= end_of_addresses || excluded(region.at + i)) continue;
    const std::size_t bytes = heap_bytes(memory, at);
    // A vector: its first element, the end of its elements, the end of its memory.
    const bool is_vector = at <= second && second <= third && third - at <= bytes;
    // A text: where it is, its length, and 16 bytes that are the text itself if it is short.
    const bool is_short = at == region.at + i + 2 * word;
    const bool is_long = second && second <= third && third < bytes;
    if (!is_vector || second > at)
      lead_to(memory, at, is_vector ? second - at : most_bytes, number, i);
    if (is_vector) i += 2 * word;
    if (is_short || is_long) i += 3 * word;
  }
}

namespace {
bool holds_tensor(Memory& memory, std::uintptr_t at) {
  std::uintptr_t body = 0;
  return memory.read(at, &body, sizeof body) && is_tensor(memory, body);
}
}  // namespace

void StateWatch::lead_to(Memory& memory, std::uintptr_t at, std::size_t most, std::size_t from,
                         std::size_t offset) {
  auto known = followed_.upper_bound(at);
  if (known != followed_.begin() && at < std::prev(known)->second) return;
  if (excluded(at) || is_tensor(memory, at)) return;
  const Region& leader = regions_[from];
  const int level = leader.level + 1;
  if (level > 1 && at % alignof(std::int32_t)) return;
  const bool beside = leader.beside || (stack_end(leader.at) && offset >= surely_captured);
  const std::size_t bytes = std::min(size_behind(memory, at, level), most);
  if (!bytes) return;
  std::size_t leads = beside          ? most_beside_leads
                      : stack_end(at) ? most_stack_leads
                      : level == 1    ? most_leads
                                      : most_inner_leads;
  leads = std::min(leads, bytes);
  if (at % word || level == (beside ? most_beside_levels : most_levels)) leads = 0;
  // The last word of a block may be none of the object, and hold what was there before.
  const bool is_variable = bytes == sizeof(Cell) + word && holds_tensor(memory, at + word);
  if ((level > 2 || is_variable) && most > bytes && bytes > word)
    leads = std::min(leads, bytes - word);
  copy(memory, {at, bytes, 0, leads, level, static_cast<int>(from), offset, beside});
}

/// In pieces of a page: what follows an object need not be mapped.
void StateWatch::copy(Memory& memory, Region region) {
  region.copy = copies_.size();
  copies_.resize(region.copy + region.bytes);
  std::size_t done = 0;
  while (done < region.bytes) {
    const std::uintptr_t at = region.at + done;
    const std::size_t piece = std::min<std::size_t>(region.bytes - done, page - at % page);
    if (!memory.read(at, copies_.data() + region.copy + done, piece)) break;
    done += piece;
  }
  if (region.level > 1 && is_waiting_block(copies_.data() + region.copy, done)) done = 0;
  region.bytes = done;
  memory.read(region.at - word, &region.size_word, word);
  copies_.resize(region.copy + done);
  if (!done) return;
  regions_.push_back(region);
  std::uintptr_t& end = followed_[region.at];
  end = std::max(end, region.at + std::max<std::size_t>(std::min(region.leads, done), 1));
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
  exclude_free_blocks();
  merge_excluded();
  Memory memory;
  std::pmr::vector<std::byte>& now = now_;
  std::string found;
  // What was copied while stale pointers were followed may be no object of malloc()'s.
  const auto certain_bytes = [&](const Region& region) -> std::size_t {
    const auto block = region.level > 1 ? memory.block_around(region.at) : std::nullopt;
    if (!block) return region.bytes;
    const std::uintptr_t inside = region.at - block->first;
    // The lowest three bits of a size are flags, one of them of the block before.
    if (region.at >= block->end || (region.level > most_levels_inside && inside > 2 * word) ||
        (!inside && (block->size_word ^ region.size_word) > 7))
      return 0;
    return std::min(region.bytes, block->end - region.at);
  };
  for (const Region& region : regions_) {
    now.resize(region.bytes);
    if (led_by_known(region) || !memory.read(region.at, now.data(), region.bytes)) continue;
    if (!std::memcmp(now.data(), copies_.data() + region.copy, region.bytes)) continue;
    if (was_freed(memory, region) ||
        (region.level > 1 && is_waiting_block(now.data(), region.bytes)))
      continue;
    const std::size_t known = doubtful_.size();
    std::string change = compare(memory, region, now.data());
    if (change.empty()) continue;
    // The walk through all blocks takes long: only where something has changed.
    if (const std::size_t bytes = certain_bytes(region); bytes < region.bytes) {
      doubtful_.resize(known);
      std::memcpy(now.data() + bytes, copies_.data() + region.copy + bytes, region.bytes - bytes);
      change = compare(memory, region, now.data());
    }
    if (change.empty()) continue;
    if (found.empty()) found = std::move(change);
    if (region.level <= 1) break;
  }
  return found;
}

/// Whether a word that changed, behind two or more pointers, tells of no state. A pointer that got
/// another address is mostly memory that is used again, to which a stale pointer leads. State has
/// numbers that change, or a vector or a deque that grows: its end moves, and its start does not.
bool StateWatch::is_reused(Memory& memory, const Region& region, std::size_t start,
                           const std::byte* now) const {
  const std::byte* const before = copies_.data() + region.copy;
  const auto word_at = [&](const std::byte* bytes, std::size_t i) {
    std::uintptr_t value = 0;
    if (i + word <= region.bytes) std::memcpy(&value, bytes + i, word);
    return value;
  };
  const auto is_address = [&](std::uintptr_t value) {
    std::byte there;
    return value >= page && value < end_of_addresses && memory.read(value, &there, 1);
  };
  const std::uintptr_t old_value = word_at(before, start), value = word_at(now, start);
  if (!is_address(old_value) && !is_address(value)) return false;
  const auto stays = [&](std::size_t i) {
    return i + word <= region.bytes && word_at(before, i) == word_at(now, i) &&
           is_address(word_at(now, i));
  };
  const auto is_between = [](std::uintptr_t low, std::uintptr_t x, std::uintptr_t high) {
    return low <= x && x <= high;
  };
  const auto both_between = [&](std::uintptr_t low, std::uintptr_t high) {
    return is_between(low, old_value, high) && is_between(low, value, high);
  };
  // The end of a vector's elements is between its start and the end of its memory.
  const bool ends_vector = start >= word && stays(start - word) && stays(start + word) &&
                           both_between(word_at(now, start - word), word_at(now, start + word));
  // A deque's iterator: where it is, the first of a block, the end of the block.
  const bool ends_deque = stays(start + word) && stays(start + 2 * word) &&
                          both_between(word_at(now, start + word), word_at(now, start + 2 * word));
  return !ends_vector && !ends_deque;
}

/// The first word that changed, in words; empty if none did.
std::string StateWatch::compare(Memory& memory, const Region& region, const std::byte* now) {
  const std::byte* const before = copies_.data() + region.copy;
  const std::size_t most = doubtful_.size() + most_doubtful_of_region;
  std::string found;
  for (std::size_t i = 0; i < region.bytes && doubtful_.size() < most; ++i) {
    if (now[i] == before[i] || excluded(region.at + i)) continue;
    const std::size_t start = i - i % std::min(word, region.bytes);
    const std::size_t bytes = std::min(word, region.bytes - start);
    std::uint64_t value = 0;
    std::memcpy(&value, now + start, bytes);
    if (region.level > 1 && bytes == word && is_reused(memory, region, start, now)) {
      i = start + word - 1;
      continue;
    }
    if (found.empty()) found = describe(region, start, value);
    if (region.level <= 1) {
      doubtful_.clear();
      return found;
    }
    doubtful_.push_back({region.at + start, bytes, value});
    i = start + word - 1;
  }
  return found;
}

/// What a tensor or a Variable leads to is the trace's concern.
bool StateWatch::led_by_known(const Region& region) const {
  return region.from >= 0 &&
         excluded(regions_[static_cast<std::size_t>(region.from)].at + region.offset);
}
/// Whether the pointer was a stale one. Who frees what he still points to changes the pointer too.
bool StateWatch::was_freed(Memory& memory, const Region& region) {
  return region.from >= 0 && !stack_end(region.at) && !memory.is_static(region.at) &&
         !bytes_inside(memory, region.at);
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
  doubtful_.clear();
  excluded_.clear();
  regions_.clear();
  followed_.clear();
  copies_.clear();
}
}  // namespace reel::tracing
