// SPDX-License-Identifier: BSD-3-Clause
#include "lib/flow/flow.hpp"

#include <sys/single_threaded.h>

#include <memory>
#include <utility>

#include "lib/flow/context.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace {
/// Behind Lock::contexts.
constinit FlowReel* reels = nullptr;
constinit std::uint64_t begun = 0;
constinit std::uint64_t fibers = 0;  // of the flows that have begun

void remove(FlowReel& reel) {
  FlowReel** link = &reels;
  while (*link != &reel) link = &(*link)->next;
  *link = reel.next;
}

/// A tape that is destroyed inside its own gradient() is closed when gradient() has ended.
void close_own_tape(Reel& reel, std::uint64_t bit) {
  if (reel.playing & bit)
    reel.ended |= bit;
  else
    reel.close_tape(bit);
}
void close_tapes_ended_elsewhere(FlowReel& reel) {
  std::uint64_t bits = __atomic_exchange_n(&reel.ended_elsewhere, 0u, __ATOMIC_ACQUIRE);
  for (; bits; bits &= bits - 1) close_own_tape(reel, bits & -bits);
}

/// Called when the flow has ended and only this thread uses the reel. Closes the tapes that have
/// been destroyed so far. With the last tape, the reel is deleted.
void close_left_tapes(FlowReel& reel) {
  for (bool ended = false; !ended;) {
    close_tapes_ended_elsewhere(reel);
    const Locked held(Lock::contexts);
    ended = !reel.ended_elsewhere;
    if (!ended) continue;
    reel.tapes_closing = false;
    if (reel.alive) return;
    remove(reel);
  }
  delete &reel;
}
}  // namespace

FlowReel* first_reel() { return reels; }
std::uint64_t flows_begun() {
  return __atomic_load_n(&begun, __ATOMIC_RELAXED) - __atomic_load_n(&fibers, __ATOMIC_RELAXED);
}

void begin_flow(Flow& flow) {
  auto* const reel = new FlowReel(__atomic_add_fetch(&begun, 1u, __ATOMIC_RELAXED));
  flow.reel = reel;
  flow.number = reel->number;
  const Locked held(Lock::contexts);
  // A new flow may get tensors that tapes of other flows watch, or values with marks.
  for (const FlowReel* other = reels; other; other = other->next)
    if (other->live_number() || (other->flow && other->flow->is_watchful())) flow.set_watchful();
  reel->flow = &flow;
  reel->next = reels;
  reels = reel;
}

void end_flow(Flow& flow) {
  FlowReel& reel = *flow.reel;
  {
    const Locked held(Lock::contexts);
    reel.flow = nullptr;
    reel.tapes_closing = true;
  }
  close_left_tapes(reel);
}

namespace {
[[gnu::noinline]] void make_others_watchful(const Flow& flow) {
  const Locked held(Lock::contexts);
  for (const FlowReel* other = reels; other; other = other->next)
    if (other != flow.reel && other->flow) other->flow->set_watchful();
}
}  // namespace

void announce_tape(const Flow& flow) {
  if (__libc_single_threaded && !__atomic_load_n(&fibers, __ATOMIC_RELAXED)) return;
  make_others_watchful(flow);
}

void close_tapes_ended_elsewhere(Flow& flow) {
  if (!__atomic_load_n(&flow.reel->ended_elsewhere, __ATOMIC_RELAXED)) return;
  close_tapes_ended_elsewhere(*flow.reel);
  flow.update_recording();
}

void close_tape(FlowReel& reel, std::uint64_t bit) {
  Context* const context = Context::current();
  if (context && context->reel == &reel) {
    close_tapes_ended_elsewhere(*context);
    close_own_tape(reel, bit);
    return context->update_recording();
  }
  Context::here();  // gets what the tape held
  {
    const Locked held(Lock::contexts);
    __atomic_fetch_or(&reel.ended_elsewhere, bit, __ATOMIC_RELEASE);
    if (reel.flow || reel.tapes_closing) return;
    reel.tapes_closing = true;
  }
  close_left_tapes(reel);
}

FiberFlow::FiberFlow() try : generator_(new_generator()) {
  flow_.own_generator = &generator_;
  __atomic_add_fetch(&fibers, 1u, __ATOMIC_RELAXED);
  begin_flow(flow_);
} catch (const std::bad_alloc&) {
  fail_memory({}, "FiberFlow");
}
FiberFlow::~FiberFlow() { end_flow(flow_); }

void FiberFlow::swap() {
  Flow& running = Context::here();
  const Locked held(Lock::contexts);
  std::swap(running, flow_);
  running.reel->flow = &running;
  flow_.reel->flow = &flow_;
}
}  // namespace reel
