// SPDX-License-Identifier: BSD-3-Clause
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include <reel/error.hpp>

#include "lib/body/live.hpp"
#include "lib/memory/blocks.hpp"
#include "lib/pool/process.hpp"

namespace reel {
constinit thread_local ThreadMemory* current_memory = nullptr;
constinit DeviceMemory* device_memories[device_kinds] = {};
constinit const BlockWatch* block_watch = nullptr;

namespace {
#if defined(__SANITIZE_ADDRESS__)
constexpr bool reuse_blocks = false;  // the sanitizer watches blocks only when they are freed
#else
constexpr bool reuse_blocks = true;
#endif
constexpr std::size_t huge_page = 2 << 20;

/// A huge page begins at the first set of the L1 and L2 caches, and a set holds 8 lines. If all
/// blocks began there, a pass over more than 8 blocks would evict what it reads next.
constexpr std::size_t begins = 16, between_begins = 4096 + 256;
static_assert(begins * between_begins < huge_page);

void add(std::int64_t& counter, std::int64_t amount) {
  // Others read it, only this thread writes it.
  __atomic_store_n(&counter, __atomic_load_n(&counter, __ATOMIC_RELAXED) + amount,
                   __ATOMIC_RELAXED);
}

/// Sizes of small blocks go up by 64 bytes. Large ones are rounded up to 9 ... 16 units of a power
/// of two: at most an eighth is wasted. The first has 16 of 512 bytes.
constexpr std::size_t least_shift = 9;
constexpr std::size_t least_large = small_classes - 7;
constexpr std::size_t all_classes = least_large + (60 - least_shift) * 8;
std::uint16_t large_class_of(std::size_t bytes) {
  const std::size_t shift = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 4;
  const std::size_t units = (bytes + (std::size_t{1} << shift) - 1) >> shift;
  return static_cast<std::uint16_t>(least_large + (shift - least_shift) * 8 + units - 9);
}
constexpr bool is_large(std::size_t size_class) { return size_class >= small_classes; }
constexpr std::size_t bytes_of(std::size_t size_class) {
  if (!is_large(size_class)) return size_class * block_unit;
  const std::size_t large = size_class - least_large;
  return (large % 8 + 9) << (large / 8 + least_shift);
}
static_assert(bytes_of(small_classes) == 8 << 10 && bytes_of(kept_classes - 1) == 128 << 10);

/// What all threads share, behind Lock::blocks.
struct SharedBlocks {
  FreeList lists[all_classes];
  struct Cache {
    std::size_t bytes, limit;
  };
  Cache small = {0, std::size_t{64} << 20}, large = {0, std::size_t{1} << 30};
  std::int64_t large_asked = 0;
  Cache& cache(std::size_t size_class) { return is_large(size_class) ? large : small; }
};
constinit SharedBlocks shared;

void push(FreeList& list, void* block) {
  auto* free_block = static_cast<FreeBlock*>(block);
  free_block->next = list.first;
  list.first = free_block;
  ++list.count;
}
void* pop(FreeList& list) {
  FreeBlock* block = list.first;
  list.first = block->next;
  --list.count;
  return block;
}

constexpr bool has_huge_pages(std::size_t bytes) { return bytes >= 2 * huge_page; }
void* ask_system(std::size_t bytes) {
  static constinit std::size_t number = 0;
  void* block = nullptr;
  if (!has_huge_pages(bytes)) return posix_memalign(&block, block_unit, bytes) ? nullptr : block;
  if (posix_memalign(&block, huge_page, bytes + begins * between_begins)) return nullptr;
  madvise(block, bytes, MADV_HUGEPAGE);
  const std::size_t begin = __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED) % begins;
  return static_cast<std::byte*>(block) + begin * between_begins;
}
void return_to_system(FreeList& blocks, std::size_t size_class) {
  const std::size_t alignment = has_huge_pages(bytes_of(size_class)) ? huge_page : 1;
  while (blocks.first) {
    const auto block = reinterpret_cast<std::uintptr_t>(pop(blocks));
    free(reinterpret_cast<void*>(block / alignment * alignment));
  }
}

/// Half of what a list of so many bytes holds; one where it holds none.
constexpr std::uint32_t half_list(std::size_t list_bytes, std::size_t size_class) {
  return static_cast<std::uint32_t>(list_bytes / bytes_of(size_class) / 2) + 1;
}

/// Called if the list is empty: takes blocks from the shared cache, else allocates one.
[[gnu::noinline]] void* refill(FreeList& list, std::size_t list_bytes, std::size_t size_class) {
  const std::size_t bytes = bytes_of(size_class);
  {
    const Locked held(Lock::blocks);
    FreeList& others = shared.lists[size_class];
    for (std::uint32_t i = half_list(list_bytes, size_class); i > 0 && others.first; --i) {
      push(list, pop(others));
      shared.cache(size_class).bytes -= bytes;
    }
    if (list.first) return pop(list);
    shared.large_asked += is_large(size_class);
  }
  void* block = ask_system(bytes);
  if (block) return block;
  return_blocks_to_system();
  return ask_system(bytes);
}

/// Called if the list is full: gives half of it to the shared cache, or back to the system.
[[gnu::noinline]] void spill(FreeList& list, std::size_t list_bytes, std::size_t size_class) {
  const std::size_t bytes = bytes_of(size_class);
  FreeList surplus;
  {
    const Locked held(Lock::blocks);
    SharedBlocks::Cache& cache = shared.cache(size_class);
    for (std::uint32_t i = half_list(list_bytes, size_class); i > 0 && list.first; --i) {
      const bool keep = cache.bytes + bytes <= cache.limit && reuse_blocks;
      if (keep) cache.bytes += bytes;
      push(keep ? shared.lists[size_class] : surplus, pop(list));
    }
  }
  return_to_system(surplus, size_class);
}

inline void* take_kept(ThreadMemory& memory, std::size_t size_class) {
  FreeList& list = memory.blocks[size_class];
  if (list.first) [[likely]]
    return pop(list);
  return refill(list, memory.list_bytes, size_class);
}
/// `bytes` is bytes_of(size_class), which the caller knows without asking whether it is large.
inline void give_kept(ThreadMemory& memory, void* block, std::size_t size_class,
                      std::size_t bytes) {
  FreeList& list = memory.blocks[size_class];
  push(list, block);
  if (list.count * bytes > memory.list_bytes || !reuse_blocks) [[unlikely]]
    spill(list, memory.list_bytes, size_class);
}
void* take_large(ThreadMemory& memory, std::size_t size_class) {
  if (size_class < kept_classes) return take_kept(memory, size_class);
  FreeList one;
  return refill(one, 0, size_class);
}
/// To the blocks of all threads.
void give_shared(void* block, std::size_t size_class) {
  FreeList one;
  push(one, block);
  spill(one, 0, size_class);
}
void give_large(ThreadMemory& memory, void* block, std::size_t size_class) {
  if (size_class < kept_classes) return give_kept(memory, block, size_class, bytes_of(size_class));
  give_shared(block, size_class);
}

/// Of the host's memory.
std::int64_t footprint(const Body& body) {
  const bool large = body.large_class && body.large_class < borrowed_class;
  return static_cast<std::int64_t>(body.block_class * block_unit +
                                   (large ? bytes_of(body.large_class) : 0));
}

/// The bytes that a device was asked for.
std::size_t device_bytes(const Body& body) {
  return static_cast<std::size_t>(std::max(body.bytes(), std::int64_t{1}));
}
[[gnu::noinline]] void release_on_device(const Body& body) {
  const Device device = device_of(body);
  device_memories[static_cast<int>(device.kind)]->release(device.index, body.data,
                                                          device_bytes(body));
}

/// Gives back elements that are not in blocks of the host; false if they are.
[[gnu::noinline]] bool release_outside(Body& body) {
  if (body.large_class == device_class)
    release_on_device(body);
  else if (body.large_class == borrowed_class)
    keeper_of(body).release(keeper_of(body).what);
  else
    return false;
  return true;
}

void tell_given(const Body& body) {
  if (const BlockWatch* watch = __atomic_load_n(&block_watch, __ATOMIC_ACQUIRE))
    watch->given(body.data, static_cast<std::int64_t>(bytes_of(body.large_class)));
}
void tell_taken(const Body& body) {
  if (const BlockWatch* watch = __atomic_load_n(&block_watch, __ATOMIC_ACQUIRE))
    watch->taken(body.data, static_cast<std::int64_t>(bytes_of(body.large_class)));
}

/// What threads without a cache of their own have freed.
constinit std::int64_t freed_tensors = 0, freed_bytes = 0;
[[gnu::noinline]] void destroy_for_all(Body* body) {
  __atomic_fetch_add(&freed_tensors, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&freed_bytes, footprint(*body), __ATOMIC_RELAXED);
  if (body->large_class && !release_outside(*body)) {
    tell_given(*body);
    give_shared(body->data, body->large_class);
  }
  give_shared(body, body->block_class);
}

/// Elements that are not in the body's own block. Out of line: small tensors and views have none.
[[gnu::noinline]] void give_elements(ThreadMemory& memory, Body& body) {
  if (body.large_class >= borrowed_class) {
    release_outside(body);
    return;
  }
  tell_given(body);
  add(memory.live_bytes, -static_cast<std::int64_t>(bytes_of(body.large_class)));
  give_large(memory, body.data, body.large_class);
}

void destroy(ThreadMemory& memory, Body* body) {
  const std::size_t bytes = body->block_class * block_unit;
  add(memory.live_tensors, -1);
  add(memory.live_bytes, -static_cast<std::int64_t>(bytes));
  if (body->large_class) give_elements(memory, *body);
  give_kept(memory, body, body->block_class, bytes);
}
}  // namespace

