// SPDX-License-Identifier: BSD-3-Clause
// Streams, events, host functions.
#include <algorithm>

#include "cuda/emulate/graph.hpp"
#include "cuda/emulate/queue.hpp"

namespace reel::emulate {
namespace {
bool is_event(cudaEvent_t event) {
  const auto& all = state().events;
  return std::any_of(all.begin(), all.end(), [=](auto& one) { return one.get() == event; });
}

// The common part of calls that take a stream.
template <class Body>
cudaError_t with_stream(cudaStream_t handle, Body body) {
  return call([&] {
    const cudaStream_t stream = find_stream(handle);
    return stream ? body(stream) : cudaErrorInvalidResourceHandle;
  });
}

template <class Body>
cudaError_t with_event(cudaEvent_t event, Body body) {
  return call([&] { return is_event(event) ? body() : cudaErrorInvalidResourceHandle; });
}

cudaError_t sticky_of(int device) { return state().devices[std::size_t(device)]->sticky; }

cudaError_t create(cudaStream_t* stream, unsigned flags, int priority) {
  return call([=] {
    if (flags & ~unsigned(cudaStreamNonBlocking)) return cudaErrorInvalidValue;
    *stream = make_stream(host_thread().device, flags, std::clamp(priority, -5, 0));
    return cudaSuccess;
  });
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  if (stream->capture) return record_in_capture(event, stream);
  if (const cudaError_t error = implicit_capture_error(*stream)) return error;
  event->capture = nullptr;
  event->mark = std::make_shared<Mark>();
  Task task;
  task.sets = event->mark;
  enqueue_task(stream, std::move(task));
  return cudaSuccess;
}

cudaError_t wait(cudaStream_t stream, cudaEvent_t event) {
  if (stream->capture || is_captured(*event)) return wait_in_capture(stream, event);
  if (const cudaError_t error = implicit_capture_error(*stream)) return error;
  if (!event->mark) return cudaSuccess;
  Task task;
  task.waits = event->mark;
  enqueue_task(stream, std::move(task));
  return cudaSuccess;
}

cudaError_t elapsed(float* milliseconds, const CUevent_st& start, const CUevent_st& end) {
  if ((start.flags | end.flags) & cudaEventDisableTiming) return cudaErrorInvalidResourceHandle;
  if (!start.mark || !end.mark) return cudaErrorInvalidResourceHandle;
  if (!start.mark->done || !end.mark->done) return cudaErrorNotReady;
  *milliseconds = float((end.mark->seconds - start.mark->seconds) * 1e3);
  return cudaSuccess;
}
}  // namespace
}  // namespace reel::emulate

using namespace reel::emulate;

extern "C" {
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create(stream, 0, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create(stream, flags, priority);
}

// Returns at once. Queued work still runs.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return with_stream(handle, [](cudaStream_t stream) {
    if (stream->is_legacy()) return cudaErrorInvalidResourceHandle;
    if (stream->capture) stream->capture->invalid = true;
    stream->destroyed = true;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return with_stream(handle, [=](cudaStream_t stream) {
    *flags = stream->flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return with_stream(handle, [=](cudaStream_t stream) {
    *priority = stream->priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return with_stream(handle, [=](cudaStream_t stream) {
    *device = stream->device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  std::function<void()> after;
  const cudaError_t error = with_stream(handle, [&](cudaStream_t stream) {
    if (const cudaError_t error = wait_while_captured(stream)) return error;
    wait_for(stream);
    after.swap(state().after_next_wait);
    return sticky_of(stream->device);
  });
  if (after) after();
  return error;
}

// Each query runs a little work, so that a loop of queries ends.
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_stream(handle, [](cudaStream_t stream) {
    if (const cudaError_t error = wait_while_captured(stream)) return error;
    if (const cudaError_t error = unsafe_call_error()) return error;
    run_some();
    if (const cudaError_t error = sticky_of(stream->device)) return error;
    if (!is_idle(stream)) return cudaErrorNotReady;
    acquire_for_caller(*stream->done);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  return with_stream(handle, [=](cudaStream_t stream) {
    if (!is_event(event)) return cudaErrorInvalidResourceHandle;
    return flags ? cudaErrorInvalidValue : wait(stream, event);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return with_stream(handle, [=](cudaStream_t stream) {
    if (!function) return cudaErrorInvalidValue;
    return enqueue(stream, [=](Lane& lane, int) {
      run_host_function([=] { function(argument); }, lane);
      return cudaSuccess;
    });
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([=] {
    auto& all = state().events;
    all.push_back(std::make_unique<CUevent_st>());
    *event = all.back().get();
    (*event)->device = host_thread().device;
    (*event)->flags = flags;
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_event(event, [=] {
    std::erase_if(state().events, [=](auto& one) { return one.get() == event; });
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return with_stream(handle, [=](cudaStream_t stream) {
    return is_event(event) ? record(event, stream) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_event(event, [=] {
    if (is_captured(*event)) {
      event->capture->invalid = true;
      return cudaErrorCapturedEvent;
    }
    if (event->mark) wait_for(event->mark);
    return sticky_of(event->device);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_event(event, [=] {
    if (is_captured(*event)) {
      event->capture->invalid = true;
      return cudaErrorCapturedEvent;
    }
    if (const cudaError_t error = unsafe_call_error()) return error;
    run_some();
    if (const cudaError_t error = sticky_of(event->device)) return error;
    if (!event->mark) return cudaSuccess;
    if (!event->mark->done) return cudaErrorNotReady;
    acquire_for_caller(event->mark->clock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([=] {
    if (!is_event(start) || !is_event(end)) return cudaErrorInvalidResourceHandle;
    return elapsed(milliseconds, *start, *end);
  });
}
}
