// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/gpu.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda/matmul.hpp"
#include "lib/body/small_vector.hpp"

namespace reel::gpu {
const PluginHost* host = nullptr;

void check(cudaError_t error, std::string_view op, const CallNames& names) {
  if (error == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // clears the error, unless it is sticky
  host->fail_device(names, op, "device", "CUDA to do its work", cudaGetErrorString(error),
                    "An earlier kernel may have caused it: call synchronize() after each op to "
                    "find which one.");
}

namespace {
/// Whether the device has a context. cudaSetDevice() would make one, which takes hundreds of
/// megabytes of the device's memory.
bool has_context(int device) {
  using Function = CUresult (*)(CUdevice device, unsigned* flags, int* active);
  static const auto of_driver = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, 7000, cudaEnableDefault,
                                     &result);
    return reinterpret_cast<Function>(found);
  }();
  unsigned flags = 0;
  int active = 1;
  if (of_driver && of_driver(device, &flags, &active) != CUDA_SUCCESS) return true;
  return active;
}
/// The device that this thread set last. cudaSetDevice() makes its context current on the thread,
/// as cuBLASLt needs. cudaGetDevice() does not.
constinit thread_local int bound = -1;
void bind(int index) {
  if (cudaSetDevice(index) == cudaSuccess) bound = index;
}
}  // namespace

Current::Current(int index) {
  int now = index;
  const bool known = cudaGetDevice(&now) == cudaSuccess;
  if (known && now == index && bound == index) return;
  if (now != index) before_ = now;
  bind(index);
}
Current::~Current() {
  if (before_ >= 0 && has_context(before_)) bind(before_);
}

// --- memory ---
/// Rounds up to one of eight sizes for each power of two. Sizes are at least 512 bytes apart. If
/// no block is kept, a block has its exact size, so that a memory checker knows its end.
std::size_t rounded(std::size_t bytes) {
  if (!keeps_memory) return bytes;
  std::size_t step = 512;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}
namespace {
/// A number of bytes, as "REEL_CUDA_MEMORY=4G" says it; all there is where it is not set, 0 where
/// it is no such number.
std::size_t read_limit() {
  const char* const text = std::getenv("REEL_CUDA_MEMORY");
  if (!text || !*text) return SIZE_MAX;
  char* end = nullptr;
  double bytes = std::strtod(text, &end);
  const char* const units = "KMGT";
  if (const char* const unit = *end ? std::strchr(units, *end) : nullptr) {
    for (const char* each = units; each <= unit; ++each) bytes *= 1024;
    ++end;
  }
  if (*end || !(bytes > 0)) return 0;
  return bytes < 0x1p63 ? static_cast<std::size_t>(bytes) : SIZE_MAX;
}
/// Whether REEL_CUDA_CACHE has this value. With nan a block is filled with NaN before it is used
/// again.
bool cache_is(const char* value) {
  const char* const text = std::getenv("REEL_CUDA_CACHE");
  return text && std::strcmp(text, value) == 0;
}
const bool fills = cache_is("nan");
}  // namespace
const bool keeps_memory = !cache_is("0");
const std::size_t Memory::limit = read_limit();