namespace {
/// Dtype, layout and device, written at once: is_plain() reads two of them at once, and would wait
/// for bytes that were written one by one.
constexpr std::size_t kind_bytes = 4;
static_assert(std::endian::native == std::endian::little);
static_assert(offsetof(Body, contiguous) == offsetof(Body, dtype) + 1 &&
              offsetof(Body, device_index) == offsetof(Body, dtype) + 3);

/// A block for a header and `bytes` of elements after it. It is counted. Null if there is no
/// memory.
inline Body* take_body(ThreadMemory& memory, std::size_t bytes) {
  const std::size_t block_class = (body_bytes + bytes + block_unit - 1) / block_unit;
  auto* body = static_cast<Body*>(take_kept(memory, block_class));
  if (!body) [[unlikely]]
    return nullptr;
  body->references = 1;
  body->leaf = no_record;
  body->id.reel = 0;
  body->block_class = static_cast<std::uint16_t>(block_class);
  body->large_class = 0;
  add(memory.live_tensors, 1);
  add(memory.live_bytes, static_cast<std::int64_t>(block_class * block_unit));
  return body;
}

[[gnu::noinline]] bool take_large_block(ThreadMemory& memory, Body& body, std::size_t bytes) {
  body.large_class = large_class_of(bytes);
  body.data = static_cast<std::byte*>(take_large(memory, body.large_class));
  if (body.data) {
    add(memory.live_bytes, static_cast<std::int64_t>(bytes_of(body.large_class)));
    tell_taken(body);
    return true;
  }
  body.large_class = 0;
  destroy(memory, &body);
  return false;
}

/// A body with memory of its own for its elements; shape and strides are the caller's to set.
inline Body* take_owner(ThreadMemory& memory, DType dtype, std::int64_t elements) {
  const std::size_t bytes =
      static_cast<std::size_t>(elements) * static_cast<std::size_t>(size_of(dtype));
  const bool large = bytes > small_bytes;
  Body* body = take_body(memory, large ? 0 : bytes);
  if (!body) [[unlikely]]
    return nullptr;
  const std::uint32_t kind = static_cast<std::uint8_t>(dtype) | 1u << 8;  // contiguous, on the CPU
  std::memcpy(&body->dtype, &kind, kind_bytes);
  body->data = reinterpret_cast<std::byte*>(body) + body_bytes;
  body->owner = nullptr;
  body->elements = elements;
  if (large && !take_large_block(memory, *body, bytes)) return nullptr;
  return body;
}
}  // namespace

