// SPDX-License-Identifier: BSD-3-Clause
// One device: its streams, its cache of memory blocks, and the reports of its kernels.
#pragma once
#include <mutex>
#include <optional>
#include <string>

#include "cuda/cudnn.hpp"
#include "cuda/graphs.hpp"
#include "cuda/own_memory.hpp"
#include "cuda/queue.hpp"
#include "cuda/streams.hpp"
#include "lib/gate/plugin.hpp"

namespace reel::gpu {
/// The functions of the library that opened this plugin.
extern const PluginHost* host;

/// Throws DeviceError unless the result is cudaSuccess.
void check(cudaError_t error, std::string_view op, const CallNames& names = {});

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

/// Caches released memory of a device for later allocations. It remembers which streams use a block
/// since it was last written, and orders them where a thread uses a block of another one.
class Memory {
 public:
  /// The most bytes of a device, by REEL_CUDA_MEMORY; 0 if that is no number of bytes.
  static const std::size_t limit;
  /// Some virtual GPUs have no memory pool. A free without one waits for the device.
  Memory(Streams& streams, bool has_pool) : streams_(streams), has_pool_(has_pool) {}
  /// cudaErrorMemoryAllocation if the device is out of memory, even after the cache was freed;
  /// another error may be that of an earlier kernel.
  cudaError_t take(std::size_t bytes, std::byte*& block);
  void give(std::byte* block, std::size_t bytes) noexcept;
  /// Call it before work of this thread on the memory is queued. A read then runs after the last
  /// write, and a write after all earlier uses.
  cudaError_t use(const std::byte* at, bool writes);
  /// Remembers what makes a value in a large block, for errors.
  void name(const Body& made, const Op& op, Caller caller);
  void trim() noexcept;
  DeviceMemoryUse use();
  std::string largest();

 private:
  struct Block {
    std::size_t bytes = 0;
    StreamSet writer = 0;  // the stream of the last write
    StreamSet users = 0;   // those that have used the block since then, and the writer
    bool live = true;
    std::string_view op = {};  // of a large one, for errors
    Caller caller = {};
  };
  using Blocks = OwnMap<std::byte*, Block>;
  static constexpr std::size_t large = std::size_t{1} << 20;
  cudaError_t allocate(std::size_t bytes, const Stream& stream, std::byte*& block);
  /// The work on the block is done.
  void free(Blocks::iterator block) noexcept;
  void trim_kept() noexcept;

  Streams& streams_;
  bool has_pool_;
  std::mutex mutex_;
  std::size_t taken_ = 0;  // from the device, in use or kept
  std::size_t live_ = 0, peak_ = 0;
  Blocks blocks_;  // all that are taken from the device
  OwnMap<std::size_t, std::pmr::vector<Blocks::iterator>> kept_;
};

/// Errors that kernels report, with the call that queued the kernel. No error is thrown while the
/// lock is held: an observer that gets the error may use the device, and may wait for other
/// threads.
class Faults {
 public:
  explicit Faults(Streams& streams);
  /// `held` is of the call, and locked from its first report until all its kernels are on the
  /// stream: a wait of another thread in between would forget reports that have yet to come.
  /// If the table is full, it waits for the stream, and the next wait() throws what was reported:
  /// an error of an earlier call within a replay would look like an error of the function.
  Fault* next(const Queue& queue, const KernelResult& result, std::unique_lock<std::mutex>& held);
  /// A Fault that kernels of a graph report to in each launch, until it is given back; null if none
  /// is left.
  Fault* keep(const Queue& queue, const KernelResult& result);
  /// The graph is not launched again. What it has reported is thrown as before. The caller has
  /// locked the graphs, as that of keep(), and may have locked the faults.
  void give_back(const Fault* fault) noexcept;
  /// Calls f() while no thread reads reports. A graph that reports is launched so: the reader
  /// resets all reports, also those that came after it has copied them.
  template <class F>
  void between_reads(const OwnVector<Fault*>& of_graph, const F& f) {
    const StreamSet mine = streams_.mine().alone();
    const std::lock_guard held(mutex_);
    reporting_ |= mine;
    for (const Fault* const fault : of_graph) kept_[index_of(fault)]->streams |= mine;
    f();
  }
  /// Waits for the work of this thread, and for that of others that may report something. Then
  /// throws what concerns this thread: a report of its own work, or of another thread whose results
  /// it has read. The other thread gets it too. `all`: any report of the device concerns it.
  void wait(bool all = false);

