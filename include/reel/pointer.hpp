// SPDX-License-Identifier: BSD-3-Clause
// Pointers that own their objects: std::unique_ptr and std::shared_ptr without <memory>, which
// costs 20,000 lines.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace reel {
/// Owns an object and deletes it. A std::unique_ptr converts to it.
template <class T>
class Owned {
 public:
  Owned() = default;
  Owned(std::nullptr_t) {}
  explicit Owned(T* object) : object_(object) {}
  template <class P>
  requires(!std::is_same_v<std::remove_cvref_t<P>, Owned> && !std::is_lvalue_reference_v<P> &&
           std::is_convertible_v<decltype(std::declval<P&>().release()), T*>) Owned(P&& other)
      : object_(other.release()) {}
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { delete object_; }
  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  T* release() { return std::exchange(object_, nullptr); }
  void reset() { delete release(); }

 private:
  T* object_ = nullptr;
};
/// A new object that is owned here.
template <class T, class... Arguments>
Owned<T> make_owned(Arguments&&... arguments) {
  return Owned<T>(new T(std::forward<Arguments>(arguments)...));
}

namespace detail {
/// How many Shared own an object, and what deletes it.
struct ShareCount {
  std::int64_t references;
  void (*free)(ShareCount*);
};
template <class T>
struct SharedObject : ShareCount {
  T object;
  template <class... Arguments>
  explicit SharedObject(Arguments&&... arguments)
      : ShareCount{1, [](ShareCount* self) { delete static_cast<SharedObject*>(self); }},
        object(std::forward<Arguments>(arguments)...) {}
};
}  // namespace detail

/// Owns an object together with its copies; the last one deletes it. Copies may be on several
/// threads.
template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(std::nullptr_t) {}
  explicit Shared(detail::SharedObject<std::remove_const_t<T>>* object)
      : object_(&object->object), count_(object) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Shared(const Shared<U>& other)
      : object_(other.object_), count_(other.count_) {
    add();
  }
  Shared(const Shared& other) : object_(other.object_), count_(other.count_) { add(); }
  Shared(Shared&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)),
        count_(std::exchange(other.count_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Shared() {
    if (count_ && __atomic_sub_fetch(&count_->references, 1, __ATOMIC_ACQ_REL) == 0)
      count_->free(count_);
  }
  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  template <class>
  friend class Shared;
  void add() {
    if (count_) __atomic_add_fetch(&count_->references, 1, __ATOMIC_RELAXED);
  }
  T* object_ = nullptr;
  detail::ShareCount* count_ = nullptr;
};
/// A new object whose owners share it.
template <class T, class... Arguments>
Shared<T> make_shared_of(Arguments&&... arguments) {
  return Shared<T>(
      new detail::SharedObject<std::remove_const_t<T>>(std::forward<Arguments>(arguments)...));
}
}  // namespace reel
