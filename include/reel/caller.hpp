// SPDX-License-Identifier: BSD-3-Clause
// Where the user's program asked for something: what errors and records name.
#pragma once
#include <reel/export.hpp>

namespace reel {
/// A file and line. As a default argument, `Caller caller = Caller::here()` is the line of the
/// call.
struct Caller {
  const char* file = nullptr;
  unsigned line = 0;
  static constexpr Caller here(const char* file = __builtin_FILE(),
                               unsigned line = __builtin_LINE()) {
    return Caller{file, line};
  }
};

/// While it lives, every op on this thread speaks for `caller`. Layers open one with the line of
/// their user; of nested scopes the outermost counts.
class REEL_API CallerScope {
 public:
  explicit CallerScope(Caller caller);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  bool outermost_;
};
}  // namespace reel