Body* allocate(ThreadMemory& memory, DType dtype, const Shape& shape, std::int64_t elements) {
  Body* body = take_owner(memory, dtype, elements);
  if (!body) [[unlikely]]
    return nullptr;
  body->shape = shape;
  set_row_major(*body);
  return body;
}

std::string largest_on(Device device) {
  DeviceMemory* const memory = device_memories[static_cast<int>(device.kind)];
  return device == cpu() || !memory ? "" : memory->largest(device.index);
}
Body* allocate_on(ThreadMemory& memory, Device device, DType dtype, const Shape& shape,
                  std::int64_t elements) {
  if (device == cpu()) return allocate(memory, dtype, shape, elements);
  Body* body = take_body(memory, 0);
  if (!body) return nullptr;
  body->dtype = dtype;
  body->contiguous = true;
  body->device_kind = static_cast<std::uint8_t>(device.kind);
  body->device_index = static_cast<std::int8_t>(device.index);
  body->owner = nullptr;
  body->elements = elements;
  body->shape = shape;
  set_row_major(*body);
  try {
    body->data = device_memories[body->device_kind]->allocate(device.index, device_bytes(*body));
  } catch (...) {  // the device has failed
    body->data = nullptr;
    release(body);
    throw;
  }
  if (!body->data) {
    release(body);
    return nullptr;
  }
  body->large_class = device_class;
  return body;
}

