// SPDX-License-Identifier: BSD-3-Clause
// NCCL for tests: ranks are threads with a device each. A collective copies its input when its
// stream comes to it, and writes its output when the streams of all ranks have come. Communicators
// must not block. What a rank calls is compared with the calls of the others.
#include <nccl.h>

#include <cstring>

#include "cuda/emulate/capture.hpp"
#include "cuda/emulate/dice.hpp"
#include "cuda/emulate/memory.hpp"
#include "cuda/emulate/queue.hpp"
#include "cuda/emulate/report.hpp"

namespace reel::emulate {
namespace {
/// The arguments of a collective.
struct Arguments {
  const char* name;
  const void* in;
  void* out;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = 0;
};
/// A collective of all ranks.
struct Collective {
  explicit Collective(std::size_t ranks) : calls(ranks), inputs(ranks) {
    for (std::size_t i = 0; i < ranks; ++i) ended.push_back(std::make_shared<Mark>());
  }
  std::vector<Arguments> calls;
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::shared_ptr<Mark>> ended;  // of each rank
  Clock clock;
  std::size_t come = 0, called = 0;
  bool is_open = true;  // a rank may still come

  void close() {
    if (std::exchange(is_open, false)) --state().open_collectives;
  }
};
/// The ranks of one id.
struct Group {
  std::size_t joined = 0;
  std::vector<int> devices;
  std::vector<std::shared_ptr<Collective>> collectives;
};
std::map<std::uint64_t, Group>& groups() {
  static auto& all = *new std::map<std::uint64_t, Group>;
  return all;
}
std::uint64_t ids = 0;
}  // namespace
}  // namespace reel::emulate

using namespace reel::emulate;

struct ncclComm {
  Group* group = nullptr;
  std::size_t rank = 0, ranks = 1;
  int device = 0;
  std::size_t calls = 0;
  std::function<void()> connects = {};  // a call that has returned early
  bool aborted = false;
};

namespace reel::emulate {
namespace {
thread_local const char* last_error = "";
ncclResult_t refuse(ncclResult_t result, const char* why) {
  last_error = why;
  return result;
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      report("NCCL: a data type that is not emulated");
  }
}
bool reduces(const Arguments& call) {
  return std::strcmp(call.name, "ncclAllReduce") == 0 ||
         std::strcmp(call.name, "ncclReduceScatter") == 0;
}
std::size_t input_bytes(const Arguments& call, std::size_t ranks) {
  const std::size_t bytes = call.count * size_of(call.type);
  return std::strcmp(call.name, "ncclReduceScatter") == 0 ? bytes * ranks : bytes;
}
std::size_t output_bytes(const Arguments& call, std::size_t ranks) {
  const std::size_t bytes = call.count * size_of(call.type);
  return std::strcmp(call.name, "ncclAllGather") == 0 ? bytes * ranks : bytes;
}

template <class T>
void combine(ncclRedOp_t op, const std::vector<std::vector<std::byte>>& inputs, std::size_t first,
             std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = [&](std::size_t rank) {
      T x;
      std::memcpy(&x, inputs[rank].data() + (first + i) * sizeof(T), sizeof(T));
      return x;
    };
    T all = at(0);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      const T x = at(rank);
      all = op == ncclSum ? static_cast<T>(all + x) : (op == ncclMax) == (x > all) ? x : all;
    }
    std::memcpy(to + i * sizeof(T), &all, sizeof(T));
  }
}
/// The 16 bits of a bfloat16, whose sum is rounded to nearest even.
struct Half {
  std::uint16_t bits;
  float wide() const { return __builtin_bit_cast(float, std::uint32_t{bits} << 16); }
  friend Half operator+(Half a, Half b) {
    const auto sum = __builtin_bit_cast(std::uint32_t, a.wide() + b.wide());
    return {static_cast<std::uint16_t>((sum + 0x7fff + (sum >> 16 & 1)) >> 16)};
  }
  friend bool operator>(Half a, Half b) { return a.wide() > b.wide(); }
};
/// What a rank gets.
std::vector<std::byte> output_of(const Collective& all, std::size_t rank) {
  const Arguments& call = all.calls[rank];
  std::vector<std::byte> out(output_bytes(call, all.calls.size()));
  if (!reduces(call)) {
    if (std::strcmp(call.name, "ncclBroadcast") == 0) return all.inputs[std::size_t(call.root)];
    std::byte* to = out.data();
    for (const auto& input : all.inputs) to = std::copy(input.begin(), input.end(), to);
    return out;
  }
  const std::size_t first =
      std::strcmp(call.name, "ncclReduceScatter") == 0 ? rank * call.count : 0;
  const auto combined = [&]<class T>(T) {
    combine<T>(call.op, all.inputs, first, call.count, out.data());
    return out;
  };
  switch (call.type) {
    case ncclInt32:
      return combined(std::int32_t());
    case ncclInt64:
      return combined(std::int64_t());
    case ncclFloat32:
      return combined(float());
    case ncclFloat64:
      return combined(double());
    case ncclBfloat16:
      return combined(Half());
    default:
      report("NCCL: a sum of a data type that is not emulated");
  }
}

void compare(const Arguments& a, const Arguments& b) {
  if (std::strcmp(a.name, b.name) != 0) report("NCCL: ranks call %s and %s", a.name, b.name);
  if (a.count != b.count || a.type != b.type || a.op != b.op || a.root != b.root)
    report("NCCL: ranks call %s with different arguments", a.name);
}

