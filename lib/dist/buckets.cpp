// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dist/buckets.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <reel/ops.hpp>

#include "lib/body/text.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::dist::detail {
namespace {
constexpr std::int64_t extra_fields = 2;  // weight and step, before a number for each Variable

/// The micro-batches of a rank.
std::pair<std::int64_t, std::int64_t> share_of(std::int64_t rank, std::int64_t ranks,
                                               std::int64_t micro_batches) {
  return {rank * micro_batches / ranks, (rank + 1) * micro_batches / ranks};
}

template <class T>
void add(T* to, const T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += x[i];
}
/// Adds lists of partial sums, from left to right, into `to`.
template <class T>
void add_ordered(T* to, const std::vector<const T*>& parts, std::int64_t count) {
  std::memcpy(to, parts[0], static_cast<std::size_t>(count) * sizeof(T));
  for (std::size_t k = 1; k < parts.size(); ++k) add(to, parts[k], count);
}
/// The sum in the tree of all micro-batches: two neighbours of one level become their sum.
/// part(k) is a partial sum, and add(left, right) adds the second to the first.
template <class Part, class Add>
auto tree_sum(const std::vector<std::pair<Subtree, std::size_t>>& parts, const Part& part,
              const Add& add) {
  struct Node {
    Subtree tree;
    decltype(part(0)) sum;
  };
  std::vector<Node> open;
  const auto join = [&] {
    Node right = std::move(open.back());
    open.pop_back();
    add(open.back().sum, right.sum);
    ++open.back().tree.level;
  };
  for (const auto& [tree, number] : parts) {
    open.push_back({tree, part(number)});
    while (open.size() > 1 && open[open.size() - 2].tree.level == open.back().tree.level &&
           open[open.size() - 2].tree.first % (std::int64_t{2} << open.back().tree.level) == 0)
      join();
  }
  while (open.size() > 1) join();
  return std::move(open[0].sum);
}
}  // namespace

std::vector<Subtree> subtrees(std::int64_t first, std::int64_t end) {
  std::vector<Subtree> found;
  while (first < end) {
    int level = 0;
    while (first % (std::int64_t{2} << level) == 0 && first + (std::int64_t{2} << level) <= end)
      ++level;
    found.push_back({level, first});
    first += std::int64_t{1} << level;
  }
  return found;
}