cudaError_t Memory::take(std::size_t bytes, std::byte*& block) {
  const std::size_t size = rounded(bytes);
  const Stream& mine = streams_.mine();
  const std::lock_guard held(mutex_);
  cudaError_t error = cudaSuccess;
  if (const auto found = kept_.find(size); found != kept_.end() && !found->second.empty()) {
    auto& kept = found->second;
    const auto is_mine = [&](Blocks::iterator each) { return each->second.users == mine.alone(); };
    auto chosen = std::prev(kept.end());
    if (!is_mine(*chosen))
      if (const auto own = std::find_if(kept.rbegin(), kept.rend(), is_mine); own != kept.rend())
        chosen = std::prev(own.base());
    Block& reused = (*chosen)->second;
    if ((error = streams_.order(mine, reused.users))) return error;
    reused.users = reused.writer = mine.alone();
    block = (*chosen)->first;
    if (fills && (error = cudaMemsetAsync(block, 0xff, size, mine.handle))) return error;
    reused.live = true;
    kept.erase(chosen);
  } else if ((error = allocate(size, mine, block)) == cudaErrorMemoryAllocation) {
    trim_kept();
    error = allocate(size, mine, block);
  }
  if (error != cudaSuccess) return error;
  live_ += size;
  peak_ = std::max(peak_, live_);
  return cudaSuccess;
}
cudaError_t Memory::allocate(std::size_t bytes, const Stream& stream, std::byte*& block) {
  if (bytes > limit || taken_ > limit - bytes) return cudaErrorMemoryAllocation;
  void* made = nullptr;
  const cudaError_t error =
      has_pool_ ? cudaMallocAsync(&made, bytes, stream.handle) : cudaMalloc(&made, bytes);
  if (error == cudaErrorMemoryAllocation) cudaGetLastError();
  if (error != cudaSuccess) return error;
  taken_ += bytes;
  block = static_cast<std::byte*>(made);
  blocks_[block] = {.bytes = bytes, .writer = stream.alone(), .users = stream.alone()};
  return error;
}
void Memory::give(std::byte* block, std::size_t) noexcept {
  const std::lock_guard held(mutex_);
  const auto found = blocks_.find(block);
  Block& given = found->second;
  live_ -= given.bytes;
  given.live = false;
  given.op = {};
  given.caller = {};
  if (keeps_memory) try {
      kept_[given.bytes].push_back(found);
      return;
    } catch (const std::bad_alloc&) {  // without memory for the list, free the block
    }
  streams_.order(streams_.first(), given.users);
  free(found);
}
void Memory::free(Blocks::iterator block) noexcept {
  has_pool_ ? cudaFreeAsync(block->first, streams_.first().handle) : cudaFree(block->first);
  taken_ -= block->second.bytes;
  blocks_.erase(block);
}
cudaError_t Memory::use(const std::byte* at, bool writes) {
  Stream& mine = streams_.mine();
  const std::lock_guard held(mutex_);
  const auto next = blocks_.upper_bound(const_cast<std::byte*>(at));
  if (next == blocks_.begin()) return streams_.follow(mine, streams_.all());
  auto& [first, block] = *std::prev(next);
  if (at >= first + block.bytes)  // memory of the program itself
    return streams_.follow(mine, streams_.all());
  if (writes) {
    const StreamSet earlier = std::exchange(block.users, mine.alone());
    block.writer = mine.alone();
    return streams_.order(mine, earlier);
  }
  if (block.users & mine.alone()) return cudaSuccess;
  block.users |= mine.alone();
  return streams_.follow(mine, block.writer);
}
void Memory::name(const Body& made, const Op& op, Caller caller) {
  if (rounded(static_cast<std::size_t>(made.bytes())) < large) return;
  const std::lock_guard held(mutex_);
  if (const auto found = blocks_.find(made.data); found != blocks_.end()) {
    found->second.op = op.name;
    found->second.caller = caller;
  }
}
void Memory::trim() noexcept {
  const std::lock_guard held(mutex_);
  trim_kept();
}
void Memory::trim_kept() noexcept {
  streams_.wait_for_all();
  for (auto& [size, blocks] : kept_) {
    for (const Blocks::iterator block : blocks) free(block);
    blocks.clear();
  }
  cudaStreamSynchronize(streams_.first().handle);
}
DeviceMemoryUse Memory::use() {
  const std::lock_guard held(mutex_);
  return {live_, taken_ - live_, peak_};
}
std::string Memory::largest() {
  const std::lock_guard held(mutex_);
  std::vector<const Block*> all;
  for (const auto& [memory, each] : blocks_)
    if (each.live && each.bytes >= large) all.push_back(&each);
  std::sort(all.begin(), all.end(),
            [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  std::string text = std::to_string(live_ >> 20) + " MiB are in use";
  for (std::size_t i = 0; i < all.size() && i < 5; ++i) {
    const Block& each = *all[i];
    text += (i ? ", " : "; the largest: ") + std::to_string(each.bytes >> 20) + " MiB";
    if (!each.op.empty()) text += " of " + std::string(each.op);
    if (each.caller.file)
      text += " (" + std::string(each.caller.file) + ":" + std::to_string(each.caller.line) + ")";
  }
  return text + ".";
}

// --- reports of kernels ---
Faults::Faults(Streams& streams) : streams_(streams) {
  constexpr std::size_t bytes = 2 * most * sizeof(Fault);
  check(cudaMalloc(reinterpret_cast<void**>(&reports_), bytes), "cuda");
  check(cudaMallocHost(reinterpret_cast<void**>(&copies_), bytes), "cuda");
  check(cudaMemsetAsync(reports_, 0xff, bytes, streams.first().handle), "cuda");
  pending_.reserve(most);
}
Faults::Pending Faults::pending_of(const Queue& queue, const KernelResult& result,
                                   StreamSet streams) {
  const DeviceCall& call = *queue.call;
  const Body& input = call.kernel.input(result.input);
  const CallNames names = host->names_of(call.caller);
  return {&call.op,
          result,
          names.caller,
          std::string(names.layer),
          std::string(names.function),
          input.shape,
          call.part == Part::value && !is_floating(input.dtype),
          streams};
}
Fault* Faults::next(const Queue& queue, const KernelResult& result,
                    std::unique_lock<std::mutex>& held) {
  const Stream& mine = streams_.mine();
  if (!held) {
    held = std::unique_lock(mutex_);
    if (pending_.size() + most_of_call > most) queue.check(read(mine));
    reporting_ |= mine.alone();
  }
  pending_.push_back(pending_of(queue, result, mine.alone()));
  pending_.back().owner = owner_of(mine.number);
  return reports_ + most + pending_.size() - 1;
}
Fault* Faults::keep(const Queue& queue, const KernelResult& result) {
  const std::lock_guard held(mutex_);
  std::size_t i = 0;
  while (i < kept_.size() && kept_[i]) ++i;
  if (i == most) return nullptr;
  if (i == kept_.size()) kept_.emplace_back();
  kept_[i] = pending_of(queue, result, 0);
  return reports_ + i;
}
void Faults::give_back(const Fault* fault) noexcept {
  bool& given_back = kept_[index_of(fault)]->given_back;
  __atomic_store_n(&given_back, true, __ATOMIC_RELEASE);
}
std::optional<Faults::Report> Faults::take(Stream& mine, bool all) {
  const auto is_own = [&](const Report& each) {
    return each.stream == mine.number && each.owner == owner_of(mine.number);
  };
  const StreamSet sources = mine.sources();
  const auto concerns = [&](const Report& each) {
    return (all || sources >> each.stream & 1) && !(each.notified & mine.alone());
  };
  auto found = std::find_if(owed_.begin(), owed_.end(), is_own);
  if (found == owed_.end()) found = std::find_if(owed_.begin(), owed_.end(), concerns);
  if (found == owed_.end()) {
    mine.set_sources(0);
    return std::nullopt;
  }
  found->notified |= mine.alone();
  const Report report = *found;
  if (is_own(report) || !is_alive(report.stream, report.owner)) owed_.erase(found);
  return report;
}
void Faults::add(const Pending& of, const Fault& words) {
  constexpr std::size_t most_owed = 1024;
  for (int stream = 0; stream < Streams::most; ++stream) {
    if (!(of.streams >> stream & 1)) continue;
    const unsigned owner = of.owner ? of.owner : owner_of(stream);
    const auto is_same = [=](const Report& each) {
      return each.stream == stream && each.owner == owner;
    };
    if (std::any_of(owed_.begin(), owed_.end(), is_same)) continue;
    if (owed_.size() == most_owed) owed_.pop_front();
    owed_.push_back({of, words, stream, owner});
  }
}
void Faults::wait(bool all) {
  cudaError_t error = cudaSuccess;
  std::optional<Report> first;
  Stream& mine = streams_.mine();
  {
    const std::lock_guard held(mutex_);
    error = read(mine);
    if (error == cudaSuccess) first = take(mine, all);
  }
  check(error, "synchronize");
  if (!first) return;
  const auto [high, low] = first->words;
  const Pending& of = first->of;
  KernelResult result = of.result;
  result.got = static_cast<std::int64_t>(high << 32 | (low & 0xffffffff));
  std::memcpy(&result.number, &result.got, sizeof(double));
  const auto position = static_cast<std::int64_t>(high >> 32);
  host->fail_kernel(*of.op, result, of.shape, of.has_place ? position : -1,
                    {of.caller, of.layer, of.function});
}
cudaError_t Faults::read(const Stream& mine) {
  if (const cudaError_t error = streams_.order(mine, reporting_)) return error;
  const std::size_t first = kept_.empty() ? most : 0, end = most + pending_.size();
  const std::size_t bytes = (end - first) * sizeof(Fault);
  if (bytes)
    if (const cudaError_t error = cudaMemcpyAsync(copies_ + first, reports_ + first, bytes,
                                                  cudaMemcpyDeviceToHost, mine.handle))
      return error;
  if (const cudaError_t error = cudaStreamSynchronize(mine.handle)) return error;
  reporting_ = 0;
  bool reported = false;
  // Faults of single calls first: kept faults are in no order.
  for (std::size_t i = 0; i < end - first; ++i) {
    const std::size_t at = first + (i + (most - first)) % (end - first);
    if (copies_[at].high == ~0ull) continue;
    reported = true;
    add(at < most ? *kept_[at] : pending_[at - most], copies_[at]);
  }
  pending_.clear();
  for (std::optional<Pending>& each : kept_) {
    if (each && __atomic_load_n(&each->given_back, __ATOMIC_ACQUIRE)) each.reset();
    if (each) each->streams = 0;
  }
  if (!reported) return cudaSuccess;
  if (const cudaError_t error = cudaMemsetAsync(reports_ + first, 0xff, bytes, mine.handle))
    return error;
  return streams_.lead(mine);  // later reports come after that
}

// --- numbers ---
Constants::Constants() {
  check(cudaMalloc(reinterpret_cast<void**>(&memory_), places * size), "cuda");
}
const std::byte* Constants::find(std::uint64_t bytes, Streams& streams) {
  Stream& mine = streams.mine();
  const std::uint64_t hash = (bytes * 0x9e3779b97f4a7c15) >> 32;
  const std::lock_guard held(mutex_);
  std::size_t place = hash % places;
  while (at_[place] && *at_[place] != bytes) place = (place + 1) % places;
  std::byte* const found = memory_ + place * size;
  if (at_[place]) return found;
  std::uint64_t& last = last_[hash / places % std::size(last_)];
  const bool again = last == bytes;
  last = bytes;
  if (!again || count_ == places / 2) return nullptr;
  cudaError_t error =
      mine.staging.upload(found, reinterpret_cast<const std::byte*>(&bytes), sizeof bytes);
  if (!error) error = streams.lead(mine);
  check(error, "to");
  at_[place] = bytes;
  ++count_;
  return found;
}

// --- the device ---
/// Scratch memory of one call. Later work on the stream may reuse it.
struct Scratch {
  Gpu& gpu;
  SmallVector<std::pair<std::byte*, std::size_t>, 4> blocks = {};
  std::unique_lock<std::mutex> reporting = {};  // see Faults::next()
  ~Scratch() {
    for (std::size_t i = 0; i < blocks.size(); ++i) gpu.release(blocks[i].first, blocks[i].second);
  }
};
int attribute(cudaDeviceAttr attribute, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, index), "cuda");
  return value;
}

