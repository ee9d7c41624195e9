// SPDX-License-Identifier: BSD-3-Clause
// A copyable function value; std::function without <functional>, which costs 20,000 lines.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

#include <reel/memory.hpp>

namespace reel {
namespace detail {
/// A function object in a block of malloc() that was zero: between its members and behind them
/// there is nothing that looks like a pointer to something else, which a trace would follow.
template <class F, bool over_aligned = (alignof(F) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)>
struct Target {
  F f;
  // Both are inlined, or neither: GCC 12 warns where only one of them is.
  [[gnu::always_inline]] static void* operator new(std::size_t bytes) {
    void* const memory = __builtin_calloc(1, bytes);
    if (!memory) fail_memory({}, "Function");
    asm volatile("" : : "r"(memory) : "memory");  // the compiler takes the zeros for dead
    return memory;
  }
  [[gnu::always_inline]] static void operator delete(void* memory) { __builtin_free(memory); }
};
template <class F>
struct Target<F, true> {
  F f;
};

template <class>
class Function;

/// A function object of any type with this signature. Calling an empty one is undefined.
template <class R, class... Args>
class Function<R(Args...)> {
  template <class F>
  using Target = detail::Target<F>;

 public:
  Function() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Function> &&
           std::is_invocable_r_v<R, F&, Args...>) Function(F f)
      : target_(made<F>(std::move(f))), actions_(&actions_of<F>) {
    static_assert(std::is_copy_constructible_v<F>,
                  "this function is copied, but it holds something that can only be moved: hold a "
                  "std::shared_ptr in place of a std::unique_ptr");
  }
  Function(const Function& other)
      : target_(other.target_ ? other.actions_->copy(other.target_) : nullptr),
        actions_(other.actions_) {}
  Function(Function&& other) noexcept
      : target_(std::exchange(other.target_, nullptr)), actions_(other.actions_) {}
  Function& operator=(Function other) noexcept {
    std::swap(target_, other.target_);
    std::swap(actions_, other.actions_);
    return *this;
  }
  ~Function() {
    if (target_) actions_->free(target_);
  }
  R operator()(Args... args) const { return actions_->call(target_, std::forward<Args>(args)...); }
  explicit operator bool() const { return target_ != nullptr; }
  /// The callable object inside; null if there is none.
  const void* target() const { return target_; }

 private:
  struct Actions {
    R (*call)(void*, Args&&...);
    void* (*copy)(void*);
    void (*free)(void*);
  };
  template <class F>
  static R call(void* target, Args&&... args) {
    return static_cast<R>(static_cast<Target<F>*>(target)->f(std::forward<Args>(args)...));
  }
  template <class F>
  static void* copy(void* target) {
    return made<F>(std::as_const(static_cast<Target<F>*>(target)->f));
  }
  template <class F>
  static void free(void* target) {
    delete static_cast<Target<F>*>(target);
  }
  template <class F>
  static constexpr Actions actions_of{call<F>, copy<F>, free<F>};
  template <class F, class From>
  static Target<F>* made(From&& f) try {
    return new Target<F>{std::forward<From>(f)};
  } catch (const std::bad_alloc&) {
    fail_memory({}, "Function");
  }
  void* target_ = nullptr;
  const Actions* actions_ = nullptr;
};
}  // namespace detail
}  // namespace reel