Buckets::Buckets(World world, const std::vector<Variable>& variables,
                 const std::vector<std::size_t>& order, const DataParallelOptions& options,
                 Lane& lane, Device device, Caller caller)
    : world_(std::move(world)),
      variables_(variables),
      sum_(options.sum),
      halves_(options.send_as == DType::bfloat16),
      micro_batches_(options.micro_batches),
      lane_(lane),
      device_(device),
      bucket_of_(variables.size(), -1),
      caller_(caller) {
  if (sum_ == Sum::tree)
    for (std::int64_t rank = 0; rank < world_.size(); ++rank) {
      const auto [first, end] = share_of(rank, world_.size(), micro_batches_);
      partials_ = std::max(partials_, subtrees(first, end).size());
    }
  const auto add_bucket = [&](DType dtype) {
    buckets_.push_back({dtype});
    buckets_.back().posted = "bucket_" + std::to_string(buckets_.size() - 1);
  };
  for (const std::size_t variable : order) {
    const Variable& x = variables[variable];
    const DType dtype = x.dtype() == DType::float64 ? DType::float64 : DType::float32;
    const auto bytes = [&](std::int64_t count) {
      return count * static_cast<std::int64_t>(size_of(dtype));
    };
    if (buckets_.empty() || buckets_.back().dtype != dtype ||
        bytes(buckets_.back().count + x.size()) > options.bucket_bytes)
      if (buckets_.empty() || buckets_.back().count > 0) add_bucket(dtype);
    Bucket& bucket = buckets_.back();
    bucket.dtype = dtype;
    bucket_of_[variable] = static_cast<int>(buckets_.size()) - 1;
    bucket.places.push_back({variable, bucket.count, x.size()});
    bucket.count += x.size();
  }
  if (buckets_.empty() || halves_) add_bucket(DType::float32);
  Bucket& last = buckets_.back();
  fields_at_ = last.count;
  last.count += extra_fields + static_cast<std::int64_t>(variables.size());
  const std::size_t ranks = static_cast<std::size_t>(world_.size());
  const auto memory = [&](DType dtype, std::int64_t count) {
    RawTensor made = raw_tensor(dtype, {count});
    if (!made.tensor.defined()) fail_memory(caller_, "DataParallel");
    if (made.bytes) std::memset(made.elements, 0, made.bytes);
    return made;
  };
  for (Bucket& bucket : buckets_) {
    const std::size_t bytes =
        static_cast<std::size_t>(bucket.count * size_of(bucket.dtype)) * partials_;
    if (on_device())
      bucket.parts.resize(bucket.places.size() * partials_);
    else
      bucket.own = memory(bucket.dtype, bucket.count * static_cast<std::int64_t>(partials_));
    if (!on_device() && sum_ != Sum::fast) bucket.received.resize(bytes * ranks);
    constexpr std::size_t most_named = 3;
    for (std::size_t k = 0; k < bucket.places.size(); ++k) {
      if (k < most_named)
        bucket.variables += (k ? ", " : "") + variables[bucket.places[k].variable].name();
      else if (k == most_named)
        bucket.variables += " and " + std::to_string(bucket.places.size() - k) + " more";
    }
  }
  if (on_device()) last.own = memory(last.dtype, last.count - fields_at_);
  // Sums of so many steps are exact in float32.
  while (step_limit_ * 2 * world_.size() <= 1 << 24 && step_limit_ < 1 << 20) step_limit_ *= 2;
  if (buckets_.size() > 1 && world_.size() > 1)
    thread_ = std::make_unique<std::thread>([this] { run_thread(); });
}
Buckets::~Buckets() {
  if (thread_) {
    stop_ = true;
    ++turn_;
    turn_.notify_all();
    thread_->join();
  }
  lane_.give_up();  // no rank may write to these buckets any more
}

void Buckets::begin(std::int64_t step, Caller caller) {
  caller_ = caller;
  step_ = step;
  sent_ = 0;
  ready_ = ended_ = 0;
  waits_ = false;
  failure_ = nullptr;
  for (Bucket& bucket : buckets_) {
    bucket.put.assign(bucket.places.size() * partials_, false);
    bucket.missing = bucket.places.size();
    std::fill(bucket.parts.begin(), bucket.parts.end(), Tensor());
  }
  ++buckets_.back().missing;  // the fields
}

void Buckets::put(std::size_t variable, const Tensor& gradient, std::size_t partial) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(bucket_of_[variable])];
  const auto place = std::find_if(bucket.places.begin(), bucket.places.end(),
                                  [&](const Place& each) { return each.variable == variable; });
  const Tensor wide = gradient.to(device_, caller_).to(bucket.dtype, caller_);
  const auto number =
      partial * bucket.places.size() + static_cast<std::size_t>(place - bucket.places.begin());
  bucket.put[number] = true;
  if (on_device()) {
    bucket.parts[number] = wide.reshape({-1});
    return;
  }
  const void* first = nullptr;
  const Tensor host =
      reel::detail::contiguous_host(wide, bucket.dtype, &first, "DataParallel", caller_);
  const auto width = static_cast<std::size_t>(size_of(bucket.dtype));
  const std::size_t at =
      static_cast<std::size_t>(bucket.count) * partial + static_cast<std::size_t>(place->at);
  if (place->count)
    std::memcpy(bucket.bytes() + at * width, first, static_cast<std::size_t>(place->count) * width);
}
void Buckets::complete(std::size_t variable) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(bucket_of_[variable])];
  --bucket.missing;
  start_next();
}
void Buckets::start_next() {
  const std::size_t before = sent_;
  for (; sent_ < buckets_.size() && buckets_[sent_].missing == 0; ++sent_) {
    Bucket& bucket = buckets_[sent_];
    on_device() ? pack_on_device(bucket) : pack(bucket);
  }
  if (!thread_ || sent_ == before) return;
  ready_ = sent_;
  ++turn_;
  turn_.notify_all();
}

