// SPDX-License-Identifier: BSD-3-Clause
// The streams of a device, one for each thread that uses it. The device may run the work of two
// threads at the same time. Memory (gpu.hpp) remembers which streams use a block.
#pragma once
#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace reel::gpu {
/// Streams of one device. Bit i stands for the stream with the number i.
using StreamSet = std::uint32_t;

/// Copies host memory to the device through pinned memory.
class Staging {
 public:
  explicit Staging(cudaStream_t stream);
  cudaError_t upload(std::byte* to, const std::byte* from, std::size_t bytes);

 private:
  static constexpr std::size_t half = std::size_t{1} << 20;
  cudaStream_t stream_;
  std::mutex mutex_;
  std::byte* memory_;     // two halves: the device reads one while the host fills the other
  cudaEvent_t read_[2];   // recorded when the device has read a half
  std::size_t used_ = 0;  // used bytes of the current half
  int in_use_ = 0;
};

/// Threads take streams over from others that have ended. This counts the owners of the streams of
/// a number.
unsigned owner_of(int number);
/// Whether this owner has not ended.
bool is_alive(int number, unsigned owner);

struct Stream {
  explicit Stream(int its_number);
  StreamSet alone() const { return StreamSet{1} << number; }
  /// The streams whose results work of the owner has read since its last wait.
  StreamSet sources() const { return sources_of_ == owner_of(number) ? sources_.load() : 0; }
  void set_sources(StreamSet sources) {
    sources_ = sources;
    sources_of_ = owner_of(number);
  }

  const int number;
  const cudaStream_t handle;
  // Recorded where other streams wait for this one, by several threads. A later record stands for
  // more work, so no wait is too short.
  const cudaEvent_t reached;
  Staging staging;
  // The other devices whose results its work has read since the last wait. Bit i stands for device
  // i.
  std::atomic<std::uint32_t> devices = 0;

 private:
  std::atomic<StreamSet> sources_ = 0;
  std::atomic<unsigned> sources_of_ = 0;  // the owner whose sources these are
};

class Streams {
 public:
  static constexpr int most = 32;
  /// Makes the stream of this thread. The device of this object must be the current one, here and
  /// in mine().
  Streams() : first_(mine()) {}
  /// The stream of this thread. When a thread ends, another one takes over its stream. If there are
  /// more than 32 threads at a time, some of them share a stream.
  Stream& mine();
  /// The stream of the thread that used the device first.
  const Stream& first() const { return first_; }
  /// Whether there is more than one stream. Else all work is in order.
  bool are_several() const { return all() & (all() - 1); }
  StreamSet all() const { return all_.load(std::memory_order_seq_cst); }
  /// Makes later work on a stream wait for all work that is already queued on others.
  cudaError_t order(const Stream& later, StreamSet earlier) const;
  /// order() for work that reads results of `earlier`, so that errors of `earlier` concern it.
  cudaError_t follow(Stream& later, StreamSet earlier) const;
  /// Makes later work on all other streams wait for all work that is already queued on this one.
  cudaError_t lead(const Stream& earlier);
  /// Waits for all work of all streams.
  cudaError_t wait_for_all() const;

 private:
  Stream& make(int number);
  /// Calls f(stream) for the streams of a set until it returns an error.
  template <class F>
  cudaError_t for_each(StreamSet set, const F& f) const;

  std::mutex making_;
  std::atomic<Stream*> streams_[most] = {};
  std::atomic<StreamSet> all_ = 0;
  Stream& first_;
};
}  // namespace reel::gpu