Gpu::Gpu(int number)
    : index(number),
      processors(attribute(cudaDevAttrMultiProcessorCount, number)),
      memory(streams, attribute(cudaDevAttrMemoryPoolsSupported, number)),
      faults(streams),
      graphs(*this) {
  // What a capture would load or make at its first use.
  check(load_draws(), "cuda");
  Products::open(index);
}

cudaError_t Gpu::allocate(std::size_t bytes, std::byte*& block, bool reports) {
  Capture* const capture = Capture::current();
  if (capture && (block = capture->reuse(bytes)))
    return fills ? cudaMemsetAsync(block, 0xff, bytes, capture->stream) : cudaSuccess;
  cudaError_t error = memory.take(bytes, block);
  if (error == cudaErrorMemoryAllocation && graphs.free_all(!reports))
    error = memory.take(bytes, block);
  if (capture && error == cudaSuccess) capture->holdings.blocks.emplace_back(block, bytes);
  return error;
}
void Gpu::release(std::byte* block, std::size_t bytes) noexcept {
  Capture* const capture = Capture::current();
  if (!capture || !capture->keep(block)) memory.give(block, bytes);
}
void Gpu::give_back(const Holdings& holdings) noexcept {
  for (const auto& [block, bytes] : holdings.blocks) memory.give(block, bytes);
  for (const Fault* const fault : holdings.faults) faults.give_back(fault);
}