void Buckets::pack(Bucket& bucket) {
  const auto width = static_cast<std::size_t>(size_of(bucket.dtype));
  const std::size_t count = bucket.places.size();
  for (std::size_t i = 0; i < bucket.put.size(); ++i) {
    if (bucket.put[i]) continue;
    const Place& place = bucket.places[i % count];
    const auto first =
        static_cast<std::size_t>(place.at) + i / count * static_cast<std::size_t>(bucket.count);
    std::memset(bucket.bytes() + first * width, 0, static_cast<std::size_t>(place.count) * width);
  }
  if (!has_halves(bucket)) return;
  const auto* const x = reinterpret_cast<const float*>(bucket.bytes());
  bucket.halves.resize(static_cast<std::size_t>(bucket.count) * 2);
  auto* const half = reinterpret_cast<std::uint16_t*>(bucket.halves.data());
  for (std::int64_t i = 0; i < bucket.count; ++i) half[i] = narrowed(x[i]);
}
void Buckets::pack_on_device(Bucket& bucket) {
  const DeviceScope there(device_);
  const auto no_values = [&](std::int64_t count) {
    return zeros({count}, {.dtype = bucket.dtype}, caller_);
  };
  std::vector<Tensor> all;
  for (std::size_t partial = 0; partial < partials_; ++partial) {
    for (std::size_t k = 0; k < bucket.places.size(); ++k) {
      const Tensor& part = bucket.parts[partial * bucket.places.size() + k];
      all.push_back(part.defined() ? part : no_values(bucket.places[k].count));
    }
    if (&bucket != &buckets_.back()) continue;
    const RawTensor fields = raw_tensor(bucket.dtype, {bucket.count - fields_at_});
    if (!fields.tensor.defined()) fail_memory(caller_, "DataParallel");
    std::memset(fields.elements, 0, fields.bytes);
    if (partial == 0) std::memcpy(fields.elements, bucket.own.elements, fields.bytes);
    all.push_back(fields.tensor.to(device_, caller_));
  }
  std::fill(bucket.parts.begin(), bucket.parts.end(), Tensor());
  const Tensor whole = concat(all);
  bucket.packed =
      row_major(has_halves(bucket) ? whole.to(DType::bfloat16, caller_) : whole, caller_);
  const std::int64_t parts = sum_ == Sum::fast ? 1 : world_.size();
  if (world_.size() == 1)
    bucket.result = bucket.packed;
  else
    bucket.result = raw_tensor(bucket.packed.tensor.dtype(), {whole.size() * parts}, device_);
  if (!bucket.result.tensor.defined()) fail_memory(caller_, "DataParallel");
}

Message Buckets::message_of(Bucket& bucket) const {
  const Wire wire = bucket.dtype == DType::float64 ? Wire::float64 : Wire::float32;
  if (on_device())
    return {sum_ == Sum::fast ? Kind::all_reduce : Kind::all_gather,
            has_halves(bucket) ? Wire::bfloat16 : wire,
            Combine::sum,
            bucket.packed.elements,
            bucket.result.elements,
            bucket.packed.tensor.size()};
  if (sum_ != Sum::fast)
    return {Kind::all_gather,       wire,
            Combine::sum,           bucket.bytes(),
            bucket.received.data(), bucket.count * static_cast<std::int64_t>(partials_)};
  if (!bucket.halves.empty())
    return {Kind::all_reduce,     Wire::bfloat16,       Combine::sum,
            bucket.halves.data(), bucket.halves.data(), bucket.count};
  return {Kind::all_reduce, wire, Combine::sum, bucket.bytes(), bucket.bytes(), bucket.count};
}
CallName Buckets::name_of(const Bucket& bucket) const {
  return {"DataParallel", bucket.posted, bucket.variables};
}