Body* allocate_like(ThreadMemory& memory, DType dtype, const Body& like) {
  Body* body = take_owner(memory, dtype, like.elements);
  if (!body) [[unlikely]]
    return nullptr;
  body->shape = like.shape;
  std::memcpy(body->strides, like.strides, sizeof(Strides));
  return body;
}

Keeper& keeper_of(Body& borrowed) {  // behind the header, where other bodies have elements
  return *reinterpret_cast<Keeper*>(reinterpret_cast<std::byte*>(&borrowed) + body_bytes);
}

Body* allocate_borrowed(ThreadMemory& memory, const void* data, std::int64_t bytes) {
  Body* body = take_body(memory, sizeof(Keeper));
  if (!body) return nullptr;
  body->dtype = DType::uint8;
  body->contiguous = true;
  body->device_kind = 0;
  body->device_index = 0;
  body->data = static_cast<std::byte*>(const_cast<void*>(data));
  body->owner = nullptr;
  body->elements = bytes;
  body->shape = Shape({bytes});
  set_row_major(*body);
  body->large_class = borrowed_class;
  new (&keeper_of(*body)) Keeper{[](void*) noexcept {}, nullptr};
  return body;
}

Body* allocate_view(ThreadMemory& memory, Body* base) {
  Body* body = take_body(memory, 0);
  if (!body) return nullptr;
  std::memcpy(&body->dtype, &base->dtype, kind_bytes);
  body->data = base->data;
  body->owner = base->owner ? base->owner : base;
  body->elements = base->elements;
  body->shape = base->shape;
  std::memcpy(body->strides, base->strides, sizeof(Strides));
  retain(body->owner);
  return body;
}

void release(Body* body) noexcept {
  // A count of one needs no read-modify-write: nobody else can raise it.
  if (references(*body) != 1 && !detail::drop_reference(body->references)) return;
  Body* owner = body->owner;
  if (current_memory) [[likely]]
    destroy(*current_memory, body);
  else
    destroy_for_all(body);
  if (owner) release(owner);  // an owner owns its memory: one step, no chain
}

void retire_blocks(ThreadMemory& memory) {
  for (std::size_t size_class = 1; size_class < kept_classes; ++size_class)
    while (memory.blocks[size_class].first)
      spill(memory.blocks[size_class], memory.list_bytes, size_class);
}

void return_blocks_to_system() {
  for (std::size_t size_class = 1; current_memory && size_class < kept_classes; ++size_class)
    return_to_system(current_memory->blocks[size_class], size_class);
  for (std::size_t size_class = 1; size_class < all_classes; ++size_class) {
    FreeList blocks;
    {
      const Locked held(Lock::blocks);
      std::swap(blocks, shared.lists[size_class]);
      shared.cache(size_class).bytes -= blocks.count * bytes_of(size_class);
    }
    return_to_system(blocks, size_class);
  }
#ifdef __GLIBC__
  malloc_trim(0);  // free() gives back only what lies at the end of the heap
#endif
}

void set_cache_limit(std::size_t bytes) {
  {
    const Locked held(Lock::blocks);
    shared.large.limit = bytes;
    if (shared.large.bytes <= bytes) return;
  }
  return_blocks_to_system();
}

void subtract_freed(MemoryStatistics& statistics) {
  statistics.live_tensors -= __atomic_load_n(&freed_tensors, __ATOMIC_RELAXED);
  statistics.live_bytes -= __atomic_load_n(&freed_bytes, __ATOMIC_RELAXED);
}
void add_shared(MemoryStatistics& statistics) {
  const Locked held(Lock::blocks);
  statistics.cached_bytes = static_cast<std::int64_t>(shared.small.bytes + shared.large.bytes);
  statistics.large_blocks = shared.large_asked;
}
}  // namespace reel
