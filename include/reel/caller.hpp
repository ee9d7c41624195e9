// SPDX-License-Identifier: BSD-3-Clause
// Where the user's program asked for something: what errors and records name.
#pragma once
#include <cstdint>
#include <string_view>

#include <reel/export.hpp>

namespace reel {
/// A file and line. As a default argument, `Caller caller = Caller::here()` is the line of the
/// call. Where the standard library makes the call for you (make_unique, emplace_back), errors name
/// no line.
struct Caller {
  const char* file = nullptr;
  unsigned line = 0;
  static constexpr Caller here(const char* file = __builtin_FILE(),
                               unsigned line = __builtin_LINE()) {
    return Caller{file, line};
  }
};

/// While it lives, the errors of every op on this thread name the line of `caller`, and `name` (if
/// any) before the op. Layers open one with the line of their user and their own name, which must
/// live as long; of nested scopes the outermost counts. Scopes may end in any order; one that ends
/// on another thread ends for the thread that made it, which must not use reel at that moment.
///
///     Tensor Linear::operator()(Operand x) const {
///       CallerScope here(x.caller(), "Linear");
class REEL_API CallerScope {
 public:
  explicit CallerScope(Caller caller, std::string_view name = {});
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  bool outermost_, names_;
  std::uint64_t thread_ = 0;
};

namespace detail {
/// A scope that is open on a thread; the innermost of its kind counts.
struct OpenScope {
  std::uint64_t thread = 0;
  OpenScope* outer = nullptr;
};
}  // namespace detail
}  // namespace reel
