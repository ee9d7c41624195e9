// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/arena.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cuda/emulate/memory.hpp"
#include "cuda/emulate/report.hpp"

namespace reel::emulate {
namespace {
const auto page = std::size_t(sysconf(_SC_PAGESIZE));
constexpr std::size_t alignment = 256, addresses = std::size_t(64) << 30;
constexpr std::size_t filled_bytes = 64 << 20;  // more would cost time and memory
constexpr std::size_t remembered = 4096;
constexpr std::size_t most_keyed = 16'000;  // each is two mappings; Linux allows 65,530
constexpr unsigned char canary = 0xE7;

std::size_t round_up(std::size_t n, std::size_t step) { return (n + step - 1) / step * step; }

/// Opens a key for this thread, during its scope.
class Opened {
 public:
  explicit Opened(int key) : key_(key), before_(key < 0 ? 0 : pkey_get(key)) {
    if (key_ >= 0) pkey_set(key_, 0);
  }
  ~Opened() {
    if (key_ >= 0) pkey_set(key_, static_cast<unsigned>(before_));
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  const int key_, before_;
};
}  // namespace

// A direct system call, so that the sanitizers do not count the mapping as an access.
Arena::Arena(bool always_open) : always_open_(always_open) {
  const long at = syscall(SYS_mmap, nullptr, addresses, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == -1) report("no addresses for the memory of a device");
  // NOLINTNEXTLINE(performance-no-int-to-ptr): what the system gives
  base_ = reinterpret_cast<std::byte*>(at);
  end_ = base_ + addresses;
  next_ = base_ + page;
  if (!always_open && hides_memory()) key_ = pkey_alloc(0, PKEY_DISABLE_ACCESS);
}

Arena::~Arena() {
  syscall(SYS_munmap, base_, addresses);
  if (key_ >= 0) pkey_free(key_);
}

void Arena::protect(const MemoryBlock& block, bool open) const {
  const int access = open ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (block.keyed)
    syscall(SYS_pkey_mprotect, block.pages, block.page_bytes, access, key_);
  else
    syscall(SYS_mprotect, block.pages, block.page_bytes, access);
}

void Arena::set_key(unsigned rights) const {
  if (key_ >= 0) pkey_set(key_, rights);
}

// Addresses are reused only after all were used, so that stale pointers are found.
MemoryBlock* Arena::allocate(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), alignment);
  const std::size_t page_bytes = round_up(size, page);
  for (int lap = 0;; ++lap) {
    if (std::size_t(end_ - next_) < page_bytes + page) {
      if (lap > 0) return nullptr;
      next_ = base_ + page;
    }
    const auto behind = blocks_.lower_bound(next_);
    if (behind == blocks_.end() || behind->second.pages >= next_ + page_bytes + page) break;
    next_ = behind->second.pages + behind->second.page_bytes + page;
  }
  MemoryBlock& block = blocks_[next_];
  block.pages = next_;
  block.page_bytes = page_bytes;
  block.at = next_ + page_bytes - size;
  block.bytes = bytes;
  block.keyed = key_ >= 0 && blocks_.size() <= most_keyed;
  next_ += page_bytes + page;
  used_ += size;
  begin(block);
  return &block;
}

void Arena::begin(MemoryBlock& block) {
  protect(block, true);
  const Opened opened(key_);
  unpoison(block.pages, block.page_bytes);
  std::memset(block.at, 0xFF, std::min(block.bytes, filled_bytes));
  std::byte* const behind = block.at + block.bytes;
  std::memset(block.pages, canary, std::size_t(block.at - block.pages));
  std::memset(behind, canary, std::size_t(block.pages + block.page_bytes - behind));
  poison(block.pages, std::size_t(block.at - block.pages));
  poison(behind, std::size_t(block.pages + block.page_bytes - behind));
  block.live = true;
  if (!block.keyed && !always_open_ && !block.open) protect(block, false);
}

void Arena::end(MemoryBlock& block) {
  if (block.open) close_all();
  if (block.keyed || always_open_) protect(block, false);
  block.live = false;
}

void Arena::release(MemoryBlock& block) {
  check(block);
  end(block);
  unpoison(block.pages, block.page_bytes);
  syscall(SYS_madvise, block.pages, block.page_bytes, MADV_DONTNEED);
  poison(block.pages, block.page_bytes);
  used_ -= round_up(std::max<std::size_t>(block.bytes, 1), alignment);
  if (freed_.size() < remembered)
    freed_.push_back(block);
  else
    freed_[freed_at_++ % remembered] = block;
  blocks_.erase(block.pages);
}

MemoryBlock* Arena::find(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  auto behind = blocks_.upper_bound(at);
  if (behind == blocks_.begin()) return nullptr;
  MemoryBlock& block = (--behind)->second;
  return at < block.pages + block.page_bytes ? &block : nullptr;
}

const MemoryBlock* Arena::find_freed(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  for (const MemoryBlock& block : freed_)
    if (at >= block.pages && at < block.pages + block.page_bytes) return &block;
  return nullptr;
}

void Arena::open_all() const { set_key(0); }

void Arena::open(MemoryBlock& block) {
  if (block.open || always_open_) return;
  if (block.keyed) return open_all();
  protect(block, true);
  block.open = true;
  block.next_open = first_open_;
  first_open_ = &block;
}

void Arena::close_all() {
  set_key(PKEY_DISABLE_ACCESS);
  for (; first_open_; first_open_ = first_open_->next_open) {
    protect(*first_open_, false);
    first_open_->open = false;
  }
}

void Arena::check() {
  for (const auto& [at, block] : blocks_) check(block);
}

void Arena::check(const MemoryBlock& block) const {
  if (!block.live) return;
  const Opened opened(key_);
  const bool shut = !block.keyed && !block.open && !always_open_;
  if (shut) protect(block, true);
  const auto intact = [](std::byte b) { return b == std::byte{canary}; };
  const std::byte* const behind = block.at + block.bytes;
  const std::byte* const end = block.pages + block.page_bytes;
  if (const std::byte* const hit = std::find_if_not(behind, end, intact); hit != end)
    report("device memory was written %zd bytes past the end of a block of %zu bytes at %p",
           hit - behind, block.bytes, static_cast<const void*>(block.at));
  if (!std::all_of(static_cast<const std::byte*>(block.pages),
                   static_cast<const std::byte*>(block.at), intact))
    report("device memory was written before the start of a block of %zu bytes at %p", block.bytes,
           static_cast<const void*>(block.at));
  if (shut) protect(block, false);
}
}  // namespace reel::emulate
