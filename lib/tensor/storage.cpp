// SPDX-License-Identifier: BSD-3-Clause
// Memory of bodies: a free list for each thread and block size, and a cache of large blocks.
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <mutex>

#include "lib/dispatch/context.hpp"

namespace reel {
namespace {
#if defined(__SANITIZE_ADDRESS__)
constexpr bool reuse_blocks = false;  // the sanitizer watches blocks only when they are freed
#else
constexpr bool reuse_blocks = true;
#endif
constexpr std::size_t thread_list_bytes = 256 << 10;  // at most, for each block size
constexpr std::size_t shared_list_bytes = 64 << 20;
constexpr std::size_t huge_page = 2 << 20;

void add(std::int64_t& counter, std::int64_t amount) {
  // Others read it, only this thread writes it.
  __atomic_store_n(&counter, __atomic_load_n(&counter, __ATOMIC_RELAXED) + amount,
                   __ATOMIC_RELAXED);
}

/// Large sizes are rounded up to 9 ... 16 units of a power of two: at most an eighth is wasted.
std::uint16_t large_class_of(std::size_t bytes) {
  const int shift = static_cast<int>(std::bit_width(bytes - 1)) - 4;
  const std::size_t units = (bytes + (std::size_t{1} << shift) - 1) >> shift;
  return static_cast<std::uint16_t>(shift * 32 + static_cast<int>(units));
}
std::size_t large_bytes_of(std::uint16_t large_class) {
  return std::size_t{large_class % 32u} << (large_class / 32u);
}

/// What all threads share.
struct SharedBlocks {
  std::mutex mutex;
  FreeList small[small_classes];
  FreeList large[60 * 32];
  std::size_t small_cached = 0, large_cached = 0;
  std::size_t large_limit = std::size_t{1} << 30;
  std::int64_t large_asked = 0;
};
SharedBlocks& shared_blocks();
/// A fork waits for the lock: what another thread holds nobody in the child would give back.
SharedBlocks* make_shared_blocks() {
  pthread_atfork([] { shared_blocks().mutex.lock(); }, [] { shared_blocks().mutex.unlock(); },
                 [] { shared_blocks().mutex.unlock(); });
  return new SharedBlocks;
}
SharedBlocks& shared_blocks() {
  static SharedBlocks* blocks = make_shared_blocks();  // outlives every static tensor
  return *blocks;
}

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

void* ask_system(std::size_t bytes) {
  void* block = nullptr;
  const std::size_t alignment = bytes >= 2 * huge_page ? huge_page : block_unit;
  if (posix_memalign(&block, alignment, bytes)) return nullptr;
  if (alignment == huge_page) madvise(block, bytes, MADV_HUGEPAGE);
  return block;
}

constexpr std::uint32_t half_list(std::size_t block_class) {
  return static_cast<std::uint32_t>(thread_list_bytes / (block_class * block_unit) / 2) + 1;
}

/// The thread's list is empty: takes blocks that other threads gave back, else new ones.
[[gnu::noinline]] void* refill(Context& context, std::size_t block_class) {
  SharedBlocks& shared = shared_blocks();
  FreeList& list = context.small[block_class];
  {
    std::lock_guard lock(shared.mutex);
    FreeList& others = shared.small[block_class];
    for (std::uint32_t i = half_list(block_class); i > 0 && others.first; --i) {
      push(list, pop(others));
      shared.small_cached -= block_class * block_unit;
    }
  }
  if (list.first) return pop(list);
  void* block = ask_system(block_class * block_unit);
  if (block) return block;
  return_blocks_to_system();
  return ask_system(block_class * block_unit);
}

/// The thread's list is full: half of it goes to the others, or back to the system.
[[gnu::noinline]] void spill(FreeList& list, std::size_t block_class) {
  SharedBlocks& shared = shared_blocks();
  const std::size_t bytes = block_class * block_unit;
  FreeList surplus;
  {
    std::lock_guard lock(shared.mutex);
    for (std::uint32_t i = half_list(block_class); i > 0 && list.first; --i) {
      const bool keep = shared.small_cached + bytes <= shared_list_bytes && reuse_blocks;
      if (keep) shared.small_cached += bytes;
      push(keep ? shared.small[block_class] : surplus, pop(list));
    }
  }
  while (surplus.first) free(pop(surplus));
}

void* take_small(Context& context, std::size_t block_class) {
  FreeList& list = context.small[block_class];
  if (list.first) [[likely]]
    return pop(list);
  return refill(context, block_class);
}
void give_small(Context& context, void* block, std::size_t block_class) {
  FreeList& list = context.small[block_class];
  push(list, block);
  if (list.count * block_class * block_unit > thread_list_bytes || !reuse_blocks) [[unlikely]]
    spill(list, block_class);
}

void* take_large(std::uint16_t large_class) {
  SharedBlocks& shared = shared_blocks();
  {
    std::lock_guard lock(shared.mutex);
    FreeList& list = shared.large[large_class];
    if (list.first) {
      shared.large_cached -= large_bytes_of(large_class);
      return pop(list);
    }
    ++shared.large_asked;
  }
  void* block = ask_system(large_bytes_of(large_class));
  if (block) return block;
  return_blocks_to_system();
  return ask_system(large_bytes_of(large_class));
}
void give_large(void* block, std::uint16_t large_class) {
  SharedBlocks& shared = shared_blocks();
  const std::size_t bytes = large_bytes_of(large_class);
  {
    std::lock_guard lock(shared.mutex);
    if (reuse_blocks && shared.large_cached + bytes <= shared.large_limit) {
      shared.large_cached += bytes;
      push(shared.large[large_class], block);
      return;
    }
  }
  free(block);
}

std::int64_t footprint(const Body& body) {
  return static_cast<std::int64_t>(body.block_class * block_unit +
                                   (body.large_class ? large_bytes_of(body.large_class) : 0));
}

void destroy(Context& context, Body* body) {
  add(context.live_tensors, -1);
  add(context.live_bytes, -footprint(*body));
  if (body->large_class) give_large(body->data, body->large_class);
  give_small(context, body, body->block_class);
}
}  // namespace

void set_row_major(Body& body) {
  std::int64_t step = 1;
  for (int i = body.rank() - 1; i >= 0; --i) {
    body.strides[i] = step;
    step *= body.shape.data()[i];
  }
}
bool is_row_major(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  for (int i = static_cast<int>(shape.rank()) - 1; i >= 0; --i) {
    const std::int64_t length = shape.data()[i];
    if (length == 0) return true;
    if (length != 1 && strides[i] != step) return false;
    step *= length;
  }
  return true;
}

namespace {
/// A block for a header and `bytes` of elements behind it, counted; null if there is no memory.
inline Body* take_body(Context& context, std::size_t bytes) {
  const std::size_t block_class = (body_bytes + bytes + block_unit - 1) / block_unit;
  auto* body = static_cast<Body*>(take_small(context, block_class));
  if (!body) [[unlikely]]
    return nullptr;
  body->references = 1;
  body->leaf = no_record;
  body->id.reel = 0;
  body->block_class = static_cast<std::uint16_t>(block_class);
  body->large_class = 0;
  add(context.live_tensors, 1);
  add(context.live_bytes, static_cast<std::int64_t>(block_class * block_unit));
  return body;
}

[[gnu::noinline]] bool take_large_block(Context& context, Body& body, std::size_t bytes) {
  body.large_class = large_class_of(bytes);
  body.data = static_cast<std::byte*>(take_large(body.large_class));
  if (body.data) {
    add(context.live_bytes, static_cast<std::int64_t>(large_bytes_of(body.large_class)));
    return true;
  }
  body.large_class = 0;
  destroy(context, &body);
  return false;
}

/// A body with memory of its own for its elements; shape and strides are the caller's to set.
inline Body* take_owner(Context& context, DType dtype, std::int64_t elements) {
  const std::size_t bytes =
      static_cast<std::size_t>(elements) * static_cast<std::size_t>(size_of(dtype));
  const bool large = bytes > small_bytes;
  Body* body = take_body(context, large ? 0 : bytes);
  if (!body) [[unlikely]]
    return nullptr;
  body->dtype = dtype;
  body->contiguous = true;
  body->device_kind = 0;
  body->device_index = 0;
  body->data = reinterpret_cast<std::byte*>(body) + body_bytes;
  body->owner = nullptr;
  body->elements = elements;
  if (large && !take_large_block(context, *body, bytes)) return nullptr;
  return body;
}
}  // namespace

Body* allocate(Context& context, DType dtype, const Shape& shape, std::int64_t elements) {
  Body* body = take_owner(context, dtype, elements);
  if (!body) [[unlikely]]
    return nullptr;
  body->shape = shape;
  set_row_major(*body);
  return body;
}

Body* allocate_like(Context& context, DType dtype, const Body& like) {
  Body* body = take_owner(context, dtype, like.elements);
  if (!body) [[unlikely]]
    return nullptr;
  body->shape = like.shape;
  std::memcpy(body->strides, like.strides, sizeof(Strides));
  return body;
}

Body* allocate_view(Context& context, Body* base) {
  Body* body = take_body(context, 0);
  if (!body) return nullptr;
  body->dtype = base->dtype;
  body->contiguous = base->contiguous;
  body->device_kind = base->device_kind;
  body->device_index = base->device_index;
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
  if (references(*body) != 1 && __atomic_fetch_sub(&body->references, 1u, __ATOMIC_ACQ_REL) != 1)
    return;
  Context& context = Context::here();
  Body* owner = body->owner;
  destroy(context, body);
  if (owner) release(owner);  // an owner owns its memory: one step, no chain
}

void retire_blocks(Context& context) {
  for (std::size_t block_class = 1; block_class < small_classes; ++block_class)
    while (context.small[block_class].first) spill(context.small[block_class], block_class);
}

void return_blocks_to_system() {
  SharedBlocks& shared = shared_blocks();
  FreeList blocks;
  Context& context = Context::here();
  for (FreeList& list : context.small)
    while (list.first) push(blocks, pop(list));
  {
    std::lock_guard lock(shared.mutex);
    for (FreeList& list : shared.small)
      while (list.first) push(blocks, pop(list));
    for (FreeList& list : shared.large)
      while (list.first) push(blocks, pop(list));
    shared.small_cached = shared.large_cached = 0;
  }
  while (blocks.first) free(pop(blocks));
}

void set_cache_limit(std::size_t bytes) {
  SharedBlocks& shared = shared_blocks();
  {
    std::lock_guard lock(shared.mutex);
    shared.large_limit = bytes;
    if (shared.large_cached <= bytes) return;
  }
  return_blocks_to_system();
}

void add_cached(MemoryStatistics& statistics) {
  SharedBlocks& shared = shared_blocks();
  std::lock_guard lock(shared.mutex);
  statistics.cached_bytes = static_cast<std::int64_t>(shared.small_cached + shared.large_cached);
  statistics.large_blocks = shared.large_asked;
}
}  // namespace reel
