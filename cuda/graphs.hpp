// SPDX-License-Identifier: BSD-3-Clause
// Planned calls of traced functions as CUDA graphs: one launch for all kernels of a segment.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>

#include "cuda/own_memory.hpp"
#include "cuda/queue.hpp"
#include "lib/table/planned_graph.hpp"

namespace reel::gpu {
/// What a graph uses for as long as it lives.
struct Holdings {
  OwnVector<std::pair<std::byte*, std::size_t>> blocks;
  OwnVector<Fault*> faults;
};
/// While it lives, what this thread asks of the device goes into a graph, and memory that it takes
/// is kept for the graph.
class Capture {
 public:
  /// The stream's capture has begun.
  Capture(Gpu& gpu, cudaStream_t stream);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  /// Ends it. An error where the calls cannot be in a graph.
  cudaError_t finish(cudaGraphExec_t& made);
  /// Of this thread; null where there is none.
  static Capture* current();

  /// Where the graph has the first random number of its calls; the options of a call count from
  /// there. Null if there is no memory.
  Draws* draws();
  /// Adds so many blocks of random numbers at the end of the graph, if it draws any.
  void advance(std::uint64_t blocks);
  /// Takes over a block that a call releases. False unless the block is of the holdings.
  bool keep(std::byte* block) noexcept;
  /// A block of this size that an earlier call has released, or null: the graph runs its calls in
  /// their order, so they can share it.
  std::byte* reuse(std::size_t bytes);

  const cudaStream_t stream;
  Holdings holdings;

 private:
  friend class Graphs;
  Gpu& gpu_;
  Draws* draws_ = nullptr;
  OwnVector<std::pair<std::byte*, std::size_t>> released_;
  bool open_ = true;
};

/// The graphs of one device. A graph holds addresses, so it serves a replay whose values are where
/// they were when it was captured. That is the usual case, as memory that a replay gives back is
/// what the next one takes.
class Graphs {
 public:
  explicit Graphs(Gpu& gpu) : gpu_(gpu) {}
  void execute(const PlannedGraph& planned);
  /// Frees the graphs of a plan.
  void forget(std::uint64_t plan) noexcept;
  /// Frees all graphs. The next replays make them again. False if there was none, or if another
  /// thread uses them now and `waits` is false.
  bool free_all(bool waits) noexcept;

 private:
  struct Entry {
    std::uint64_t plan;
    const Instruction* first;
    OwnVector<const std::byte*> addresses;
    cudaGraphExec_t graph = nullptr;  // from the second call with these addresses on
    unsigned tries = 0;               // to make the graph
    unsigned wait = 0;                // so many replays until the next try
    Holdings holdings = {};
    Draws* draws = nullptr;    // on the device; null if the graph draws no random numbers
    std::uint64_t blocks = 0;  // that a launch draws
    Draws next = {0, ~std::uint64_t{0}};  // what the device has after the last launch
  };
  static constexpr std::size_t most_of_one = 4, most = 128;
  static constexpr unsigned most_tries = 3;
  /// The entry of these calls at these addresses; null where it is a new one.
  Entry* find(const PlannedGraph& planned);
  cudaError_t begin_capture();
  void capture(Entry& entry, const PlannedGraph& planned);
  void report_failure(const PlannedGraph& planned, std::string_view why);
  void forget(OwnList<Entry>::iterator entry) noexcept;
  /// Frees graphs for which ends(entry) is true.
  template <class Ends>
  bool forget_if(bool waits, const Ends& ends) noexcept;

  /// False if there is no graph of these calls.
  bool run_graph(const PlannedGraph& planned);
  cudaError_t order(const Entry& entry, const PlannedGraph& planned);
  /// Launches the graph of these calls. False if there is none.
  bool launch(const PlannedGraph& planned, cudaError_t& error);

  Gpu& gpu_;
  std::mutex mutex_;
  cudaStream_t stream_ = nullptr;                // for captures alone
  OwnList<Entry> entries_;                       // the last used one first
  std::array<std::uint64_t, 64> reported_ = {};  // the last plans of which a capture has failed
  std::size_t reports_ = 0;
};
/// Whether a kernel of the CPU does a call: linalg.cpp.
bool runs_on_host(const Instruction& call);
}  // namespace reel::gpu
