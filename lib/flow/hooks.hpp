// SPDX-License-Identifier: BSD-3-Clause
// What higher modules do when a thread begins and ends to use the library.
#pragma once  // defined in lib/assemble.cpp

namespace reel {
struct Context;
struct ContextHooks {
  /// On this thread, whose first context it is.
  void (*made)(Context& context) noexcept;
  /// Before its flow ends.
  void (*ended)(Context& context) noexcept;
};
extern const ContextHooks context_hooks;
}  // namespace reel
