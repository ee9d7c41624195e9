// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/nccl.hpp"

#include "cuda/gpu.hpp"

#if __has_include(<nccl.h>)
#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#ifndef REEL_NCCL_LIBRARY
#define REEL_NCCL_LIBRARY "libnccl.so.2"
#endif
/// The functions that this file calls, without the prefix of their names.
#define REEL_NCCL_FUNCTIONS(each)                                                      \
  each(GetVersion) each(GetErrorString) each(GetLastError) each(GetUniqueId)           \
      each(CommInitRankConfig) each(CommGetAsyncError) each(CommAbort) each(AllReduce) \
          each(AllGather) each(ReduceScatter) each(Broadcast)

namespace reel::gpu {
namespace {
using dist::Channel;
using dist::Combine;
using dist::EngineTable;
using dist::Kind;
using dist::Message;
using dist::Request;
using dist::Wire;

constexpr int oldest = 21400;  // communicators that do not block

/// NCCL, opened at its first use. `problem` says why there is none.
struct Library {
#define REEL_MEMBER(name) decltype(&::nccl##name) name = nullptr;
  REEL_NCCL_FUNCTIONS(REEL_MEMBER)
#undef REEL_MEMBER
  int version = 0;
  const char* problem = nullptr;

  Library() {
    void* const opened = dlopen(REEL_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
      problem = "NCCL could not be opened: " REEL_NCCL_LIBRARY;
      return;
    }
#define REEL_FIND(name)                                                          \
  name = reinterpret_cast<decltype(&::nccl##name)>(dlsym(opened, "nccl" #name)); \
  if (!name) problem = REEL_NCCL_LIBRARY " has no function nccl" #name;
    REEL_NCCL_FUNCTIONS(REEL_FIND)
#undef REEL_FIND
    if (!problem && (GetVersion(&version) != ncclSuccess || version < oldest))
      problem = REEL_NCCL_LIBRARY " is older than NCCL 2.14";
  }
};
const Library& nccl() {
  static const Library& it = *new_for_ever<Library>();
  return it;
}

thread_local char text[256];
const char* problem(ncclResult_t result, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return nullptr;
  const char* const more = nccl().GetLastError(comm);
  std::snprintf(text, sizeof text, "NCCL: %s%s%.150s", nccl().GetErrorString(result),
                more && *more ? ": " : "", more ? more : "");
  return text;
}
const char* problem(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

ncclDataType_t type_of(Wire wire) {
  switch (wire) {
    case Wire::bytes:
      return ncclUint8;
    case Wire::int32:
      return ncclInt32;
    case Wire::int64:
      return ncclInt64;
    case Wire::float32:
      return ncclFloat32;
    case Wire::float64:
      return ncclFloat64;
    case Wire::bfloat16:
      return ncclBfloat16;
  }
  return ncclNumTypes;
}
ncclRedOp_t op_of(Combine combine) {
  return combine == Combine::max ? ncclMax : combine == Combine::min ? ncclMin : ncclSum;
}
ncclResult_t call(const Message& m, ncclComm_t comm, cudaStream_t stream) {
  const auto count = static_cast<std::size_t>(m.count);
  const ncclDataType_t type = type_of(m.wire);
  switch (m.kind) {
    case Kind::all_reduce:
      return nccl().AllReduce(m.in, m.out, count, type, op_of(m.combine), comm, stream);
    case Kind::all_gather:
      return nccl().AllGather(m.in, m.out, count, type, comm, stream);
    case Kind::reduce_scatter:
      return nccl().ReduceScatter(m.in, m.out, count, type, op_of(m.combine), comm, stream);
    case Kind::broadcast:
      return nccl().Broadcast(m.in, m.out, count, type, m.root, comm, stream);
    case Kind::barrier:
      break;
  }
  return ncclInvalidArgument;
}

struct Call {
  Message message;
  cudaEvent_t ended;    // recorded behind the collective
  bool queued = false;  // the collective and its event are on the stream
};
/// A communicator. It does not block: NCCL may still connect ranks when a call has returned. The
/// next call has to wait until it has connected them.
struct Comm {
  Gpu& gpu;
  ncclComm_t comm = nullptr;
  bool is_ready = false, calls = false;  // calls: NCCL is busy with the first of `waiting`
  std::deque<Call*> waiting = {};        // not queued yet
  /// Queues what it can.
  const char* advance();
};
const char* Comm::advance() {
  ncclResult_t state = ncclSuccess;
  if (const char* const why = problem(nccl().CommGetAsyncError(comm, &state), comm)) return why;
  if (const char* const why = problem(state, comm)) return why;
  const cudaStream_t stream = gpu.streams.mine().handle;
  while (state == ncclSuccess) {
    is_ready = true;
    if (calls) {
      if (const char* const why = problem(cudaEventRecord(waiting.front()->ended, stream)))
        return why;
      waiting.front()->queued = true;
      waiting.pop_front();
    }
    calls = !waiting.empty();
    if (!calls) return nullptr;
    const Message& message = waiting.front()->message;
    state = message.count ? call(message, comm, stream) : ncclSuccess;
    if (const char* const why = problem(state, comm)) return why;
  }
  return nullptr;
}
Comm* comm_of(Channel* channel) { return reinterpret_cast<Comm*>(channel); }
Call* call_of(Request* request) { return reinterpret_cast<Call*>(request); }

/// The ranks of one World.
struct Ranks {
  Gpu& gpu;
  int rank, count;
  std::mutex mutex = {};
  std::vector<Comm*> comms = {};
  bool aborted = false;
};

const char* identify(void*, char* id) {
  ncclUniqueId made;
  static_assert(sizeof made == EngineTable::id_bytes);
  if (const char* const why = problem(nccl().GetUniqueId(&made), nullptr)) return why;
  std::memcpy(id, &made, sizeof made);
  return nullptr;
}
const char* open(void* self, const char* bytes, Channel** channel) {
  Ranks& ranks = *static_cast<Ranks*>(self);
  const Current current(ranks.gpu.index);
  ncclUniqueId id;
  std::memcpy(&id, bytes, sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  auto* const made = new Comm{ranks.gpu};
  const ncclResult_t result =
      nccl().CommInitRankConfig(&made->comm, ranks.count, id, ranks.rank, &config);
  const std::lock_guard held(ranks.mutex);
  ranks.comms.push_back(made);
  *channel = reinterpret_cast<Channel*>(made);
  return problem(result, made->comm);
}
/// The communicator stays until the process ends: to free it is a collective.
void close(Channel*) {}
const char* start(Channel* channel, const Message& message, Request** request) {
  Comm& comm = *comm_of(channel);
  const Current current(comm.gpu.index);
  for (const auto& [at, writes] :
       {std::pair(message.in, false), std::pair<const void*, bool>(message.out, true)})
    if (at)
      if (const char* const why = problem(comm.gpu.use(static_cast<const std::byte*>(at), writes)))
        return why;
  cudaEvent_t ended = nullptr;
  if (const char* const why = problem(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming)))
    return why;
  Call* const made = new Call{message, ended};
  comm.waiting.push_back(made);
  *request = reinterpret_cast<Request*>(made);
  return comm.advance();
}
const char* test(Channel* channel, Request* request, bool* done) {
  Comm& comm = *comm_of(channel);
  const Current current(comm.gpu.index);
  *done = false;
  if (const char* const why = comm.advance()) return why;
  if (!request) {
    *done = comm.is_ready;
    return nullptr;
  }
  Call* const tested = call_of(request);
  if (!tested->queued) return nullptr;
  const cudaError_t state = cudaEventQuery(tested->ended);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();
    return nullptr;
  }
  if (const char* const why = problem(state)) return why;
  cudaEventDestroy(tested->ended);
  delete tested;
  *done = true;
  return nullptr;
}
/// Collectives that wait for other ranks end, with values that nobody may read.
void abort_all(void* self) {
  Ranks& ranks = *static_cast<Ranks*>(self);
  const Current current(ranks.gpu.index);
  const std::lock_guard held(ranks.mutex);
  if (std::exchange(ranks.aborted, true)) return;
  for (const Comm* const each : ranks.comms)
    if (each->comm) nccl().CommAbort(each->comm);
}
}  // namespace

const char* fill_with_nccl(Gpu& gpu, EngineTable& engine) {
  if (nccl().problem) return nccl().problem;
  std::snprintf(engine.name, sizeof engine.name, "NCCL %d.%d.%d", nccl().version / 10000,
                nccl().version / 100 % 100, nccl().version % 100);
  engine.self = new Ranks{gpu, engine.rank, engine.ranks};
  engine.identify = identify;
  engine.open = open;
  engine.close = close;
  engine.start = start;
  engine.test = test;
  engine.abort = abort_all;
  return nullptr;
}
}  // namespace reel::gpu
#else
namespace reel::gpu {
const char* fill_with_nccl(Gpu&, dist::EngineTable&) {
  return "the CUDA backend was built without nccl.h";
}
}  // namespace reel::gpu
#endif