namespace {
/// Lets this thread run soon after each short sleep, also where other threads keep the processors
/// busy.
void wake_soon() {
  ::prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds; 50,000 else, more than it sleeps
  // Since Linux 6.12, a thread that asks for a short slice interrupts one with a long slice. An
  // older Linux ignores it.
  struct {  // sched_attr; its header and <sched.h> exclude each other
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes = {};
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  attributes.runtime = 100'000;  // nanoseconds, the least
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}
}  // namespace

void Buckets::run_thread() {
  wake_soon();
  int seen = 0;
  while (!stop_) {
    turn_.wait(seen);
    seen = turn_;
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
      ended_ = buckets_.size() + 1;
    }
  }
}
/// Sends what is ready, and returns when that has ended.
void Buckets::work() {
  std::size_t started = ended_;
  if (started > buckets_.size()) return;
  // A thread that yields to one that computes gets the processor back late; one that sleeps gets
  // it at once.
  Pause pause(0);
  double end = 0;
  while (!stop_) {
    while (started < ready_) {
      Bucket& bucket = buckets_[started++];
      lane_.start(message_of(bucket), name_of(bucket), caller_);
    }
    if (lane_.running() == 0) return;
    const CallName name = name_of(buckets_[ended_]);
    if (lane_.test(name, caller_)) {
      ++ended_;
      pause = Pause(0);
      end = 0;
      continue;
    }
    // The time of a rank that still computes does not count: the others may be as slow.
    if (const double now = seconds_now(); !waits_ || end == 0)
      end = now + world_.state().timeout;
    else if (lane_.is_late(name, now, end))
      lane_.fail_late(name, caller_);
    pause();
  }
}

StepFields Buckets::finish(double weight, const std::vector<bool>& used) {
  Bucket& last = buckets_.back();
  const auto fields = [&](auto* elements) {
    if (!on_device()) elements += fields_at_;
    elements[0] = static_cast<std::remove_reference_t<decltype(*elements)>>(weight);
    elements[1] = static_cast<std::remove_reference_t<decltype(*elements)>>(step_ % step_limit_);
    for (std::size_t i = 0; i < used.size(); ++i) elements[extra_fields + i] = used[i];
  };
  const bool wide = last.dtype == DType::float64;
  wide ? fields(reinterpret_cast<double*>(last.bytes()))
       : fields(reinterpret_cast<float*>(last.bytes()));
  for (Bucket& bucket : buckets_) bucket.missing = 0;  // of what no rank may wait for
  start_next();
  if (thread_) {
    waits_ = true;
    for (Pause pause; ended_ < buckets_.size();) pause();
    if (failure_) std::rethrow_exception(failure_);
  } else if (world_.size() > 1) {
    for (Bucket& bucket : buckets_) lane_.run(message_of(bucket), name_of(bucket), caller_);
  } else if (sum_ != Sum::fast && !on_device()) {
    for (Bucket& bucket : buckets_)
      bucket.received.assign(bucket.bytes(), bucket.bytes() + bucket.own.bytes);
  }
  for (Bucket& bucket : buckets_)
    bucket.sum = on_device() ? combined_on_device(bucket) : combined(bucket);
  StepFields found;
  if (on_device()) {
    const void* sums = nullptr;
    const Tensor kept = reel::detail::contiguous_host(last.sum(range(fields_at_, last.count)),
                                                      last.dtype, &sums, "DataParallel", caller_);
    std::memcpy(last.bytes(), sums, last.own.bytes);
  }
  const auto at = [&](std::int64_t i) {
    const auto k = static_cast<std::size_t>((on_device() ? 0 : fields_at_) + i);
    return wide ? reinterpret_cast<const double*>(last.bytes())[k]
                : static_cast<double>(reinterpret_cast<const float*>(last.bytes())[k]);
  };
  found.weight = at(0);
  if (at(1) != static_cast<double>(step_ % step_limit_ * world_.size()))
    fail<DistError>(caller_, "DataParallel", "step", std::to_string(step_) + " on all ranks",
                    "another one on a rank",
                    "A rank has called step() or join() more often than others.");
  for (std::size_t i = 0; i < used.size(); ++i)
    found.used.push_back(at(extra_fields + static_cast<std::int64_t>(i)) > 0);
  return found;
}

