// SPDX-License-Identifier: BSD-3-Clause
// A fiber: a stack and a saved execution state. Every CUDA thread of a block is a fiber.
#pragma once
#include <cstddef>
#include <functional>

#include "cuda/emulate/sanitizers.hpp"

namespace reel::emulate {
/// A stack always belongs to the same identity. ThreadSanitizer would report two identities that
/// use one stack, even one after the other.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Prepares the next run of the fiber. The first resume() calls `body`.
  void start(std::function<void()> body);
  /// Called by the scheduler. Runs the fiber until it pauses or ends.
  void resume();
  /// Called on the fiber. Returns to the scheduler.
  void pause();
  bool ended() const { return ended_; }
  /// The running fiber; null on the scheduler's stack.
  static Fiber* current();
  bool holds(const void* address) const;

 private:
  [[noreturn]] static void enter();
  void leave(bool for_good);

  char* memory_ = nullptr;  // a guard page, then the stack
  void* stack_pointer_ = nullptr;
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  Identity identity_ = nullptr;
  std::function<void()> body_;
  bool ended_ = true;
};
}  // namespace reel::emulate
