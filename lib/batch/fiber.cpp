// SPDX-License-Identifier: BSD-3-Clause
#include "lib/batch/fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <reel/error.hpp>

#include "lib/body/text.hpp"
#include "lib/pool/process.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// Saves the registers that a function must keep, the modes of floating-point numbers and the stack
// pointer; continues on the other stack.
extern "C" void reel_switch_stack(void** save, void* load);
#if defined(__x86_64__)
asm(R"(
.text
.globl reel_switch_stack
.hidden reel_switch_stack
.type reel_switch_stack, @function
reel_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size reel_switch_stack, .-reel_switch_stack
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl reel_switch_stack
.hidden reel_switch_stack
.type reel_switch_stack, %function
reel_switch_stack:
  sub sp, sp, #176
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mrs x10, fpcr
  str x10, [sp, #160]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldr x10, [sp, #160]
  msr fpcr, x10
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #176
  ret
.size reel_switch_stack, .-reel_switch_stack
)");
#else
#error "fibers have a switch for x86-64 and AArch64"
#endif

namespace reel::batch {
namespace {
constinit thread_local Fiber* running = nullptr;

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// The stack as reel_switch_stack leaves it, with `entry` as the address to return to.
void* first_frame(std::byte* top, void (*entry)()) {
#if defined(__x86_64__)
  auto** at = reinterpret_cast<void**>(top) - 2;  // the alignment of the stack after a call
  *at = reinterpret_cast<void*>(entry);
  at -= 7;
  asm volatile("stmxcsr %0" : "=m"(*reinterpret_cast<std::uint32_t*>(at)));
  asm volatile("fnstcw %0" : "=m"(*(reinterpret_cast<std::uint16_t*>(at) + 2)));
  return at;
#else
  std::byte* const at = top - 176;
  *reinterpret_cast<void**>(at + 88) = reinterpret_cast<void*>(entry);  // x30
  std::uint64_t modes;
  asm volatile("mrs %0, fpcr" : "=r"(modes));
  *reinterpret_cast<std::uint64_t*>(at + 160) = modes;
  return at;
#endif
}

/// Stacks and flows of fibers that have ended, for later fibers of this thread.
struct Spares {
  struct Spare {
    std::byte* memory;
    FiberFlow* flow;
  };
  std::vector<Spare> all;
  std::size_t bytes = 0;  // of each stack

  Spare take(std::size_t asked) {
    if (asked != bytes) drop();
    bytes = asked;
    if (!all.empty()) {
      const Spare last = all.back();
      all.pop_back();
      return last;
    }
    void* const made = mmap(nullptr, asked + page(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
      fail<MemoryError>({}, "batched", "stack", "memory for " + to_text(asked) + " bytes",
                        "none from the system");
    mprotect(made, page(), PROT_NONE);
    return {static_cast<std::byte*>(made), new FiberFlow};
  }
  void give(Spare spare, std::size_t its_bytes) {
    if (its_bytes == bytes && all.size() < 1024) return all.push_back(spare);
    munmap(spare.memory, its_bytes + page());
    delete spare.flow;
  }
  void drop() {
    for (const Spare& each : std::exchange(all, {})) {
      munmap(each.memory, bytes + page());
      delete each.flow;
    }
  }
  ~Spares() { drop(); }
};
constinit thread_local OfThread<Spares> spares;
}  // namespace

Fiber::Fiber(std::size_t stack, void (*run)(void*), void* what)
    : bytes_((stack + page() - 1) / page() * page()), run_(run), what_(what) {
  const auto [memory, flow] = spares.get().take(bytes_);
  memory_ = memory;
  flow_ = flow;
  bottom_ = memory_ + page();
  stack_pointer_ = first_frame(bottom_ + bytes_, &Fiber::enter);
#if defined(__SANITIZE_THREAD__)
  identity_ = __tsan_create_fiber(0);
#endif
}
Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(identity_);
#endif
  spares.get().give({memory_, flow_}, bytes_);
}

void Fiber::exchange_handled() {
  auto* const globals = reinterpret_cast<Handled*>(abi::__cxa_get_globals());
  std::swap(*globals, handled_);
}

void Fiber::enter() {
  Fiber& self = *running;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self.outer_bottom_, &self.outer_bytes_);
#endif
  self.run_(self.what_);
  self.ended_ = true;
  self.leave();
  std::abort();
}

void Fiber::resume() {
  started_ = true;
  Fiber* const before = std::exchange(running, this);
  exchange_handled();
  flow_->swap();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&outer_fake_, bottom_, bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  outer_identity_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(identity_, 0);
#endif
  reel_switch_stack(&outside_, stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(outer_fake_, nullptr, nullptr);
#endif
  flow_->swap();
  exchange_handled();
  running = before;
}

void Fiber::wait() { leave(); }

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(ended_ ? nullptr : &fake_stack_, outer_bottom_, outer_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(outer_identity_, 0);
#endif
  reel_switch_stack(&stack_pointer_, outside_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &outer_bottom_, &outer_bytes_);
#endif
}
}  // namespace reel::batch