namespace {
/// Where work of this thread for a device goes.
cudaStream_t stream_of(Gpu& gpu) {
  const Capture* const capture = Capture::current();
  return capture ? capture->stream : gpu.streams.mine().handle;
}
}  // namespace
cudaError_t Gpu::use_of_several(const std::byte* at, bool writes) {
  return Capture::current() || constants.have(at) ? cudaSuccess : memory.use(at, writes);
}
bool Gpu::run(const DeviceCall& call) {
  const Current current(index);
  streams.mine();  // this may be a second one
  if (streams.are_several()) [[unlikely]] {
    const KernelCall& kernel = call.kernel;
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < kernel.input_count && !error; ++i) error = use(kernel.inputs[i], false);
    for (int i = 0; i < kernel.output_count && !error; ++i) error = use(kernel.outputs[i], true);
    check(error, call.op.name, host->names_of(call.caller));
  }
  Scratch scratch{*this};
  const Queue queue{this, &call, &scratch, stream_of(*this), processors};
  const KernelResult result =
      call.op.on(Device::Kind::cuda).of<Queue>(call.part)(call.kernel.on(queue));
  scratch.reporting = {};
  if (result.failure == declined) return false;
  for (int i = 0; i < call.kernel.output_count; ++i)
    if (const Body* const made = call.kernel.outputs[i]) memory.name(*made, call.op, call.caller);
  if (result.failure)
    host->fail_kernel(call.op, result, call.kernel.input(result.input).shape, -1,
                      host->names_of(call.caller));
  return true;
}
void Gpu::fill(Body& to, double number) {
  const Current current(index);
  check(use(&to, true), "fill");
  const Queue queue{this, nullptr, nullptr, stream_of(*this), processors};
  fill_with(queue, to.dtype, to.data, to.elements, number);
}
void Gpu::download(void* to, const std::byte* from, std::size_t bytes) {
  const Current current(index);
  check(use(from, false), "to");
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, streams.mine().handle), "to");
  faults.wait();
}
void Gpu::wait() {
  const Current current(index);
  check(streams.order(streams.mine(), streams.all()), "synchronize");
  faults.wait(true);
}

