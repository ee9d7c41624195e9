// SPDX-License-Identifier: BSD-3-Clause
// One device: its stream, its cache of memory blocks, and the reports of its kernels.
#pragma once
#include <mutex>
#include <optional>
#include <string>

#include "cuda/cudnn.hpp"
#include "cuda/graphs.hpp"
#include "cuda/own_memory.hpp"
#include "cuda/queue.hpp"
#include "lib/gate/plugin.hpp"

namespace reel::gpu {
/// The functions of the library that opened this plugin.
extern const PluginHost* host;

/// Throws DeviceError unless the result is cudaSuccess.
void check(cudaError_t error, std::string_view op, const CallSite& site = {});

/// A number that says what the device has.
int attribute(cudaDeviceAttr attribute, int index);

/// Makes a device the current one, as cudaSetDevice() does, until the end of the scope. It stays
/// the current one if the earlier one has no context: nothing has used that device yet.
class Current {
 public:
  explicit Current(int index);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = -1;
};

/// The size of the block for so many bytes, so that few sizes are in use.
std::size_t rounded(std::size_t bytes);
/// Whether released blocks are kept. With REEL_CUDA_CACHE=0 each is freed at once and has its exact
/// size, so that memory checkers see its end and the free.
extern const bool keeps_memory;

/// Caches released memory of a device for later allocations. All work of a device is on one stream,
/// so new work on a block runs after the earlier work on it.
class Memory {
 public:
  /// The most bytes of a device, by REEL_CUDA_MEMORY; 0 if that is no number of bytes.
  static const std::size_t limit;
  /// Some virtual GPUs have no memory pool. A free without one waits for the device.
  Memory(cudaStream_t stream, bool has_pool) : stream_(stream), has_pool_(has_pool) {}
  /// cudaErrorMemoryAllocation if the device is out of memory, even after the cache was freed;
  /// another error may be that of an earlier kernel.
  cudaError_t take(std::size_t bytes, std::byte*& block);
  void give(std::byte* block, std::size_t bytes) noexcept;
  /// Remembers what makes a value in a large block, for errors.
  void name(const Body& made, const Op& op, Caller site);
  void trim() noexcept;
  DeviceMemoryUse use();
  std::string largest();

 private:
  struct Large {
    std::size_t bytes = 0;
    std::string_view op;
    Caller site;
  };
  static constexpr std::size_t large = std::size_t{1} << 20;
  cudaError_t allocate(std::size_t bytes, std::byte*& block);
  void free(std::byte* block) noexcept;
  void trim_kept() noexcept;

  cudaStream_t stream_;
  bool has_pool_;
  std::mutex mutex_;
  std::size_t taken_ = 0;  // from the device, in use or kept
  std::size_t live_ = 0, peak_ = 0;
  OwnMap<std::size_t, std::pmr::vector<std::byte*>> kept_;
  OwnMap<const std::byte*, Large> large_;  // those in use
};

/// Errors that kernels report, with the call that queued the kernel. No error is thrown while the
/// lock is held: an observer that is told of it may use the device, and may wait for other threads.
class Faults {
 public:
  explicit Faults(cudaStream_t stream);
  /// `held` is of the call, and locked from its first report until all its kernels are on the
  /// stream: a wait of another thread in between would forget reports that have yet to come.
  /// If the table is full, it waits for the stream, and the next wait() throws what was reported:
  /// an error of an earlier call within a replay would look like an error of the function.
  Fault* next(const Queue& queue, const KernelResult& result, std::unique_lock<std::mutex>& held);
  /// One that kernels of a graph report to in each launch, until it is given back; null where none
  /// is left.
  Fault* keep(const Queue& queue, const KernelResult& result);
  /// The graph is not launched again. What it has reported is thrown as before. The caller has
  /// locked the graphs, as that of keep(), and may have locked the faults.
  void give_back(const Fault* fault) noexcept;
  /// Calls f() while no thread reads reports. A graph that reports is launched so: the reader
  /// resets all reports, also those that came after it has copied them.
  template <class F>
  void between_reads(const F& f) {
    const std::lock_guard held(mutex_);
    f();
  }
  /// Waits for the stream, then throws the first report.
  void wait();

 private:
  struct Pending {
    const Op* op;
    KernelResult result;
    Caller caller;
    std::string layer, function;  // of the CallSite, whose names may be gone when the report comes
    Shape shape;                  // of the input
    bool has_place;
    bool given_back = false;  // the place in the table is free after the next read
  };
  struct Report {
    Pending of;
    Fault words;
  };
  static Pending pending_of(const Queue& queue, const KernelResult& result);
  /// Waits for the stream and reads the table.
  cudaError_t read();

  static constexpr std::size_t most_of_call = Shape::max_rank;  // one for each axis
  static constexpr std::size_t most = 1024;  // of those that are kept, and of the others
  cudaStream_t stream_;
  std::mutex mutex_;
  Fault* reports_;  // of the device: those that are kept, then the others
  Fault* copies_;   // of the host
  OwnVector<std::optional<Pending>> kept_;
  OwnVector<Pending> pending_;
  std::optional<Report> first_;  // the first report that was read, until it is thrown
};

/// Copies host memory to the device through pinned memory.
class Staging {
 public:
  explicit Staging(cudaStream_t stream);
  cudaError_t upload(std::byte* to, const std::byte* from, std::size_t bytes);

 private:
  static constexpr std::size_t half = std::size_t{1} << 20;
  cudaStream_t stream_;
  std::mutex mutex_;
  std::byte* memory_;     // two halves: the device reads one while the host fills the other
  cudaEvent_t read_[2];   // recorded when the device has read a half
  std::size_t used_ = 0;  // used bytes of the current half
  int in_use_ = 0;
};

/// Numbers that a program uses often, in memory of the device. They are never freed: tensors and
/// graphs may refer to them.
class Constants {
 public:
  Constants();
  /// Where the device has these eight bytes; null if they are new, or if there are too many others.
  const std::byte* find(std::uint64_t bytes, Staging& staging);

 private:
  static constexpr std::size_t places = 8192, size = 16;
  std::mutex mutex_;
  std::byte* memory_ = nullptr;              // of the device
  std::size_t count_ = 0;                    // at most half of the places
  std::uint64_t last_[256] = {};             // new numbers; the second use puts one into the table
  std::optional<std::uint64_t> at_[places];  // a hash table
};

class Gpu {
 public:
  explicit Gpu(int index);
  void run(const DeviceCall& call);
  void fill(Body& to, double number);
  void download(void* to, const std::byte* from, std::size_t bytes);
  /// If the device is out of memory, it frees all graphs and tries again. `reports`: the thread
  /// has locked the faults, for which a thread that launches a graph may wait.
  cudaError_t allocate(std::size_t bytes, std::byte*& block, bool reports = false);
  void release(std::byte* block, std::size_t bytes) noexcept;
  /// Frees the graphs and the memory that the cache keeps.
  void make_room(bool reports = false) noexcept {
    graphs.free_all(!reports);
    memory.trim();
  }
  /// What a graph has used.
  void give_back(const Holdings& holdings) noexcept;
  void wait() {
    const Current current(index);
    faults.wait();
  }

  const int index;
  const cudaStream_t stream;
  const int processors;
  Memory memory;
  Faults faults;
  Staging staging;
  Constants constants;
  Graphs graphs;
  Cudnn cudnn;
};
/// The kernel tables of all files. The last entry is null.
extern const NamedKernel* const families[];
}  // namespace reel::gpu
