// SPDX-License-Identifier: BSD-3-Clause
// Gradients in buckets of a fixed layout, and the thread that sends them.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reel/dist/data_parallel.hpp>

#include "lib/dist/state.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::dist::detail {
/// A gradient's place in a bucket, in elements.
struct Place {
  std::size_t variable;
  std::int64_t at, count;
};
/// The partial sum of some micro-batches of Sum::tree, which are 2^level from `first` on.
struct Subtree {
  int level;
  std::int64_t first;
};
/// The largest aligned subtrees of the micro-batches [first, end), from left to right.
std::vector<Subtree> subtrees(std::int64_t first, std::int64_t end);

/// Memory for the elements of a bucket: float32, or float64 where the Variables are. On a GPU, it
/// is packed when all gradients are there.
struct Bucket {
  DType dtype;
  std::vector<Place> places = {};
  std::int64_t count = 0;      // elements of one partial sum
  std::string posted = {};     // "bucket_2"
  std::string variables = {};  // for errors
  // What is sent, and then the sum. On a GPU it has the fields only.
  RawTensor own = {};
  std::vector<bool> put = {};  // one partial sum after the other: whether a place has its gradient
  std::vector<std::byte> received = {}, halves = {};
  std::vector<Tensor> parts = {};  // on a GPU, the gradients that were put; undefined for zeros
  RawTensor packed = {}, result = {};
  Tensor sum = {};
  std::size_t missing = 0;  // gradients that are not in it yet

  std::byte* bytes() const { return static_cast<std::byte*>(own.elements); }
};
/// The last three kinds of elements of the last bucket.
struct StepFields {
  double weight = 0;            // the sum of the ranks' examples
  std::vector<bool> used = {};  // by a loss of some rank
};

class Buckets {
 public:
  /// `order` are the Variables as they are put into buckets; others are sent otherwise. All ranks
  /// construct it with the same arguments. The lane is that of the device.
  Buckets(World world, const std::vector<Variable>& variables,
          const std::vector<std::size_t>& order, const DataParallelOptions& options, Lane& lane,
          Device device, Caller caller);
  ~Buckets();
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  /// A step begins. Buckets that are complete are sent from now on; what was not put is 0.
  void begin(std::int64_t step, Caller caller);
  /// Puts a gradient into its bucket, as part of partial sum number `partial`.
  void put(std::size_t variable, const Tensor& gradient, std::size_t partial = 0);
  /// The gradient is in its bucket. Starts each bucket that is complete, in their order.
  void complete(std::size_t variable);
  /// Sends the rest, and waits for all. `used` are the Variables that this rank has used.
  StepFields finish(double weight, const std::vector<bool>& used);
  /// What the sum has for a Variable. The next step writes the memory of the tensor.
  Tensor sum_of(std::size_t variable) const;
  std::string text() const;
  bool has(std::size_t variable) const { return bucket_of_[variable] >= 0; }

 private:
  Message message_of(Bucket& bucket) const;
  CallName name_of(const Bucket& bucket) const;
  void start_next();
  void run_thread();
  void work();
  /// Into the memory that is sent, with zeros for what was not put.
  void pack(Bucket& bucket);
  void pack_on_device(Bucket& bucket);
  /// The sum of the partial sums of all ranks: the memory of `own`.
  Tensor combined(Bucket& bucket) const;
  Tensor combined_on_device(const Bucket& bucket) const;
  /// Which subtree each partial sum of each rank is, and its number in what was received.
  std::vector<std::pair<Subtree, std::size_t>> received_parts() const;
  bool has_halves(const Bucket& bucket) const {
    return halves_ && bucket.dtype == DType::float32 && &bucket != &buckets_.back();
  }
  bool on_device() const { return device_ != cpu(); }
  World world_;
  const std::vector<Variable>& variables_;
  Sum sum_;
  bool halves_;
  std::int64_t micro_batches_;
  std::size_t partials_ = 1;  // of each rank
  Lane& lane_;
  Device device_;  // where the gradients are sent from
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // -1: none
  std::int64_t fields_at_ = 0, step_ = 0, step_limit_ = 1;
  Caller caller_ = {};
  // The thread: it starts buckets below `ready_` and counts those that have ended.
  std::size_t sent_ = 0;  // complete so far, in order
  std::atomic<std::size_t> ready_ = 0, ended_ = 0;
  std::atomic<int> turn_ = 0;  // changes whenever there is something for the thread to do
  std::atomic<bool> stop_ = false, waits_ = false;
  std::exception_ptr failure_ = nullptr;
  std::unique_ptr<std::thread> thread_;
};
}  // namespace reel::dist::detail
