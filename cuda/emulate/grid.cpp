// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/grid.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "cuda/emulate/block.hpp"
#include "cuda/emulate/dice.hpp"
#include "cuda/emulate/report.hpp"
#include "cuda/emulate/state.hpp"

namespace reel::emulate {
namespace {
Block* running = nullptr;

Block& block_here() {
  if (!running || !Fiber::current()) report("a CUDA C++ built-in is used outside of a kernel");
  return *running;
}

const char* name_of(const void* kernel) {
  Dl_info found{};
  return dladdr(kernel, &found) && found.dli_sname ? found.dli_sname : "a kernel";
}

/// Compares the accesses of a block's threads with those of the block before it. See Largest.
void note_end(const std::vector<std::uint64_t>& before, const std::vector<std::uint64_t>& block,
              std::uint64_t blocks, Largest& largest) {
  bool some_equal = false;
  std::size_t last = 0;  // of the threads with accesses
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (block[i] > before[i]) return;
    if (before[i] > 0) last = i;
    some_equal = some_equal || (block[i] > 0 && block[i] == before[i]);
  }
  const std::uint64_t fewer = before[last] - block[last];
  if (!some_equal || fewer == 0) return;
  largest.ragged = true;
  if (block[last] < fewer) return;
  largest.repeating_blocks = std::max(largest.repeating_blocks, blocks);
  largest.repeating_threads = std::max(largest.repeating_threads, blocks * block.size());
}
}  // namespace

std::vector<Fiber*> Team::pick(std::size_t count) {
  constexpr std::size_t spare = 7;
  // Only ThreadSanitizer distinguishes identities.
  const std::size_t wanted = thread_sanitizer() ? count + spare : count;
  while (fibers_.size() < wanted) fibers_.push_back(std::make_unique<Fiber>());
  next_ += 1 + roll(spare);
  std::vector<Fiber*> picked(count);
  for (std::size_t i = 0; i < count; ++i) picked[i] = fibers_[(next_ + i) % fibers_.size()].get();
  return picked;
}

cudaError_t run_grid(const Launch& launch, Team& team, Identity stream) {
  // Each launch has its own clock. A shared clock would order launches that are not ordered.
  const auto clocks = std::make_unique<LaunchClocks>();
  become(stream);
  clocks->start.release();
  become(emulator_identity());
  const auto count = [](dim3 size) { return std::size_t(size.x) * size.y * size.z; };
  std::vector<std::size_t> order(count(launch.grid));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  shuffle(order);
  const std::size_t threads = count(launch.block);
  const bool compares = order.size() >= 3;
  std::vector<std::vector<std::uint64_t>> accesses(compares ? order.size() : 0);
  cudaError_t error = cudaSuccess;
  for (const std::size_t at : order) {
    const std::size_t width = launch.grid.x, height = launch.grid.y;
    const uint3 index = {unsigned(at % width), unsigned(at / width % height),
                         unsigned(at / (width * height))};
    Block block(launch, index, team.pick(threads), *clocks);
    running = &block;
    error = block.run();
    running = nullptr;
    if (error != cudaSuccess) break;
    if (compares) accesses[at] = block.accesses_of_threads();
  }
  const auto largest = state().largest_launches.find(launch.kernel);
  if (error == cudaSuccess && largest != state().largest_launches.end())
    for (std::size_t i = 1; i < accesses.size(); ++i)
      note_end(accesses[i - 1], accesses[i], order.size(), largest->second);
  become(stream);
  clocks->end.acquire();
  become(emulator_identity());
  return error;
}

void run_alone(const std::function<void()>& body, Team& team, Identity stream) {
  const auto clocks = std::make_unique<LaunchClocks>();
  become(stream);
  clocks->start.release();
  become(emulator_identity());
  Fiber& fiber = *team.pick(1)[0];
  fiber.start([&] {
    clocks->start.acquire();
    body();
    clocks->end.release();
  });
  while (!fiber.ended()) fiber.resume();
  become(stream);
  clocks->end.acquire();
  become(emulator_identity());
}

bool in_kernel() { return running != nullptr; }

void explain_thread() {
  if (!running) return;
  const ThreadIndices& at = running->here();
  const auto& [kernel, grid, dim, bytes, body] = running->launch();
  explain("in block (%u,%u,%u) of (%u,%u,%u), thread (%u,%u,%u) of (%u,%u,%u) of %s", at.block.x,
          at.block.y, at.block.z, grid.x, grid.y, grid.z, at.thread.x, at.thread.y, at.thread.z,
          dim.x, dim.y, dim.z, name_of(kernel));
}

const ThreadIndices& thread_indices() noexcept { return block_here().here(); }
Votes block_barrier(bool vote, Caller caller) { return block_here().barrier(vote, caller); }
const std::uint64_t* exchange(unsigned mask, std::uint64_t value, Caller caller) {
  return block_here().exchange(mask, value, caller);
}
void warp_barrier(unsigned mask, Caller caller) { block_here().warp_barrier(mask, caller); }
unsigned active_lanes() { return block_here().active_lanes(); }
void* shared_memory(const void* tag, std::size_t bytes, std::size_t alignment, Caller caller) {
  return block_here().shared_memory(tag, bytes, alignment, caller);
}
void* dynamic_shared_memory(std::size_t alignment, Caller caller) {
  Block& block = block_here();
  return block.shared_memory(&block, block.launch().shared_bytes, alignment, caller);
}
void stop_kernel(cudaError_t error) { block_here().stop(error); }
}  // namespace reel::emulate
