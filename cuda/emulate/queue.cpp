// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/queue.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cuda/emulate/capture.hpp"
#include "cuda/emulate/dice.hpp"
#include "cuda/emulate/report.hpp"

namespace reel::emulate {
namespace {
thread_local int work_device = -1;  // the device of the work that this host thread runs

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void close_memory() {
  for (auto& device : state().devices) device->memory.close_all();
}

// The legacy stream waits for earlier tasks of the blocking streams of its device, and they wait
// for its earlier tasks.
bool legacy_allows(const CUstream_st& stream) {
  const std::uint64_t number = stream.tasks.front().number;
  for (const auto& other : state().streams) {
    if (other->device != stream.device || other->tasks.empty()) continue;
    const bool ordered = (stream.is_legacy() && other->is_blocking()) ||
                         (stream.is_blocking() && other->is_legacy());
    if (ordered && other->tasks.front().number < number) return false;
  }
  return true;
}

void acquire_legacy_order(const CUstream_st& stream) {
  for (const auto& other : state().streams)
    if (other->device == stream.device && ((stream.is_legacy() && other->is_blocking()) ||
                                           (stream.is_blocking() && other->is_legacy())))
      other->done->acquire();
}

bool can_run(const CUstream_st& stream) {
  if (stream.tasks.empty()) return false;
  const Task& front = stream.tasks.front();
  return (!front.waits || front.waits->done) && legacy_allows(stream);
}

void run_front(CUstream_st& stream) {
  Task& front = stream.tasks.front();
  become(stream.lane.identity);
  front.from_host->acquire();
  acquire_legacy_order(stream);
  if (front.waits) front.waits->clock.acquire();
  become(emulator_identity());
  const bool dead = state().devices[std::size_t(stream.device)]->sticky != cudaSuccess;
  if (!dead && front.graph && run_node(*front.graph, stream)) return;  // more nodes to run
  if (!dead && front.work)
    note_error(stream.device, run_work(front.work, stream.lane, stream.device));
  if (front.sets) {
    front.sets->done = true;
    front.sets->seconds = seconds_now();
  }
  become(stream.lane.identity);
  if (front.sets) front.sets->clock.release();
  stream.done->release();
  become(emulator_identity());
  stream.tasks.pop_front();
}

bool step() {
  std::vector<CUstream_st*> ready;
  for (const auto& stream : state().streams)
    if (can_run(*stream)) ready.push_back(stream.get());
  if (ready.empty()) return false;
  run_front(*ready[roll(ready.size())]);
  return true;
}
}  // namespace

bool device_work_runs() { return work_device >= 0; }
int running_device() { return work_device; }

// The memory stays open for the next work that may access it. run_some() and run_until() close it
// before the host goes on.
cudaError_t run_work(const Work& work, Lane& lane, int device) {
  const int before = work_device;
  catch_faults();
  work_device = device;
  for (auto& each : state().devices)
    may_touch(device, *each) ? each->memory.open_all() : each->memory.close_all();
  const cudaError_t error = work(lane, device);
  work_device = before;
  return error;
}

void run_host_function(const std::function<void()>& body, Lane& lane) {
  const int before = work_device;
  work_device = -1;
  close_memory();
  host_thread().in_host_function = true;
  run_alone(body, lane.team, lane.identity);
  host_thread().in_host_function = false;
  work_device = before;
}

void note_error(int device, cudaError_t error) {
  if (error != cudaSuccess) state().devices[std::size_t(device)]->sticky = error;
}

cudaStream_t find_stream(cudaStream_t handle) {
  Device& device = current_device();
  if (!handle || handle == cudaStreamLegacy) return device.legacy;
  if (handle == cudaStreamPerThread) {
    cudaStream_t& mine = host_thread().streams[int(device.number)];
    if (!mine) mine = make_stream(int(device.number), cudaStreamDefault, 0);
    return mine;
  }
  for (const auto& stream : state().streams)
    if (stream.get() == handle && !stream->destroyed && !stream->is_legacy()) return handle;
  return nullptr;
}

cudaStream_t make_stream(int device, unsigned flags, int priority) {
  auto& streams = state().streams;
  std::erase_if(streams, [](auto& stream) { return stream->destroyed && stream->tasks.empty(); });
  streams.push_back(std::make_unique<CUstream_st>());
  CUstream_st& made = *streams.back();
  made.device = device;
  made.flags = flags;
  made.priority = priority;
  made.number = ++state().streams_made;
  return &made;
}

cudaError_t enqueue(cudaStream_t stream, Work work) {
  if (stream->capture) return capture_node(stream, std::move(work));
  if (const cudaError_t error = implicit_capture_error(*stream)) return error;
  Task task;
  task.work = std::move(work);
  enqueue_task(stream, std::move(task));
  return cudaSuccess;
}

void enqueue_task(cudaStream_t stream, Task task) {
  task.number = ++state().tasks;
  task.from_host = std::make_unique<Clock>();
  release_to(*task.from_host);
  stream->tasks.push_back(std::move(task));
  run_some();
  constexpr std::size_t most_waiting = 1024;  // as in CUDA, a call waits if the queue is full
  run_until([=] { return stream->tasks.size() < most_waiting; });
}

// Runs are rare and long, because each run opens and closes the memory of its tasks.
void run_some() {
  constexpr std::size_t one_in = 32, most = 19;
  if (roll(one_in)) return;
  for (std::size_t left = roll(most) + 1; left && step(); --left) {
  }
  close_memory();
}

void run_until(const std::function<bool()>& done) {
  while (!done()) {
    if (step()) continue;
    close_memory();
    if (state().open_collectives)
      give_way();  // another host thread is to come to it
    else
      report("a wait that cannot end: its stream waits for an event that is never recorded");
  }
  close_memory();
}

bool is_idle(cudaStream_t stream) { return stream->tasks.empty(); }

void wait_for(cudaStream_t stream) {
  ++state().counts.synchronizations;
  run_until([=] { return is_idle(stream); });
  acquire_for_caller(*stream->done);
}

void wait_for(const std::shared_ptr<Mark>& mark) {
  ++state().counts.synchronizations;
  run_until([&] { return mark->done; });
  acquire_for_caller(mark->clock);
}

void wait_for_device(int device) {
  ++state().counts.synchronizations;
  const auto& streams = state().streams;
  run_until([&] {
    return std::all_of(streams.begin(), streams.end(),
                       [=](auto& it) { return it->device != device || it->tasks.empty(); });
  });
  for (const auto& stream : streams)
    if (stream->device == device) acquire_for_caller(*stream->done);
  state().devices[std::size_t(device)]->memory.check();
}
}  // namespace reel::emulate
