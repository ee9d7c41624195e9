// SPDX-License-Identifier: BSD-3-Clause
// Streams are queues. Tasks run when the host waits, and a few run earlier at random. They run in
// any order that the events allow.
#pragma once
#include "cuda/emulate/state.hpp"

namespace reel::emulate {
/// The stream of a handle, including 0, cudaStreamLegacy and cudaStreamPerThread. Null if there is
/// none.
cudaStream_t find_stream(cudaStream_t handle);
cudaStream_t make_stream(int device, unsigned flags, int priority);

/// Queues the work, or adds it to the graph if the stream is captured.
cudaError_t enqueue(cudaStream_t stream, Work work);
/// Queues a task. The stream must not be captured.
void enqueue_task(cudaStream_t stream, Task task);

/// Runs queued tasks until `done` returns true. Ends the program with a report if no task can run.
void run_until(const std::function<bool()>& done);
/// Waits. The caller's later work is then ordered after the awaited work.
void wait_for(cudaStream_t stream);
void wait_for(const std::shared_ptr<Mark>& mark);
void wait_for_device(int device);
/// Runs a random number of tasks. Called by queries and after a task is queued.
void run_some();
bool is_idle(cudaStream_t stream);

/// Runs `work` for a lane. The work can access the device's memory.
cudaError_t run_work(const Work& work, Lane& lane, int device);
/// Notes an error. After a sticky error the device's queued work is dropped.
void note_error(int device, cudaError_t error);
/// Runs a host function on the lane. The function cannot access device memory.
void run_host_function(const std::function<void()>& body, Lane& lane);
}  // namespace reel::emulate
