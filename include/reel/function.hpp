// SPDX-License-Identifier: BSD-3-Clause
// A copyable function value; std::function without <functional>, which costs 20,000 lines.
#pragma once
#include <type_traits>
#include <utility>

#include <reel/memory.hpp>

namespace reel {
template <class>
class Function;

template <class R, class... Args>
class Function<R(Args...)> {
 public:
  Function() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Function> &&
           std::is_invocable_r_v<R, F&, Args...>) Function(F f)
      : target_(made<F>(std::move(f))),
        call_([](void* target, Args&&... args) -> R {
          return static_cast<R>((*static_cast<F*>(target))(std::forward<Args>(args)...));
        }),
        copy_([](void* target) -> void* { return made<F>(*static_cast<const F*>(target)); }),
        free_([](void* target) { delete static_cast<F*>(target); }) {}
  Function(const Function& other)
      : target_(other.target_ ? other.copy_(other.target_) : nullptr),
        call_(other.call_),
        copy_(other.copy_),
        free_(other.free_) {}
  Function(Function&& other) noexcept
      : target_(std::exchange(other.target_, nullptr)),
        call_(other.call_),
        copy_(other.copy_),
        free_(other.free_) {}
  Function& operator=(Function other) noexcept {
    std::swap(target_, other.target_);
    std::swap(call_, other.call_);
    std::swap(copy_, other.copy_);
    std::swap(free_, other.free_);
    return *this;
  }
  ~Function() {
    if (target_) free_(target_);
  }
  R operator()(Args... args) const { return call_(target_, std::forward<Args>(args)...); }
  explicit operator bool() const { return target_ != nullptr; }

 private:
  template <class F, class From>
  static F* made(From&& f) try {
    return new F(std::forward<From>(f));
  } catch (const std::bad_alloc&) {
    fail_memory({}, "Function");
  }
  void* target_ = nullptr;
  R (*call_)(void*, Args&&...) = nullptr;
  void* (*copy_)(void*) = nullptr;
  void (*free_)(void*) = nullptr;
};
}  // namespace reel
