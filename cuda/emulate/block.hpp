// SPDX-License-Identifier: BSD-3-Clause
// One block of a launch: its threads, its barriers, its warps, its shared memory.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "cuda/emulate/grid.hpp"

namespace reel::emulate {
constexpr unsigned lanes_of_warp = 32;

struct LaunchClocks {
  Clock start, end;
};

/// Where the accesses of the running thread to device memory are counted.
extern std::uint64_t* thread_accesses;

class Block {
 public:
  Block(const Launch& launch, uint3 index, std::vector<Fiber*> fibers, LaunchClocks& clocks);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Runs until all threads have ended, or one has called stop().
  cudaError_t run();
  /// The accesses of each thread to device memory.
  std::vector<std::uint64_t> accesses_of_threads() const;

  // Called by the running thread:
  const ThreadIndices& here() const { return current_->indices; }
  const Launch& launch() const { return launch_; }
  Votes barrier(bool vote, Caller caller);
  const std::uint64_t* exchange(unsigned mask, std::uint64_t value, Caller caller);
  void warp_barrier(unsigned mask, Caller caller);
  unsigned active_lanes() const;
  void* shared_memory(const void* tag, std::size_t bytes, std::size_t alignment, Caller caller);
  [[noreturn]] void stop(cudaError_t error);

 private:
  enum class Wait : char { none, block, warp, left };
  struct Thread {
    ThreadIndices indices;
    Fiber* fiber = nullptr;
    Wait wait = Wait::none;
    bool vote = false;
    unsigned mask = 0, barriers = 0;
    std::uint64_t given = 0, accesses = 0;
    std::array<std::uint64_t, lanes_of_warp> received;  // by lane
    Caller caller{"", 0};
  };
  // An exchange that some lanes of the mask have not reached yet.
  struct Exchange {
    unsigned mask, arrived;
    Caller caller;
  };
  struct Warp {
    std::vector<Exchange> open;
    unsigned done = 0;
    std::array<Clock, 4> clocks;  // used alternately, as barriers_
  };
  struct SharedArray {
    const void* tag;
    std::byte* memory;
    std::size_t bytes;
  };

  void prepare(unsigned at);
  void run_ready();
  void pass_barrier();
  void arrive_in_warp(unsigned at);
  void finish_exchange(unsigned warp, const Exchange& exchange);
  void wait(Wait what, Caller caller);
  unsigned index_of(const Thread& thread) const { return unsigned(&thread - threads_.data()); }
  unsigned lanes_here(unsigned warp) const;
  void check_end(const SharedArray& array) const;
  [[noreturn]] void report_threads(const char* what) const;

  const Launch& launch_;
  LaunchClocks& clocks_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<unsigned> ready_;
  std::vector<SharedArray> shared_arrays_;
  std::size_t shared_bytes_ = 0;  // of static declarations
  unsigned left_ = 0;
  Thread* current_;
  Votes votes_;
  // Two clocks, used alternately. A thread at the next barrier must not release the clock that a
  // slower thread still has to acquire for this barrier.
  std::array<Clock, 2> barriers_;
  cudaError_t error_ = cudaSuccess;
};
}  // namespace reel::emulate