// --- functions for kernels ---
void* Queue::scratch(std::size_t bytes) const {
  std::byte* block = nullptr;
  const cudaError_t error =
      gpu->allocate(std::max<std::size_t>(bytes, 1), block, held->reporting.owns_lock());
  if (error == cudaErrorMemoryAllocation) {
    held->reporting = {};
    host->fail_memory(host->names_of(call->caller), call->op.name, "scratch",
                      std::to_string(bytes) + " bytes", gpu->memory.largest());
  }
  check(error);
  held->blocks.push_back({block, std::max<std::size_t>(bytes, 1)});
  return block;
}
void Queue::make_room() const {
  cudaGetLastError();
  const bool reports = held && held->reporting.owns_lock();
  if (!Capture::current()) gpu->make_room(reports);  // a capture forbids a wait
}
Fault* Queue::fault(const KernelResult& result) const {
  Capture* const capture = Capture::current();
  if (!capture) return gpu->faults.next(*this, result, held->reporting);
  Fault* const kept = gpu->faults.keep(*this, result);
  if (!kept) refuse("memory for what its kernels report", "none", "Trace fewer functions.");
  capture->holdings.faults.push_back(kept);
  return kept;
}
const Draws* Queue::draws() const {
  Capture* const capture = Capture::current();
  if (!capture) return nullptr;
  const Draws* const draws = capture->draws();
  if (!draws)
    refuse("memory for the position in the random numbers", "none", "Trace fewer functions.");
  return draws;
}
void Queue::fail(cudaError_t error) const {
  if (held) held->reporting = {};  // the call ends; see Faults
  const std::string_view op = call ? call->op.name : "fill";
  const CallNames names = host->names_of(call ? call->caller : Caller());
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    host->fail_memory(names, op, "kernel", "its code or its stack", gpu->memory.largest());
  }
  gpu::check(error, op, names);
  __builtin_unreachable();
}
void Queue::refuse(const char* expected, const char* got, const char* advice) const {
  held->reporting = {};
  host->fail_device(host->names_of(call->caller), call->op.name, "device", expected, got, advice);
  __builtin_unreachable();
}
}  // namespace reel::gpu
