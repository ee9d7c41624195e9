// SPDX-License-Identifier: BSD-3-Clause
// A vector whose first N elements need no heap.
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace reel {
template <class T, std::size_t N>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(std::size_t count) { resize(count); }
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;
  ~SmallVector() {
    if constexpr (!std::is_trivially_destructible_v<T>) std::destroy_n(first_, count_);
    if (first_ != inline_first()) ::operator delete(first_, std::align_val_t(alignof(T)));
  }
  void resize(std::size_t count) {
    reserve(count);
    while (count_ < count) new (first_ + count_++) T();
    while (count_ > count) first_[--count_].~T();
  }
  /// Moves the first element out. If it is the only one, nothing is left.
  T take_first() {
    T first = std::move(*first_);
    if (count_ == 1) first_[--count_].~T();
    return first;
  }
  void clear() {
    if (count_) resize(0);
  }
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    const std::size_t capacity = count > 2 * capacity_ ? count : 2 * capacity_;
    T* grown = static_cast<T*>(::operator new(capacity * sizeof(T), std::align_val_t(alignof(T))));
    std::uninitialized_move_n(first_, count_, grown);
    std::destroy_n(first_, count_);
    if (first_ != inline_first()) ::operator delete(first_, std::align_val_t(alignof(T)));
    first_ = grown;
    capacity_ = capacity;
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (count_ == capacity_) reserve(count_ + 1);
    return *new (first_ + count_++) T(std::forward<Args>(args)...);
  }
  void push_back(T value) { emplace_back(std::move(value)); }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return first_[i]; }
  const T& operator[](std::size_t i) const { return first_[i]; }
  T* data() { return first_; }
  const T* data() const { return first_; }
  T* begin() { return first_; }
  T* end() { return first_ + count_; }
  const T* begin() const { return first_; }
  const T* end() const { return first_ + count_; }

 private:
  T* inline_first() { return reinterpret_cast<T*>(inline_); }
  alignas(T) std::byte inline_[N * sizeof(T)];
  T* first_ = inline_first();
  std::size_t count_ = 0, capacity_ = N;
};
}  // namespace reel
