// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/graphs.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "cuda/gpu.hpp"

namespace reel::gpu {
namespace {
constinit thread_local Capture* capture_here = nullptr;
}  // namespace

Capture* Capture::current() { return capture_here; }

Capture::Capture(Gpu& gpu, cudaStream_t to) : stream(to), gpu_(gpu) { capture_here = this; }
Draws* Capture::draws() {
  std::byte* block = nullptr;
  if (!draws_ && gpu_.allocate(sizeof(Draws), block) == cudaSuccess)
    draws_ = reinterpret_cast<Draws*>(block);
  return draws_;
}
void Capture::advance(std::uint64_t blocks) {
  if (draws_) check(advance_draws(stream, draws_, blocks), "trace");
}
bool Capture::keep(std::byte* block) noexcept {
  const auto is_this = [=](const auto& held) { return held.first == block; };
  const auto held = std::find_if(holdings.blocks.begin(), holdings.blocks.end(), is_this);
  if (held == holdings.blocks.end()) return false;
  if (keeps_memory) try {
      released_.push_back(*held);
    } catch (const std::bad_alloc&) {  // without memory for the list, no call uses it again
    }
  return true;
}
std::byte* Capture::reuse(std::size_t bytes) {
  const auto fits = [=](const auto& each) { return rounded(each.second) == rounded(bytes); };
  const auto found = std::find_if(released_.begin(), released_.end(), fits);
  if (found == released_.end()) return nullptr;
  std::byte* const block = found->first;
  released_.erase(found);
  return block;
}
Capture::~Capture() {
  capture_here = nullptr;
  cudaGraph_t graph = nullptr;
  if (open_ && cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
  if (open_) cudaGetLastError();
}
cudaError_t Capture::finish(cudaGraphExec_t& made) {
  capture_here = nullptr;
  open_ = false;
  cudaGraph_t graph = nullptr;
  cudaError_t error = cudaStreamEndCapture(stream, &graph);
  if (!error) {
    error = cudaGraphInstantiate(&made, graph, 0);
    if (error) made = nullptr;
    cudaGraphDestroy(graph);
  }
  cudaGetLastError();
  return error;
}

namespace {
/// Whether a call cannot be in a CUDA graph, as the host waits for the device in it.
bool the_host_waits(const PlannedGraph& planned, const Instruction& call) {
  return waits_for_lengths(planned, call) || runs_on_host(call);
}
/// Whether a call is not in a graph of several calls: it reads or writes a result of the replay, or
/// the host waits in it.
bool stands_alone(const PlannedGraph& planned, const Instruction& call) {
  const int* const values = planned.operands + call.first;
  return the_host_waits(planned, call) ||
         std::any_of(values, values + call.input_count + call.output_count, [&](int value) {
           return value >= 0 && planned.places[value].kind == ValuePlace::Kind::fresh;
         });
}
}  // namespace

/// Results that the program keeps lie elsewhere each time. Then the calls between those that use
/// results are graphs.
void Graphs::execute(const PlannedGraph& planned) {
  if (Capture::current()) return host->execute_kernels(planned);
  const auto waits = [&](const Instruction& call) { return the_host_waits(planned, call); };
  if (std::none_of(planned.calls.begin(), planned.calls.end(), waits) && run_graph(planned)) return;
  PlannedGraph part = planned;
  for (auto rest = planned.calls; !rest.empty(); rest = rest.subspan(part.calls.size())) {
    const auto end = std::find_if(rest.begin(), rest.end(), [&](const Instruction& call) {
      return stands_alone(planned, call);
    });
    part.calls =
        rest.first(static_cast<std::size_t>(std::max<std::ptrdiff_t>(end - rest.begin(), 1)));
    if (part.calls.size() == planned.calls.size() || !run_graph(part)) host->execute_kernels(part);
    part.position += blocks_of(part.calls);
  }
}

bool Graphs::run_graph(const PlannedGraph& planned) {
  cudaError_t error = cudaSuccess;
  gpu_.streams.mine();  // before the lock: it may throw
  const bool launched = planned.calls.size() > 1 && launch(planned, error);
  check(error, "trace");
  return launched;
}

/// Orders a launch on the stream of this thread after the work of other threads on its memory.
cudaError_t Graphs::order(const Entry& entry, const PlannedGraph& planned) {
  if (!gpu_.streams.are_several()) return cudaSuccess;
  for (const auto& [block, bytes] : entry.holdings.blocks)
    if (const cudaError_t error = gpu_.use(block, true)) return error;
  for (const Instruction& call : planned.calls)
    for (unsigned i = 0; i < call.input_count + call.output_count; ++i) {
      const Body* const value = planned.value(planned.operands[call.first + i]);
      if (const cudaError_t error = gpu_.use(value, i >= call.input_count)) return error;
    }
  return cudaSuccess;
}

bool Graphs::launch(const PlannedGraph& planned, cudaError_t& error) {
  const std::lock_guard held(mutex_);
  Entry* const entry = find(planned);
  if (entry && !entry->graph && entry->tries < most_tries && entry->wait-- == 0)
    capture(*entry, planned);
  if (!entry || !entry->graph) return false;
  error = order(*entry, planned);
  const cudaStream_t stream = gpu_.streams.mine().handle;
  const Draws now{planned.seed, planned.position};
  if (!error && entry->draws && !(entry->next == now)) error = set_draws(stream, entry->draws, now);
  entry->next = {now.seed, now.position + entry->blocks};
  const auto start = [&] {
    if (error == cudaSuccess) error = cudaGraphLaunch(entry->graph, stream);
  };
  entry->holdings.faults.empty() ? start()
                                 : gpu_.faults.between_reads(entry->holdings.faults, start);
  return true;
}

Graphs::Entry* Graphs::find(const PlannedGraph& planned) {
  OwnVector<const std::byte*> addresses;
  for (const Instruction& call : planned.calls)
    for (unsigned i = 0; i < call.input_count + call.output_count; ++i) {
      const Body* const value = planned.value(planned.operands[call.first + i]);
      addresses.push_back(value ? value->data : nullptr);
    }
  const Instruction* const first = planned.calls.data();
  std::size_t of_these = 0;
  auto oldest = entries_.end();
  for (auto each = entries_.begin(); each != entries_.end(); ++each) {
    if (each->plan != planned.plan || each->first != first) continue;
    if (each->addresses == addresses) {
      entries_.splice(entries_.begin(), entries_, each);
      return &entries_.front();
    }
    ++of_these;
    oldest = each;
  }
  if (of_these == most_of_one) forget(oldest);
  if (entries_.size() == most) forget(std::prev(entries_.end()));
  entries_.push_front({planned.plan, first, std::move(addresses)});
  return nullptr;
}

cudaError_t Graphs::begin_capture() {
  cudaError_t error = cudaSuccess;
  if (!stream_) error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  // Relaxed: threads beside this one may call what a capture must not.
  if (!error) error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed);
  if (error) cudaGetLastError();
  return error;
}
/// Says so once for each traced function.
void Graphs::report_failure(const PlannedGraph& planned, std::string_view why) {
  if (std::find(reported_.begin(), reported_.end(), planned.plan) != reported_.end()) return;
  reported_[reports_++ % reported_.size()] = planned.plan;
  const Caller caller = host->names_of(planned.calls.front().caller).caller;
  const std::string_view line = why.substr(0, why.find('\n'));
  std::fprintf(stderr, "reel: %s:%u: a traced function runs without a CUDA graph for now: %.*s\n",
               caller.file ? caller.file : "?", caller.line, static_cast<int>(line.size()),
               line.data());
}

void Graphs::capture(Entry& entry, const PlannedGraph& planned) {
  ++entry.tries;
  entry.wait = entry.tries * entry.tries * 10;
  if (const cudaError_t error = begin_capture())
    return report_failure(planned, cudaGetErrorString(error));
  Capture capture(gpu_, stream_);
  PlannedGraph from_start = planned;
  from_start.position = 0;
  try {
    host->execute_kernels(from_start);
    entry.blocks = blocks_of(planned.calls);
    capture.advance(entry.blocks);
    if (const cudaError_t error = capture.finish(entry.graph))
      report_failure(planned, cudaGetErrorString(error));
    entry.draws = capture.draws_;
  } catch (const std::exception& error) {
    // Nothing has run. The kernels run one by one then, and throw what is wrong.
    report_failure(planned, error.what());
  }
  if (entry.graph)
    entry.holdings = std::move(capture.holdings);
  else
    gpu_.give_back(capture.holdings);
}

void Graphs::forget(std::uint64_t plan) noexcept {
  forget_if(true, [=](const Entry& entry) { return entry.plan == plan; });
}
bool Graphs::free_all(bool waits) noexcept {
  return forget_if(waits, [](const Entry& entry) { return entry.graph; });
}
/// A capture of this thread has locked the mutex. Its own entry has no graph yet, and stays.
template <class Ends>
bool Graphs::forget_if(bool waits, const Ends& ends) noexcept {
  const Capture* const capture = Capture::current();
  const bool captures = capture && &capture->gpu_ == &gpu_;
  std::unique_lock held(mutex_, std::defer_lock);
  if (!captures && waits) held.lock();
  if (!captures && !waits && !held.try_lock()) return false;
  bool any = false;
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto entry = next++;
    if (!ends(*entry) || (captures && !entry->graph)) continue;
    any = true;
    forget(entry);
  }
  return any;
}
void Graphs::forget(OwnList<Entry>::iterator entry) noexcept {
  if (entry->graph) {
    cudaGraphExecDestroy(entry->graph);  // a launch that runs still ends
    gpu_.give_back(entry->holdings);
  }
  entries_.erase(entry);
}
}  // namespace reel::gpu
