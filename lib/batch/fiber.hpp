// SPDX-License-Identifier: BSD-3-Clause
// A function on a stack of its own, which can wait in the middle.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>

#include "lib/flow/flow.hpp"

namespace reel::batch {
/// Runs on one thread, and has a flow of its own. It must end before it is destroyed.
class Fiber {
 public:
  /// A stack of so many bytes, with a guard page below. Throws MemoryError.
  Fiber(std::size_t stack, void (*run)(void*), void* what);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the function until it waits or ends.
  void resume();
  /// Called on the fiber: goes back to resume().
  void wait();
  bool started() const { return started_; }
  bool ended() const { return ended_; }
  /// Bytes that are left on its stack, seen from the function that calls this.
  [[gnu::always_inline]] std::ptrdiff_t room() const {
    return static_cast<std::byte*>(__builtin_frame_address(0)) - bottom_;
  }

 private:
  /// What the C++ runtime knows of exceptions that are handled on a stack.
  struct Handled {
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  [[noreturn]] static void enter();
  void leave();
  void exchange_handled();

  std::byte* memory_ = nullptr;  // the guard page, then the stack
  std::byte* bottom_ = nullptr;  // of the stack
  std::size_t bytes_;
  void* stack_pointer_ = nullptr;
  void* outside_ = nullptr;  // the stack pointer of resume()
  void (*run_)(void*);
  void* what_;
  FiberFlow* flow_;
  Handled handled_;
  [[maybe_unused]] void *fake_stack_ = nullptr, *outer_fake_ = nullptr;  // AddressSanitizer's
  [[maybe_unused]] const void* outer_bottom_ = nullptr;
  [[maybe_unused]] std::size_t outer_bytes_ = 0;
  [[maybe_unused]] void *identity_ = nullptr, *outer_identity_ = nullptr;  // ThreadSanitizer's
  bool started_ = false, ended_ = false;
};
}  // namespace reel::batch
