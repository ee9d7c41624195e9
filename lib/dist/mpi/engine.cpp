// SPDX-License-Identifier: BSD-3-Clause
// The engine over MPI: libreel_mpi_openmpi.so and libreel_mpi_mpich.so are this file, each with the
// headers of its MPI.
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "lib/table/engine.hpp"

namespace reel::dist {
struct Channel {
  MPI_Comm comm;
};
/// A message of more elements than an int counts is several, one after the other.
struct Request {
  MPI_Request request;
  Message rest;
};

namespace {
/// MPI_THREAD_SERIALIZED: one thread at a time is inside MPI.
std::mutex one_thread;
MPI_Datatype bfloat16_type;
MPI_Op bfloat16_sum;
int rank = 0, ranks = 1;
thread_local char text[MPI_MAX_ERROR_STRING + 64];

const char* problem(int code) {
  if (code == MPI_SUCCESS) return nullptr;
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
    std::snprintf(text, sizeof text, "MPI error %d", code);
  return text;
}
MPI_Datatype type_of(Wire wire) {
  switch (wire) {
    case Wire::bytes:
      return MPI_BYTE;
    case Wire::int32:
      return MPI_INT32_T;
    case Wire::int64:
      return MPI_INT64_T;
    case Wire::float32:
      return MPI_FLOAT;
    case Wire::float64:
      return MPI_DOUBLE;
    case Wire::bfloat16:
      return bfloat16_type;
  }
  return MPI_DATATYPE_NULL;
}
MPI_Op op_of(const Message& message) {
  if (message.combine == Combine::max) return MPI_MAX;
  if (message.combine == Combine::min) return MPI_MIN;
  return message.wire == Wire::bfloat16 ? bfloat16_sum : MPI_SUM;
}
void add_bfloat16(void* in, void* to, int* count, MPI_Datatype*) {
  auto *const a = static_cast<std::uint16_t*>(in), *const b = static_cast<std::uint16_t*>(to);
  for (int i = 0; i < *count; ++i) b[i] = narrowed(widened(a[i]) + widened(b[i]));
}

/// Elements of one call of MPI: only collectives without blocks can be cut.
constexpr std::int64_t most = 1 << 30;
bool can_be_cut(const Message& message) {
  return message.kind == Kind::all_reduce || message.kind == Kind::broadcast;
}
/// The first part of a message; the message becomes the rest.
Message cut(Message& message) {
  Message first = message;
  first.count = can_be_cut(message) ? std::min(message.count, most) : message.count;
  message.count -= first.count;
  const std::size_t bytes = static_cast<std::size_t>(first.count) * bytes_of(message.wire);
  if (message.in) message.in = static_cast<const char*>(message.in) + bytes;
  if (message.out) message.out = static_cast<char*>(message.out) + bytes;
  return first;
}
const char* refused(const Message& message) {
  return can_be_cut(message) || message.count <= most / std::max(ranks, 1)
             ? nullptr
             : "a message of more than 2^30 elements";
}

int started(MPI_Comm comm, const Message& m, MPI_Request* request) {
  const int count = static_cast<int>(m.count);
  const MPI_Datatype type = type_of(m.wire);
  const void* const in = m.in == m.out ? MPI_IN_PLACE : m.in;
  switch (m.kind) {
    case Kind::all_reduce:
      return MPI_Iallreduce(in, m.out, count, type, op_of(m), comm, request);
    case Kind::all_gather:
      return MPI_Iallgather(m.in, count, type, m.out, count, type, comm, request);
    case Kind::reduce_scatter:
      return MPI_Ireduce_scatter_block(m.in, m.out, count, type, op_of(m), comm, request);
    case Kind::broadcast:
      return MPI_Ibcast(m.out, count, type, m.root, comm, request);
    case Kind::barrier:
      return MPI_Ibarrier(comm, request);
  }
  return MPI_ERR_OTHER;
}
int ran(MPI_Comm comm, const Message& m) {
  const int count = static_cast<int>(m.count);
  const MPI_Datatype type = type_of(m.wire);
  const void* const in = m.in == m.out ? MPI_IN_PLACE : m.in;
  switch (m.kind) {
    case Kind::all_reduce:
      return MPI_Allreduce(in, m.out, count, type, op_of(m), comm);
    case Kind::all_gather:
      return MPI_Allgather(m.in, count, type, m.out, count, type, comm);
    case Kind::reduce_scatter:
      return MPI_Reduce_scatter_block(m.in, m.out, count, type, op_of(m), comm);
    case Kind::broadcast:
      return MPI_Bcast(m.out, count, type, m.root, comm);
    case Kind::barrier:
      return MPI_Barrier(comm);
  }
  return MPI_ERR_OTHER;
}

/// The ranks of a table: null for all.
MPI_Comm comm_of(void* self) { return self ? *static_cast<MPI_Comm*>(self) : MPI_COMM_WORLD; }

/// User-Level Failure Mitigation of Open MPI 5 and newer. Its functions are looked for at run time:
/// the headers may be older.
struct Mitigation {
  int (*revoke)(MPI_Comm);
  int (*shrink)(MPI_Comm, MPI_Comm*);
  int (*agree)(MPI_Comm, int*);
  int (*get_failed)(MPI_Comm, MPI_Group*);
} mitigation;
bool survives = false;           // a World goes on without a rank that has died
bool shrunk = false;             // it has
std::vector<MPI_Comm> channels;  // of Worlds then, unless they are revoked

const char* open(void* self, const char*, Channel** channel) {
  const std::lock_guard held(one_thread);
  MPI_Comm comm;
  if (survives) MPI_Comm_set_errhandler(comm_of(self), MPI_ERRORS_RETURN);
  if (const char* const why = problem(MPI_Comm_dup(comm_of(self), &comm))) return why;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (survives) channels.push_back(comm);
  *channel = new Channel{comm};
  return nullptr;
}
/// The communicator stays until MPI ends: to free it is a collective.
void close(Channel* channel) { delete channel; }

const char* start(Channel* channel, const Message& message, Request** request) {
  if (const char* const why = refused(message)) return why;
  Message rest = message;
  const Message first = cut(rest);
  const std::lock_guard held(one_thread);
  MPI_Request made;
  if (const char* const why = problem(started(channel->comm, first, &made))) return why;
  *request = new Request{made, rest};
  return nullptr;
}
const char* test(Channel* channel, Request* request, bool* done) {
  const std::lock_guard held(one_thread);
  int ended = 0;
  const char* why = problem(MPI_Test(&request->request, &ended, MPI_STATUS_IGNORE));
  *done = false;
  if (!why && !ended) return nullptr;
  if (!why && request->rest.count > 0) {
    why = problem(started(channel->comm, cut(request->rest), &request->request));
    if (!why) return nullptr;
  }
  delete request;
  if (why) return why;
  *done = true;
  return nullptr;
}
const char* run(Channel* channel, const Message& message) {
  if (const char* const why = refused(message)) return why;
  Message rest = message;
  const std::lock_guard held(one_thread);
  do {
    if (const char* const why = problem(ran(channel->comm, cut(rest)))) return why;
  } while (rest.count > 0);
  return nullptr;
}
const char* take(MPI_Comm made, EngineTable* part) {
  part->self = new MPI_Comm(made);  // as long as MPI
  MPI_Comm_rank(made, &part->rank);
  MPI_Comm_size(made, &part->ranks);
  return nullptr;
}
const char* split(void* self, int color, EngineTable* part) {
  const std::lock_guard held(one_thread);
  MPI_Comm made;
  if (const char* const why = problem(MPI_Comm_split(comm_of(self), color, part->rank, &made)))
    return why;
  return take(made, part);
}
void abort_all(void*) { MPI_Abort(MPI_COMM_WORLD, 1); }

void revoke(void* self) {
  const std::lock_guard held(one_thread);
  for (const MPI_Comm comm : channels) mitigation.revoke(comm);
  channels.clear();
  mitigation.revoke(comm_of(self));  // ranks may be inside of open()
}
int dead(void* self, int* found, int most) {
  const std::lock_guard held(one_thread);
  int none = 0;
  MPI_Iprobe(0, 0, MPI_COMM_SELF, &none, MPI_STATUS_IGNORE);  // lets news in
  MPI_Group all, failed;
  if (mitigation.get_failed(comm_of(self), &failed) != MPI_SUCCESS) return 0;
  MPI_Comm_group(comm_of(self), &all);
  int count = 0;
  MPI_Group_size(failed, &count);
  count = std::min(count, most);
  for (int i = 0; i < count; ++i) MPI_Group_translate_ranks(failed, 1, &i, all, found + i);
  MPI_Group_free(&failed);
  MPI_Group_free(&all);
  return count;
}
bool agree(void* self, bool yes, bool complete) {
  const std::lock_guard held(one_thread);
  int all = yes;
  const int code = mitigation.agree(comm_of(self), &all);
  return all && (code == MPI_SUCCESS || !complete);
}
const char* shrink(void* self, EngineTable* part) {
  const std::lock_guard held(one_thread);
  MPI_Comm made;
  if (const char* const why = problem(mitigation.shrink(comm_of(self), &made))) return why;
  shrunk = true;
  return take(made, part);
}
constexpr Survival survival = {[] { survives = true; }, revoke, dead, agree, shrink};

/// Null unless `mpirun --with-ft ulfm` has started this process: else the functions do nothing.
const Survival* find_survival() {
  const auto find = [](const char* name, auto& function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
    return function != nullptr;
  };
  const auto* const enabled = static_cast<const bool*>(dlsym(RTLD_DEFAULT, "ompi_ftmpi_enabled"));
  const bool found = enabled && *enabled && find("MPIX_Comm_revoke", mitigation.revoke) &&
                     find("MPIX_Comm_shrink", mitigation.shrink) &&
                     find("MPIX_Comm_agree", mitigation.agree) &&
                     find("MPIX_Comm_get_failed", mitigation.get_failed);
  return found ? &survival : nullptr;
}

bool ours_to_end = false, left = false;
void end_mpi() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended || !ours_to_end) return;
  if (left && survives) {  // Open MPI tells the others of a death, and not of an exit
    std::fflush(nullptr);
    raise(SIGKILL);
  }
  if (shrunk) return;  // MPI_Finalize() may wait for a rank that has died
  if (left) {          // MPI_Finalize() would wait for the other ranks, which wait for this one
    signal(SIGALRM, SIG_DFL);
    alarm(2);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Type_free(&bfloat16_type);
  MPI_Op_free(&bfloat16_sum);
  MPI_Finalize();
}
}  // namespace

