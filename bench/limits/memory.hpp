// SPDX-License-Identifier: BSD-3-Clause
// The least that values and records can cost: counted blocks from a free list, records in a row.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>
#include <vector>

namespace limits {

/// Floats at the start of a cache line, zero at first; 1 KB is left free at the end, so that
/// buffers of a power of two do not stand 4096 bytes apart, where loads wait for stores.
class Buffer {
 public:
  explicit Buffer(std::size_t count) : Buffer(std::vector<float>(count)) {}
  explicit Buffer(const std::vector<float>& from)
      : count_(from.size()),
        first_(static_cast<float*>(
            std::aligned_alloc(64, (count_ * sizeof(float) + 1151) / 64 * 64))) {
    if (first_ == nullptr) throw std::bad_alloc();
    for (std::size_t i = 0; i < count_; ++i) first_[i] = from[i];
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(first_); }
  operator float*() { return first_; }
  operator const float*() const { return first_; }
  std::size_t size() const { return count_; }
  float* begin() { return first_; }
  float* end() { return first_ + count_; }
  const float* begin() const { return first_; }
  const float* end() const { return first_ + count_; }

 private:
  std::size_t count_;
  float* first_;
};

inline double sum_of_squares(const float* first, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(first[i]) * first[i];
  return sum;
}
inline double sum_of_squares(const Buffer& x) { return sum_of_squares(x.begin(), x.size()); }

inline constexpr std::size_t block_floats = 16;

/// A small value: count, a view of it, payload.
struct alignas(64) Block {
  std::int64_t count;
  Block* next;     // in the free list
  Block* storage;  // of a view
  float* data;
  std::int32_t shape[2], strides[2];
  alignas(64) float payload[block_floats];
};

inline Block* free_blocks = nullptr;

inline Block* allocate() {
  Block* block = free_blocks;
  if (block == nullptr) {
    block = new Block;
  } else {
    free_blocks = block->next;
  }
  block->count = 1;
  block->data = block->payload;
  return block;
}

inline void recycle(Block* block) {
  block->next = free_blocks;
  free_blocks = block;
}

struct PlainCount {
  static void take(Block* block) { ++block->count; }
  static void release(Block* block) {
    if (--block->count == 0) recycle(block);
  }
};
struct AtomicCount {
  static void take(Block* block) { __atomic_fetch_add(&block->count, 1, __ATOMIC_RELAXED); }
  static void release(Block* block) {
    if (__atomic_fetch_sub(&block->count, 1, __ATOMIC_ACQ_REL) == 1) recycle(block);
  }
};

/// What a tape needs of a call; it holds its inputs and its output.
struct Record {
  enum class Op : std::uint32_t { add, multiply } op;
  std::array<std::int32_t, 2> from;  // records that made the inputs, or leaves below zero
  Block *x, *y, *z;
};

}  // namespace limits
