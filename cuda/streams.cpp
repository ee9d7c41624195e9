// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/streams.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "cuda/gpu.hpp"

namespace reel::gpu {
namespace {
// --- the numbers of threads ---
constinit std::mutex numbers;
constinit unsigned threads_with[Streams::most] = {};  // how many threads have a number
constinit std::atomic<unsigned> owners[Streams::most] = {};
constexpr int none = -1, ended = -2;
constinit thread_local int mine_now = none;

/// Gives the number back when the thread ends.
struct Number {
  bool taken = false;
  ~Number() {
    if (!taken) return;
    const std::lock_guard held(numbers);
    --threads_with[mine_now];
    mine_now = ended;
  }
};
thread_local Number number;

int take_number() {
  if (mine_now == ended) return 0;  // objects of the thread's end may use the device
  const std::lock_guard held(numbers);
  const auto least = std::min_element(std::begin(threads_with), std::end(threads_with));
  const auto at = least - threads_with;
  if ((*least)++ == 0) ++owners[at];
  number.taken = true;
  return mine_now = static_cast<int>(at);
}

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cuda");
  return stream;
}
cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cuda");
  return event;
}
}  // namespace

unsigned owner_of(int at) { return owners[at]; }
bool is_alive(int at, unsigned owner) {
  const std::lock_guard held(numbers);
  return threads_with[at] > 0 && owners[at] == owner;
}

Stream::Stream(int its_number)
    : number(its_number), handle(make_stream()), reached(make_event()), staging(handle) {}

Stream& Streams::mine() {
  const int at = mine_now >= 0 ? mine_now : take_number();
  Stream* const made = streams_[at].load(std::memory_order_acquire);
  return made ? *made : make(at);
}
/// The new stream begins after all that is queued now: memory that no work uses any more may have
/// been written there, such as numbers that kernels read.
Stream& Streams::make(int at) {
  Stream* const made = new_for_ever<Stream>(at);
  cudaError_t error = cudaSuccess;
  {
    const std::lock_guard held(making_);
    if (Stream* const other = streams_[at]) return *other;  // of a thread that shares the number
    const StreamSet earlier = all_.fetch_or(made->alone(), std::memory_order_seq_cst);
    error = order(*made, earlier);
    streams_[at].store(made, std::memory_order_release);
  }
  check(error, "cuda");
  return *made;
}

template <class F>
cudaError_t Streams::for_each(StreamSet set, const F& f) const {
  cudaError_t error = cudaSuccess;
  for (; set && !error; set &= set - 1)
    // A stream that is still being made has no work.
    if (const Stream* const each = streams_[std::countr_zero(set)].load(std::memory_order_acquire))
      error = f(*each);
  return error;
}
cudaError_t Streams::follow(Stream& later, StreamSet earlier) const {
  StreamSet sources = later.sources() | earlier;
  for_each(earlier, [&](const Stream& each) {
    sources |= each.sources();
    later.devices |= each.devices;
    return cudaSuccess;
  });
  later.set_sources(sources & ~later.alone());
  return order(later, earlier);
}
cudaError_t Streams::order(const Stream& later, StreamSet earlier) const {
  return for_each(earlier & ~later.alone(), [&](const Stream& each) {
    const cudaError_t error = cudaEventRecord(each.reached, each.handle);
    return error ? error : cudaStreamWaitEvent(later.handle, each.reached);
  });
}
cudaError_t Streams::lead(const Stream& earlier) {
  const std::lock_guard held(making_);  // a stream that is being made may not come after this one
  const StreamSet others = all() & ~earlier.alone();
  if (!others) return cudaSuccess;
  if (const cudaError_t error = cudaEventRecord(earlier.reached, earlier.handle)) return error;
  return for_each(others, [&](const Stream& each) {
    return cudaStreamWaitEvent(each.handle, earlier.reached);
  });
}
cudaError_t Streams::wait_for_all() const {
  return for_each(all(), [](const Stream& each) { return cudaStreamSynchronize(each.handle); });
}

// --- copies from the host ---
Staging::Staging(cudaStream_t stream) : stream_(stream) {
  check(cudaMallocHost(reinterpret_cast<void**>(&memory_), 2 * half), "cuda");
  for (cudaEvent_t& event : read_) event = make_event();
}
cudaError_t Staging::upload(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::lock_guard held(mutex_);
  while (bytes > 0) {
    if (used_ == half) {
      if (const cudaError_t error = cudaEventRecord(read_[in_use_], stream_)) return error;
      in_use_ = 1 - in_use_;
      used_ = 0;
      if (const cudaError_t error = cudaEventSynchronize(read_[in_use_])) return error;
    }
    const std::size_t part = std::min(bytes, half - used_);
    std::byte* const between = memory_ + static_cast<std::size_t>(in_use_) * half + used_;
    std::memcpy(between, from, part);
    if (const cudaError_t error =
            cudaMemcpyAsync(to, between, part, cudaMemcpyHostToDevice, stream_))
      return error;
    used_ += std::min((part + 63) / 64 * 64, half - used_);
    to += part, from += part, bytes -= part;
  }
  return cudaSuccess;
}
}  // namespace reel::gpu