 private:
  struct Pending {
    const Op* op;
    KernelResult result;
    Caller caller;
    std::string layer, function;  // of the CallNames, whose names may be gone when the report comes
    Shape shape;                  // of the input
    bool has_place;
    StreamSet streams;        // on which its kernels run
    unsigned owner = 0;       // of the stream; 0 for a graph, which several may launch
    bool given_back = false;  // the place in the table is free after the next read
  };
  struct Report {
    Pending of;
    Fault words;
    int stream;  // of the thread that made the call
    unsigned owner;
    StreamSet notified = 0;  // other streams whose threads have thrown it
  };
  static Pending pending_of(const Queue& queue, const KernelResult& result, StreamSet streams);
  std::size_t index_of(const Fault* fault) const {
    return static_cast<std::size_t>(fault - reports_);
  }
  /// What concerns this thread, if it was not notified.
  std::optional<Report> take(Stream& mine, bool all);
  /// Remembers a report for each thread whose call it may be.
  void add(const Pending& of, const Fault& words);
  /// Waits, and reads the table.
  cudaError_t read(const Stream& mine);

  static constexpr std::size_t most_of_call = Shape::max_rank;  // one for each axis
  static constexpr std::size_t most = 1024;  // of those that are kept, and of the others
  Streams& streams_;
  std::mutex mutex_;
  StreamSet reporting_ = 0;  // those with work that may report something
  Fault* reports_;           // of the device: those that are kept, then the others
  Fault* copies_;            // of the host
  OwnVector<std::optional<Pending>> kept_;
  OwnVector<Pending> pending_;
  OwnList<Report> owed_;  // until they are thrown: the first one of each thread
};

/// Numbers that a program uses often, in memory of the device. They are never freed: tensors and
/// graphs may refer to them.
class Constants {
 public:
  Constants();
  /// Where the device has these eight bytes; null if they are new, or if there are too many others.
  const std::byte* find(std::uint64_t bytes, Streams& streams);
  bool have(const std::byte* at) const { return at >= memory_ && at < memory_ + places * size; }

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
  /// False if the kernel has declined the call.
  bool run(const DeviceCall& call);
  void fill(Body& to, double number);
  void download(void* to, const std::byte* from, std::size_t bytes);
  /// Throws what concerns work of this thread. Other devices may have copied results from here.
  void throw_reports() {
    const Current current(index);
    faults.wait();
  }
  /// If the device is out of memory, it frees all graphs and tries again. `reports`: the thread
  /// has locked the faults, for which a thread that launches a graph may wait.
  cudaError_t allocate(std::size_t bytes, std::byte*& block, bool reports = false);
  void release(std::byte* block, std::size_t bytes) noexcept;
  /// Before work on the stream of this thread, and not of a capture, reads or writes memory.
  cudaError_t use(const std::byte* at, bool writes) {
    streams.mine();  // this may be a second one
    return streams.are_several() ? use_of_several(at, writes) : cudaSuccess;
  }
  cudaError_t use(const Body* body, bool writes) {
    return body && body->elements > 0 ? use(body->data, writes) : cudaSuccess;
  }
  /// Frees the graphs and the memory that the cache keeps.
  void make_room(bool reports = false) noexcept {
    graphs.free_all(!reports);
    memory.trim();
  }
  /// What a graph has used.
  void give_back(const Holdings& holdings) noexcept;
  /// Waits for the work of all threads.
  void wait();

  const int index;
  Streams streams;
  const int processors;
  Memory memory;
  Faults faults;
  Constants constants;
  Graphs graphs;
  Cudnn cudnn;

 private:
  cudaError_t use_of_several(const std::byte* at, bool writes);
};
/// The kernel tables of all files. The last entry is null.
extern const NamedKernel* const families[];
}  // namespace reel::gpu
