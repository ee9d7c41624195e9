// SPDX-License-Identifier: BSD-3-Clause
// The file and line of a call in the user's program, which errors and records name.
#pragma once  // defined in lib/flow
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <reel/export.hpp>

namespace reel {
/// A file and line. As a default argument, `Caller caller = Caller::here()` is the line of the
/// call. Errors name no line if the standard library makes the call (make_unique, emplace_back).
struct Caller {
  const char* file = nullptr;
  unsigned line = 0;
  static constexpr Caller here(const char* file = __builtin_FILE(),
                               unsigned line = __builtin_LINE()) {
    return Caller{file, line};
  }
};

/// While it lives, errors of all ops on this thread name the line of `caller`, and have `name` in
/// front of the name of the op. A layer makes one with the line of its user and its own name, so
/// that errors name the line that called the layer. `name` must live as long as the scope. Of
/// nested scopes the outermost counts. Scopes may end in any order. A scope may end on another
/// thread, if its own thread does not use reel meanwhile.
///
///     Tensor Linear::operator()(Operand x) const {
///       CallerScope here(x.caller(), "Linear");
class REEL_API CallerScope {
 public:
  [[nodiscard]] explicit CallerScope(Caller caller, std::string_view name = {});
  template <class S>
  requires(std::is_class_v<S> &&
           !std::is_trivially_copyable_v<S>)  // a temporary std::string would dangle
      CallerScope(Caller, S&& name)
  = delete;
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  bool outermost_, names_;
  std::uint64_t thread_ = 0;
};

namespace detail {
/// An open scope, such as a TrainScope. If such scopes are nested, the innermost counts.
struct OpenScope {
  std::uint64_t thread = 0;
  OpenScope* outer = nullptr;
};
}  // namespace detail
}  // namespace reel