/// Puts a collective on the stream: the copy of the input, and the output when all have come.
void queue(ncclComm& comm, std::shared_ptr<Collective> all, cudaStream_t stream) {
  const std::size_t rank = comm.rank;
  Task reads, writes;
  reads.work = [all, rank](Lane& lane, int) {
    const Arguments& call = all->calls[rank];
    const std::size_t bytes = input_bytes(call, all->calls.size());
    touch_read(lane.identity, call.in, bytes, call.name);
    const auto* const first = static_cast<const std::byte*>(call.in);
    all->inputs[rank].assign(first, first + bytes);
    become(lane.identity);
    for (const auto& mark : all->ended) mark->clock.release();
    become(emulator_identity());
    if (++all->come == all->calls.size()) {
      for (const auto& mark : all->ended) mark->done = true;
      all->close();
    }
    return cudaSuccess;
  };
  writes.waits = all->ended[rank];
  writes.work = [all, rank](Lane& lane, int) {
    if (all->come < all->calls.size()) return cudaSuccess;  // aborted
    const std::vector<std::byte> out = output_of(*all, rank);
    touch_write(lane.identity, all->calls[rank].out, out.size(), all->calls[rank].name);
    std::memcpy(all->calls[rank].out, out.data(), out.size());
    return cudaSuccess;
  };
  enqueue_task(stream, std::move(reads));
  enqueue_task(stream, std::move(writes));
}

ncclResult_t collective(const Arguments& call, ncclComm* comm, cudaStream_t handle) {
  Entry entry;
  if (!comm || comm->aborted) return refuse(ncclInvalidArgument, "the communicator is aborted");
  if (comm->connects || comm->group->joined < comm->ranks)
    return refuse(ncclInvalidUsage, "the communicator is still busy with an earlier call");
  if (host_thread().device != comm->device)
    return refuse(ncclInvalidUsage, "the communicator belongs to another device");
  const cudaStream_t stream = find_stream(handle);
  if (!stream || stream->capture) return refuse(ncclInvalidUsage, "not a stream to call it on");
  for (const void* const buffer : {call.in, static_cast<const void*>(call.out)})
    if (const Device* const device = locate_device(buffer);
        !device || device->number != std::size_t(comm->device))
      return refuse(ncclInvalidArgument, "a buffer is not in memory of the device");
  auto& collectives = comm->group->collectives;
  if (collectives.size() <= comm->calls)
    collectives.push_back(std::make_shared<Collective>(comm->ranks));
  const auto all = collectives[comm->calls++];
  if (all->called++ == 0)
    ++state().open_collectives;
  else
    for (const Arguments& other : all->calls)
      if (other.name) compare(call, other);
  all->calls[comm->rank] = call;
  const auto connects = [comm, all, stream] { queue(*comm, all, stream); };
  if (roll(2)) {
    connects();
    return ncclSuccess;
  }
  comm->connects = connects;
  return ncclInProgress;
}
}  // namespace

bool nccl_fails = false;
void fail_collectives(bool fails) { nccl_fails = fails; }
}  // namespace reel::emulate

extern "C" {
ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "an error";
  }
}
const char* ncclGetLastError(ncclComm*) { return last_error; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Entry entry;
  std::memset(id, 0, sizeof *id);
  ++ids;
  std::memcpy(id->internal, &ids, sizeof ids);
  groups()[ids];
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm** comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  Entry entry;
  if (!config || config->blocking != 0)
    return refuse(ncclInvalidArgument, "only communicators that do not block are emulated");
  if (rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "no such rank");
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  if (!groups().count(number)) return refuse(ncclInvalidArgument, "no such id");
  Group& group = groups()[number];
  const int device = host_thread().device;
  for (const int other : group.devices)
    if (other == device) return refuse(ncclInvalidUsage, "Duplicate GPU detected");
  group.devices.push_back(device);
  ++group.joined;
  *comm = new ncclComm{&group, std::size_t(rank), std::size_t(ranks), device};
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm* comm, ncclResult_t* error) {
  Entry entry;
  if (!comm || comm->aborted) return refuse(ncclInvalidArgument, "the communicator is aborted");
  *error = ncclSuccess;
  if (nccl_fails) {
    *error = ncclRemoteError;
    last_error = "";
  } else if (comm->group->joined < comm->ranks || (comm->connects && roll(2))) {
    *error = ncclInProgress;
  } else if (comm->connects) {
    std::exchange(comm->connects, nullptr)();
  }
  return ncclSuccess;
}
/// Collectives of this rank end.
ncclResult_t ncclCommAbort(ncclComm* comm) {
  Entry entry;
  if (!comm || comm->aborted) return refuse(ncclInvalidArgument, "the communicator is aborted");
  comm->aborted = true;
  for (std::size_t i = 0; i < comm->calls; ++i) {
    comm->group->collectives[i]->ended[comm->rank]->done = true;
    comm->group->collectives[i]->close();
  }
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm* comm, cudaStream_t stream) {
  return collective({"ncclAllReduce", in, out, count, type, op}, comm, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm* comm, cudaStream_t stream) {
  return collective({"ncclAllGather", in, out, count, type}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm* comm, cudaStream_t stream) {
  return collective({"ncclReduceScatter", in, out, count, type, op}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm* comm, cudaStream_t stream) {
  return collective({"ncclBroadcast", in, out, count, type, ncclSum, root}, comm, stream);
}
}