Tensor Buckets::combined(Bucket& bucket) const {
  if (!bucket.halves.empty()) {
    auto* const x = reinterpret_cast<float*>(bucket.bytes());
    const auto* const half = reinterpret_cast<const std::uint16_t*>(bucket.halves.data());
    for (std::int64_t i = 0; i < bucket.count; ++i) x[i] = widened(half[i]);
  }
  if (sum_ == Sum::fast) return bucket.own.tensor;
  const auto add_all = [&](auto* to) {
    using T = std::remove_reference_t<decltype(*to)>;
    const auto part = [&](std::size_t number) {
      return reinterpret_cast<const T*>(bucket.received.data()) +
             number * static_cast<std::size_t>(bucket.count);
    };
    if (sum_ == Sum::tree) {
      const std::vector<T> all = tree_sum(
          received_parts(),
          [&](std::size_t k) { return std::vector<T>(part(k), part(k) + bucket.count); },
          [&](std::vector<T>& a, const std::vector<T>& b) {
            add(a.data(), b.data(), bucket.count);
          });
      std::memcpy(to, all.data(), all.size() * sizeof(T));
    } else {
      std::vector<const T*> parts;
      for (const auto& [tree, number] : received_parts()) parts.push_back(part(number));
      add_ordered(to, parts, bucket.count);
    }
  };
  bucket.dtype == DType::float64 ? add_all(reinterpret_cast<double*>(bucket.bytes()))
                                 : add_all(reinterpret_cast<float*>(bucket.bytes()));
  return bucket.own.tensor;
}

std::vector<std::pair<Subtree, std::size_t>> Buckets::received_parts() const {
  std::vector<std::pair<Subtree, std::size_t>> all;
  for (std::int64_t rank = 0; rank < world_.size(); ++rank) {
    const auto [first, end] = sum_ == Sum::tree
                                  ? share_of(rank, world_.size(), micro_batches_)
                                  : std::pair<std::int64_t, std::int64_t>(rank, rank + 1);
    const std::vector<Subtree> own = subtrees(first, end);
    for (std::size_t k = 0; k < own.size(); ++k)
      all.emplace_back(own[k], static_cast<std::size_t>(rank) * partials_ + k);
  }
  return all;
}
Tensor Buckets::combined_on_device(const Bucket& bucket) const {
  if (sum_ == Sum::fast) return bucket.result.tensor.to(bucket.dtype, caller_);
  const auto part = [&](std::size_t number) {
    const std::int64_t first = static_cast<std::int64_t>(number) * bucket.count;
    return bucket.result.tensor(range(first, first + bucket.count));
  };
  const auto add_to = [](Tensor& a, const Tensor& b) { a = a + b; };
  const auto parts = received_parts();
  if (sum_ == Sum::tree) return tree_sum(parts, part, add_to);
  Tensor all = part(parts[0].second);
  for (std::size_t k = 1; k < parts.size(); ++k) add_to(all, part(parts[k].second));
  return all;
}

Tensor Buckets::sum_of(std::size_t variable) const {
  const Bucket& bucket = buckets_[static_cast<std::size_t>(bucket_of_[variable])];
  const auto place = std::find_if(bucket.places.begin(), bucket.places.end(),
                                  [&](const Place& each) { return each.variable == variable; });
  const Shape& shape = variables_[variable].shape();
  std::array<std::int64_t, Shape::max_rank> strides = {};
  std::int64_t step = 1;
  for (std::size_t axis = shape.rank(); axis-- > 0; step *= shape.data()[axis])
    strides[axis] = step;
  return strided_view(bucket.sum, shape, strides.data(), place->at);
}

std::string Buckets::text() const {
  std::string all;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    const bool is_half = halves_ && bucket.dtype == DType::float32 && i + 1 < buckets_.size();
    const std::int64_t width = is_half ? 2 : size_of(bucket.dtype);
    all += "bucket " + std::to_string(i) + ": " + std::to_string(bucket.count * width) +
           " bytes, " + bucket.variables + "\n";
  }
  return all;
}
}  // namespace reel::dist::detail
