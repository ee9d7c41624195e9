// SPDX-License-Identifier: BSD-3-Clause
#include "exhaustion/allocations.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace reel::tests {
namespace {
std::atomic<bool> armed{false};
std::atomic<std::int64_t> count{0}, live{0};
std::int64_t failing_number = 0;
Failing failing_kind = Failing::none;

/// Some kernels of OpenBLAS take a few kilobytes with malloc() and write to them unchecked.
bool is_blas(const void* caller) {
  Dl_info place;
  return caller && dladdr(caller, &place) && std::strstr(place.dli_fname, "blas");
}
/// `caller` is null where the allocation is surely not the BLAS's.
bool fails(const void* caller = nullptr) {
  if (!armed.load(std::memory_order_relaxed)) return false;
  const std::int64_t number = count.fetch_add(1, std::memory_order_relaxed);
  const bool chosen = failing_kind == Failing::one
                          ? number == failing_number
                          : failing_kind == Failing::all_from && number >= failing_number;
  return chosen && !is_blas(caller);
}
}  // namespace

FailingAllocations::FailingAllocations(std::int64_t k, Failing failing) {
  failing_number = k;
  failing_kind = failing;
  count = 0;
  armed = true;
}
FailingAllocations::~FailingAllocations() { armed = false; }
std::int64_t FailingAllocations::counted() { return count; }
bool FailingAllocations::failed() {
  return failing_kind != Failing::none && count > failing_number;
}
std::int64_t live_allocations() { return live; }

}  // namespace reel::tests

using reel::tests::fails;
using reel::tests::live;

#if defined(__SANITIZE_ADDRESS__)
// AddressSanitizer keeps its own malloc.
namespace {
void* take(std::size_t bytes, std::size_t alignment) {
  void* block = nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return ::posix_memalign(&block, alignment, bytes) ? nullptr : block;
}
}  // namespace
#else
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace {
void* counted_block(void* block) {
  if (block) live.fetch_add(1, std::memory_order_relaxed);
  return block;
}
}  // namespace

extern "C" {
void* malloc(std::size_t bytes) {
  return fails(__builtin_return_address(0)) ? (errno = ENOMEM, nullptr)
                                            : counted_block(__libc_malloc(bytes));
}
void* realloc(void* block, std::size_t bytes) {
  if (!block) return malloc(bytes);
  return fails() ? (errno = ENOMEM, nullptr) : __libc_realloc(block, bytes);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  if (fails()) return ENOMEM;
  *block = counted_block(__libc_memalign(alignment, bytes));
  return *block ? 0 : ENOMEM;
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return fails() ? (errno = ENOMEM, nullptr) : counted_block(__libc_memalign(alignment, bytes));
}
void* calloc(std::size_t count, std::size_t bytes) {
  return fails() ? (errno = ENOMEM, nullptr) : counted_block(__libc_calloc(count, bytes));
}
void free(void* block) {
  if (block) live.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(block);
}
}
namespace {
void* take(std::size_t bytes, std::size_t alignment) {
  return counted_block(alignment <= alignof(std::max_align_t) ? __libc_malloc(bytes)
                                                              : __libc_memalign(alignment, bytes));
}
}  // namespace
#endif

namespace {
void* new_or_throw(std::size_t bytes, std::size_t alignment = 1) {
  void* const block = fails() ? nullptr : take(bytes, alignment);
  if (!block) throw std::bad_alloc();
  return block;
}
void* new_or_null(std::size_t bytes, std::size_t alignment = 1) {
  return fails() ? nullptr : take(bytes, alignment);
}
std::size_t size_of(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }
}  // namespace

void* operator new(std::size_t bytes) { return new_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return new_or_throw(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return new_or_throw(bytes, size_of(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return new_or_throw(bytes, size_of(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return new_or_null(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return new_or_null(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return new_or_null(bytes, size_of(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t&) noexcept {
  return new_or_null(bytes, size_of(alignment));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(block);
}
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(block);
}