/// Fills the table; MPI_Init() is called unless the program has called it.
/// Of 2 or 3 ranks, MPI_Iallreduce() of Open MPI sends all to one rank, and all back: twice the
/// time of Rabenseifner's sum. Of more ranks it does not.
void choose_algorithm() {
  const char* const ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (ranks && std::atoi(ranks) < 4) setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3", 0);
}

extern "C" [[gnu::visibility("default")]] const char* reel_dist_open(EngineTable& table) {
  const EngineTable mine;
  if (table.layout != mine.layout) return "it is of another version of reel";
  const std::lock_guard held(one_thread);
  int begun = 0, ended = 0, threads = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (ended) return "MPI_Finalize() has been called";
  if (begun) {
    MPI_Query_thread(&threads);
  } else {
    choose_algorithm();
    if (const char* const why =
            problem(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads)))
      return why;
    ours_to_end = true;
    std::atexit(end_mpi);
  }
  if (threads < MPI_THREAD_SERIALIZED)
    return "MPI_Init() was called: reel needs MPI_Init_thread() with MPI_THREAD_SERIALIZED";
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  static bool defined = false;
  if (!defined) {
    MPI_Type_contiguous(2, MPI_BYTE, &bfloat16_type);
    MPI_Type_commit(&bfloat16_type);
    MPI_Op_create(add_bfloat16, 1, &bfloat16_sum);
    defined = true;
  }
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  // "Open MPI v4.1.4, package: ...", "MPICH Version:	4.0.2\nMPICH Release date: ..."
  const std::string line(version, std::strcspn(version, ",\n"));
  std::snprintf(table.name, sizeof table.name, "%s", line.c_str());
  table.rank = rank;
  table.ranks = ranks;
  table.open = open;
  table.close = close;
  table.start = start;
  table.test = test;
  table.run = run;
  table.split = split;
  table.leave = [](void*) { left = true; };
  table.abort = abort_all;
  table.survival = find_survival();
  return nullptr;
}
}  // namespace reel::dist
