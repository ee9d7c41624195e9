// SPDX-License-Identifier: BSD-3-Clause
// The state of the emulated runtime: devices, streams, events, captures. A lock protects it.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "cuda/emulate/arena.hpp"
#include "cuda/emulate/control.hpp"
#include "cuda/emulate/grid.hpp"

namespace reel::emulate {
struct Capture;
struct Node;
struct GraphRun;

/// A sequence of tasks: a stream, or a chain of nodes of a graph.
struct Lane {
  Team team;
  Identity identity = new_identity();
};

/// One recording of an event.
struct Mark {
  bool done = false;
  double seconds = 0;
  Clock clock;
};

/// Queued work. It is called with the emulator's identity. Its memory accesses are recorded for the
/// lane.
using Work = std::function<cudaError_t(Lane&, int device)>;
struct Task {
  Work work;
  std::shared_ptr<Mark> waits, sets;
  std::shared_ptr<GraphRun> graph;
  std::uint64_t number = 0;          // numbers the tasks in the order in which the host queued them
  std::unique_ptr<Clock> from_host;  // the host's work before it queued the task
};

constexpr int most_devices = 8;

struct Device {
  std::size_t number = 0;
  Arena memory;
  cudaStream_t legacy = nullptr;
  cudaError_t sticky = cudaSuccess;
  bool has_context = false;
  std::set<int> peers;         // devices whose memory its kernels may access
  std::set<int> pool_readers;  // devices that may access its memory pool
};

struct State {
  State();
  ~State();
  std::vector<std::unique_ptr<Device>> devices;
  Arena host_memory{true};
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::vector<std::unique_ptr<CUevent_st>> events;
  std::vector<std::unique_ptr<Capture>> captures;            // unfinished captures
  std::map<const void*, std::size_t> dynamic_shared_limits;  // key: kernel
  Counts counts;
  std::map<const void*, Largest> largest_launches;
  std::set<std::pair<int, const void*>> used;  // kernels and handles, by device
  int device_count = 2, old_device = -1, failing_captures = 0;
  int driver_version = CUDART_VERSION;
  std::size_t device_memory = std::size_t(8) << 30, launch_memory = 0;
  std::uint64_t tasks = 0, streams_made = 0;
  bool refuses_epilogues = false, refuses_gaps = false, refuses_halves = false,
       reshapes_weights = false, has_pools = true;
  Convolutions refused = Convolutions::computed;  // of cuDNN
  std::size_t open_collectives = 0;               // of NCCL, which another rank has yet to come to
  std::function<void()> after_next_wait;
};
State& state();

/// One call of the runtime. It holds the lock and the emulator's identity until the end of the
/// scope.
class Entry {
 public:
  Entry();
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
};
/// Lets another host thread make a call, within an Entry.
void give_way();
/// The identity that the call came from.
Identity caller();
/// With the identity of the caller.
void release_to(Clock& clock);
void acquire_for_caller(Clock& clock);

/// The state of one host thread.
struct HostThread {
  int device = 0;
  bool has_context = false;  // whether a call has made a context current on this thread
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  bool in_host_function = false;
  std::map<int, cudaStream_t> streams;  // cudaStreamPerThread of each device
};
HostThread& host_thread();
/// Why no call can work: the driver is too old, or there is no device.
cudaError_t availability();
Device& current_device();

/// Counts the first use of a kernel or a handle, if the stream is captured.
void note_use(const void* what, const CUstream_st& stream);

/// For faults.cpp. Whether this host thread runs device work now, and the device of this work.
bool device_work_runs();
int running_device();
bool may_touch(int device, const Device& other);

/// Whether a call needs the context of the current device. Such a call makes the context, and fails
/// if the device has a sticky error.
enum class Context { none, current };
/// The common part of a runtime call: takes the lock, makes the context, returns a sticky error
/// again, stores the last error.
template <class Body>
cudaError_t call(Body body, Context context = Context::current) {
  HostThread& thread = host_thread();
  // In CUDA a host function must not call the runtime.
  if (thread.in_host_function) return cudaErrorNotPermitted;
  Entry entry;
  cudaError_t error = availability();
  if (error == cudaSuccess && context == Context::current) {
    current_device().has_context = thread.has_context = true;
    error = current_device().sticky;
  }
  if (error == cudaSuccess) error = body();
  if (error != cudaSuccess) thread.last_error = error;
  return error;
}
}  // namespace reel::emulate

struct CUstream_st {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t number = 0;
  bool destroyed = false;
  reel::emulate::Lane lane;
  std::deque<reel::emulate::Task> tasks;
  std::unique_ptr<reel::emulate::Clock> done = std::make_unique<reel::emulate::Clock>();
  reel::emulate::Capture* capture = nullptr;
  std::vector<reel::emulate::Node*> tail;  // the nodes on which the next captured node depends
  std::size_t chain = 0;                   // a chain of the capture's graph

  bool is_legacy() const { return number == 0; }
  bool is_blocking() const { return !is_legacy() && !(flags & cudaStreamNonBlocking); }
};

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<reel::emulate::Mark> mark;  // null if never recorded
  reel::emulate::Capture* capture = nullptr;  // not null if the recording was captured
  std::vector<reel::emulate::Node*> captured;
};
