// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/context.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

// Saves the callee-saved registers and the stack pointer, switches to the other stack, and restores
// its registers.
extern "C" void reel_emulate_switch(void** save, void* load);
#if defined(__x86_64__)
asm(R"(
.text
.globl reel_emulate_switch
.hidden reel_emulate_switch
.type reel_emulate_switch, @function
reel_emulate_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size reel_emulate_switch, .-reel_emulate_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl reel_emulate_switch
.hidden reel_emulate_switch
.type reel_emulate_switch, %function
reel_emulate_switch:
  sub sp, sp, #160
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
  mov x9, sp
  str x9, [x0]
  mov sp, x1
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
  add sp, sp, #160
  ret
.size reel_emulate_switch, .-reel_emulate_switch
)");
#else
#error "the emulator has a context switch for x86-64 and AArch64"
#endif

namespace reel::emulate {
namespace {
const auto page = std::size_t(sysconf(_SC_PAGESIZE));
constexpr std::size_t stack_bytes = 128 << 10;  // a kernel's arguments, 32 KB, may be copied twice

// The stack that resumes fibers. The emulator's lock admits one thread at a time.
struct {
  void* stack_pointer = nullptr;
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
} scheduler;
Fiber* running = nullptr;

// Stacks of fibers that have ended, each with its identity, for later fibers.
struct Spare {
  char* memory;
  Identity identity;
};
std::mutex spares_lock;
std::vector<Spare>& spares() {  // never destroyed: fibers end after main(), too
  static std::vector<Spare>& all = *new std::vector<Spare>;
  return all;
}

// A direct system call: ThreadSanitizer counts mmap() as a write by the current identity.
char* map_pages(std::size_t bytes) {
  const long at = syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == -1) std::abort();
  return reinterpret_cast<char*>(at);  // NOLINT(performance-no-int-to-ptr): what the system gives
}

// A stack as reel_emulate_switch leaves it, with `entry` as the return address.
void* first_frame(char* top, void (*entry)()) {
#if defined(__x86_64__)
  void** at = reinterpret_cast<void**>(top) - 2;  // the alignment of the stack after a call
  *at = reinterpret_cast<void*>(entry);
  return at - 6;
#else
  char* const at = top - 160;
  *reinterpret_cast<void**>(at + 88) = reinterpret_cast<void*>(entry);  // x30
  return at;
#endif
}
}  // namespace

Identity emulator_identity() {
  static const Identity one = [] {
    const Identity made = new_identity(), before = identity();
    if (made) {
      become(made);
      AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
      AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
      become(before);
    }
    return made;
  }();
  return one;
}

Fiber::Fiber() {
  {
    const std::lock_guard held(spares_lock);
    if (!spares().empty()) {
      memory_ = spares().back().memory;
      identity_ = spares().back().identity;
      spares().pop_back();
    }
  }
  if (!memory_) {
    memory_ = map_pages(page + stack_bytes);
    identity_ = new_identity();
    syscall(SYS_mprotect, memory_, page, PROT_NONE);
  }
  unpoison(memory_, page + stack_bytes);  // earlier memory at this address may have been poisoned
}

Fiber::~Fiber() {
  const std::lock_guard held(spares_lock);
  spares().push_back({memory_, identity_});
}

Fiber* Fiber::current() { return running; }

bool Fiber::holds(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto bottom = reinterpret_cast<std::uintptr_t>(memory_);
  return at >= bottom && at < bottom + page + stack_bytes;
}

void Fiber::start(std::function<void()> body) {
  body_ = std::move(body);
  if (!ended_) unpoison(memory_ + page, stack_bytes);  // a stopped fiber leaves its red zones
  ended_ = false;
  stack_pointer_ = first_frame(memory_ + page + stack_bytes, &Fiber::enter);
}

void Fiber::enter() {
  Fiber& self = *running;
  if (address_sanitizer())
    __sanitizer_finish_switch_fiber(nullptr, &scheduler.bottom, &scheduler.bytes);
  self.body_();
  self.ended_ = true;
  self.leave(true);
  std::abort();
}

void Fiber::resume() {
  running = this;
  if (address_sanitizer())
    __sanitizer_start_switch_fiber(&scheduler.fake_stack, memory_ + page, stack_bytes);
  become(identity_);
  reel_emulate_switch(&scheduler.stack_pointer, stack_pointer_);
  become(emulator_identity());
  if (address_sanitizer()) __sanitizer_finish_switch_fiber(scheduler.fake_stack, nullptr, nullptr);
  running = nullptr;
}

void Fiber::pause() { leave(false); }

void Fiber::leave(bool for_good) {
  if (address_sanitizer())
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, scheduler.bottom,
                                   scheduler.bytes);
  reel_emulate_switch(&stack_pointer_, scheduler.stack_pointer);
  if (address_sanitizer())
    __sanitizer_finish_switch_fiber(fake_stack_, &scheduler.bottom, &scheduler.bytes);
}
}  // namespace reel::emulate
