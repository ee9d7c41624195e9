// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/block.hpp"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cuda/emulate/dice.hpp"
#include "cuda/emulate/report.hpp"

namespace reel::emulate {
namespace {
constexpr std::size_t static_limit = 48 << 10, shared_limit = 227 << 10;
constexpr std::size_t canary_bytes = 64;
constexpr unsigned char canary = 0xE7;

bool same(Caller a, Caller b) { return a.line == b.line && std::string_view(a.file) == b.file; }
std::uint64_t outside_of_kernels = 0;
}  // namespace
std::uint64_t* thread_accesses = &outside_of_kernels;

Block::Block(const Launch& launch, uint3 index, std::vector<Fiber*> fibers, LaunchClocks& clocks)
    : launch_(launch), clocks_(clocks), threads_(fibers.size()) {
  warps_.resize((threads_.size() + lanes_of_warp - 1) / lanes_of_warp);
  const dim3 dim = launch.block;
  for (unsigned i = 0; i < threads_.size(); ++i) {
    threads_[i].fiber = fibers[i];
    threads_[i].indices = {{i % dim.x, i / dim.x % dim.y, i / (dim.x * dim.y)},
                           index,
                           dim,
                           launch.grid,
                           i % lanes_of_warp};
  }
  current_ = threads_.data();
}

Block::~Block() {
  for (const SharedArray& array : shared_arrays_) std::free(array.memory);
}

void Block::prepare(unsigned at) {
  threads_[at].fiber->start([this] {
    clocks_.start.acquire();
    launch_.body();
    clocks_.end.release();
  });
  ready_.push_back(at);
}

cudaError_t Block::run() {
  for (unsigned i = 0; i < threads_.size(); ++i) prepare(i);
  while (error_ == cudaSuccess) {
    run_ready();
    if (left_ == threads_.size() || error_ != cudaSuccess) break;
    pass_barrier();
  }
  if (error_ == cudaSuccess)
    for (const SharedArray& array : shared_arrays_) check_end(array);
  return error_;
}

std::vector<std::uint64_t> Block::accesses_of_threads() const {
  std::vector<std::uint64_t> counts;
  for (const Thread& thread : threads_) counts.push_back(thread.accesses);
  return counts;
}

void Block::run_ready() {
  while (!ready_.empty() && error_ == cudaSuccess) {
    std::swap(ready_[roll(ready_.size())], ready_.back());
    const unsigned at = ready_.back();
    ready_.pop_back();
    current_ = &threads_[at];
    thread_accesses = &current_->accesses;
    current_->fiber->resume();
    thread_accesses = &outside_of_kernels;
    if (current_->fiber->ended()) {
      current_->wait = Wait::left;
      ++left_;
    } else if (current_->wait == Wait::warp) {
      arrive_in_warp(at);
    }
  }
}

void Block::wait(Wait what, Caller caller) {
  Thread& self = *current_;
  self.wait = what;
  self.caller = caller;
  self.fiber->pause();
}

// No thread can continue. This is correct only if all threads wait at the same barrier and none has
// ended.
void Block::pass_barrier() {
  const Thread* first = nullptr;
  votes_ = {};
  for (const Thread& thread : threads_) {
    current_ = const_cast<Thread*>(&thread);
    if (thread.wait == Wait::warp) report_threads("some lanes of a mask do not arrive");
    if (thread.wait != Wait::block) continue;
    if (!first) first = &thread;
    if (!same(thread.caller, first->caller)) report_threads("threads wait at different barriers");
    votes_.count += thread.vote;
    votes_.all &= int(thread.vote);
    votes_.any |= int(thread.vote);
  }
  if (left_ > 0) report_threads("threads wait at a barrier, but other threads have ended");
  for (Thread& thread : threads_) {
    thread.wait = Wait::none;
    ready_.push_back(index_of(thread));
  }
}

Votes Block::barrier(bool vote, Caller caller) {
  Thread& self = *current_;
  Clock& clock = barriers_[self.barriers++ % 2];
  self.vote = vote;
  clock.release();
  wait(Wait::block, caller);
  clock.acquire();
  return votes_;
}

unsigned Block::lanes_here(unsigned warp) const {
  const std::size_t lanes = threads_.size() - std::size_t(warp) * lanes_of_warp;
  return lanes >= lanes_of_warp ? ~0u : (1u << lanes) - 1;
}

void Block::arrive_in_warp(unsigned at) {
  const Thread& thread = threads_[at];
  const unsigned number = at / lanes_of_warp, lane = 1u << thread.indices.lane;
  std::vector<Exchange>& open = warps_[number].open;
  Exchange* mine = nullptr;
  // Lanes with other masks may wait here too. Each mask is an exchange of its own.
  for (Exchange& other : open)
    if (other.mask == thread.mask && same(other.caller, thread.caller)) mine = &other;
  if (!mine) mine = &open.emplace_back(Exchange{thread.mask, 0, thread.caller});
  mine->arrived |= lane;
  if (mine->arrived == (mine->mask & lanes_here(number))) finish_exchange(number, *mine);
}

void Block::finish_exchange(unsigned number, const Exchange& exchange) {
  Warp& warp = warps_[number];
  Thread* const first = &threads_[std::size_t(number) * lanes_of_warp];
  std::array<std::uint64_t, lanes_of_warp> values;
  values.fill(~std::uint64_t(0));
  for (unsigned lane = 0; lane < lanes_of_warp; ++lane)
    if (exchange.arrived >> lane & 1) values[lane] = first[lane].given;
  for (unsigned lane = 0; lane < lanes_of_warp; ++lane) {
    if (!(exchange.arrived >> lane & 1)) continue;
    first[lane].received = values;
    first[lane].wait = Wait::none;
    ready_.push_back(index_of(first[lane]));
  }
  ++warp.done;
  warp.open.erase(warp.open.begin() + (&exchange - warp.open.data()));
}

const std::uint64_t* Block::exchange(unsigned mask, std::uint64_t value, Caller caller) {
  Thread& self = *current_;
  if (!(mask >> self.indices.lane & 1))
    report("%s:%d: a lane takes part in an exchange, but the mask 0x%08x does not contain it",
           caller.file, caller.line, mask);
  self.mask = mask;
  self.given = value;
  wait(Wait::warp, caller);
  return self.received.data();
}

void Block::warp_barrier(unsigned mask, Caller caller) {
  Warp& warp = warps_[index_of(*current_) / lanes_of_warp];
  Clock& clock = warp.clocks[warp.done % warp.clocks.size()];
  clock.release();
  exchange(mask, 0, caller);
  clock.acquire();
}

unsigned Block::active_lanes() const {
  const unsigned first = index_of(*current_) / lanes_of_warp * lanes_of_warp;
  unsigned lanes = 0;
  for (unsigned i = 0; i < lanes_of_warp && first + i < threads_.size(); ++i)
    if (threads_[first + i].wait != Wait::left) lanes |= 1u << i;
  return lanes;
}

void* Block::shared_memory(const void* tag, std::size_t bytes, std::size_t alignment,
                           Caller caller) {
  for (const SharedArray& array : shared_arrays_)
    if (array.tag == tag) return array.memory;
  const bool dynamic = tag == this;
  if (!dynamic) shared_bytes_ += bytes;
  if (shared_bytes_ > static_limit)
    report("%s:%d: %zu bytes of static shared memory; a block has %zu", caller.file, caller.line,
           shared_bytes_, static_limit);
  if (shared_bytes_ + launch_.shared_bytes > shared_limit)
    report("%s:%d: %zu bytes of shared memory; a block has %zu", caller.file, caller.line,
           shared_bytes_ + launch_.shared_bytes, shared_limit);
  // The emulator allocates this memory, so it has no access history in ThreadSanitizer. The next
  // block uses the same memory.
  const Identity self = identity();
  become(emulator_identity());
  const std::size_t step = alignment < 16 ? 16 : alignment;
  const std::size_t room_bytes = (bytes + canary_bytes + step - 1) / step * step;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(step, room_bytes));
  std::memset(memory, 0xFF, bytes);  // NaN
  std::memset(memory + bytes, canary, room_bytes - bytes);
  poison(memory + bytes, room_bytes - bytes);
  shared_arrays_.push_back({tag, memory, bytes});
  become(self);
  return memory;
}

void Block::check_end(const SharedArray& array) const {
  unpoison(array.memory + array.bytes, canary_bytes);
  for (std::size_t i = 0; i < canary_bytes; ++i)
    if (array.memory[array.bytes + i] != std::byte{canary})
      report("shared memory was written %zu bytes past the end of an array of %zu bytes", i,
             array.bytes);
}

void Block::stop(cudaError_t error) {
  error_ = error;
  for (;;) current_->fiber->pause();
}

void Block::report_threads(const char* what) const {
  explain("%s:", what);
  const Thread* shown = nullptr;
  for (const Thread& thread : threads_) {
    if (shown && shown->wait == thread.wait && same(shown->caller, thread.caller)) continue;
    shown = &thread;
    explain("from thread %u on: %s %s:%d", index_of(thread),
            thread.wait == Wait::left ? "has ended; waited last at" : "waits at",
            thread.caller.file, thread.caller.line);
  }
  report("%s", what);
}
}  // namespace reel::emulate
