// SPDX-License-Identifier: BSD-3-Clause
// Pipelines: elements in an order that depends on a seed alone, made by steps, on threads, in
// batches. A loop over a pipeline is one epoch.
#pragma once  // defined in lib/data
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/data/join.hpp>
#include <reel/pointer.hpp>

namespace reel::data {
/// Options of Pipeline::shuffle().
struct ShuffleOptions {
  std::uint64_t seed = 0;
  /// The elements in memory. Only streams use it.
  CountNumber buffer = 10'000;
};
/// Options of Pipeline::map().
struct MapOptions {
  /// The threads that call the function; 0 is the thread of the loop.
  CountNumber threads = 0;
  /// Of the random numbers that the function draws.
  std::uint64_t seed = 0;
};
/// Options of Pipeline::batch().
struct BatchOptions {
  bool drop_rest = false;  // whether a last batch of fewer elements is left out
};
/// Options of Pipeline::padded_batch().
struct PaddedOptions {
  Scalar value = 0;  // what fills the elements up
  bool drop_rest = false;
};
/// Options of Pipeline::bucket_by_length().
struct BucketOptions {
  /// The largest length of each bucket, ascending; longer elements have a bucket of their own.
  std::vector<std::int64_t> bounds;
  CountNumber batch = 32;
  Scalar value = 0;  // what fills the elements up
};
/// Options of Pipeline::prefetch().
struct PrefetchOptions {
  CountNumber batches = 2;  // made ahead; for single elements, so many times 64
  /// Where the Tensors of the elements go, by way of pinned memory for a GPU.
  Device device = cpu();
};

namespace detail {
/// What all pipelines have, whatever their elements.
class REEL_API PipelineState {
 public:
  /// "range(1000).shuffle(seed 3)", a hash of it, and the report of explain().
  static std::string text(const std::vector<const Notes*>& steps);
  static std::uint64_t fingerprint(const std::vector<const Notes*>& steps, bool compact);
  /// The steps but prefetch().
  static std::size_t count(const std::vector<const Notes*>& steps);
  /// Of how many parts the last step gives one.
  static std::int64_t shards(const std::vector<const Notes*>& steps);
  static std::string explain(const std::vector<const Notes*>& steps, std::int64_t loop,
                             std::int64_t waited);
  static bool same(const Tensor& a, const Tensor& b);
  static Tensor pack(std::uint64_t fingerprint, std::int64_t epoch, const Point& point);
  /// Throws Error for a state of another pipeline.
  static void unpack(const Tensor& state, const std::vector<const Notes*>& steps, bool compact,
                     std::int64_t& epoch, Point& point);
};
REEL_API Notes notes(std::string text, Caller caller, std::int64_t threads = 0);
REEL_API void check_threads(std::int64_t threads, Caller caller);
REEL_API void check_bounds(const std::vector<std::int64_t>& bounds, Caller caller);
REEL_API void check_shard(std::int64_t rank, std::int64_t count, Caller caller);
REEL_API std::string bucket_text(const std::vector<std::int64_t>& bounds, std::int64_t batch);
}  // namespace detail

/// A source of elements and the steps behind it. A loop goes through the rest of the epoch; the
/// next loop is the next epoch, in another order if the pipeline shuffles.
///
///     auto train = data::range(1000).shuffle({.seed = 3}).map(load, {.threads = 4}).batch(64);
///     for (auto [x, y] : train) ...
///
/// The elements of each epoch, their order and the random numbers that functions draw depend on the
/// seeds alone, for any number of threads. A pipeline is a value: a copy is at the same position
/// and goes on by itself. One thread at a time uses a pipeline. Its threads run while an epoch
/// lasts; they end with the pipeline, and where it is moved from.
///
/// `io::save(path, pipeline)` and Checkpoints save the position: 16 bytes for an indexed pipeline
/// (ranges, vectors, Tensors, and steps but filter() and those of streams), and for each
/// buffer of a stream a number for each slot, but no elements. After a load the next loop gives the
/// rest of that epoch. Elements that threads had made ahead are made again, so a `break` and a
/// restart lose nothing.
///
/// The loop throws an exception of a function when the turn of its element comes: as an ItemError
/// that names the item. An error of a file is an IoError. A new loop continues after the element;
/// skip_errors() leaves such elements out.
template <class T>
class Pipeline {
  using State = detail::PipelineState;

 public:
  static_assert(!std::is_same_v<T, bool>, "use std::uint8_t for truth values in a pipeline");
  using Value = T;
  /// Goes through the rest of the epoch.
  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using element_type = T;
    explicit Iterator(Pipeline* pipeline) : pipeline_(pipeline) {}
    T& operator*() const { return pipeline_->chunk_.elements[pipeline_->at_]; }
    Iterator& operator++() {
      if (!pipeline_->advance()) pipeline_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return pipeline_ == other.pipeline_; }

   private:
    Pipeline* pipeline_;
  };

  explicit Pipeline(detail::StageOf<T> stage) : stage_(std::move(stage)) {}
  Pipeline(const Pipeline& other)
      : stage_(other.stage_),
        epoch_(other.epoch_),
        point_(other.point()),
        state_(other.state_),
        loaded_(other.loaded_) {}
  Pipeline& operator=(const Pipeline& other) { return *this = Pipeline(other); }
  Pipeline(Pipeline&& other) noexcept = default;
  Pipeline& operator=(Pipeline&& other) noexcept {
    close();  // while its stage exists
    stage_ = std::move(other.stage_);
    epoch_ = other.epoch_;
    point_ = std::move(other.point_);
    cursor_ = std::move(other.cursor_);
    chunk_ = std::move(other.chunk_);
    at_ = std::exchange(other.at_, none);
    process_ = other.process_;
    state_ = std::move(other.state_);
    loaded_ = other.loaded_;
    return *this;
  }
  ~Pipeline() { close(); }

  /// The elements in another order in each epoch. Over an indexed pipeline it is a permutation of
  /// all elements and takes no memory. Over a stream, elements come from a random slot of a buffer
  /// (the method of tf.data); put it before map(), so that a resume reads the buffer again without
  /// mapping it. Throws Error unless options.buffer is at least 1, and for a pipeline without end.
  Pipeline shuffle(const ShuffleOptions& options = {}, Caller caller = Caller::here()) const {
    detail::check_count("shuffle", "options.buffer", options.buffer, 1, caller);
    const std::string seed = "shuffle(seed " + std::to_string(options.seed);
    if (stage_->indexed())
      return make<detail::ShuffleStage<T>>(detail::notes(seed + ")", caller), options.seed);
    return make<detail::BufferStage<T>>(
        detail::notes(seed + ", buffer " + std::to_string(options.buffer.value) + ")", caller),
        options.seed, options.buffer.value);
  }
  /// f(element), or f(element, generator), for each element. The function is called on several
  /// threads at once if options.threads is above 0, so it must not change what it captures. Random
  /// numbers in it, also those of ops such as random::normal(), depend on options.seed, the number
  /// of the step, the epoch and the position alone. On any thread new tensors are on the CPU,
  /// training() is true, and there is no AutocastScope.
  template <class F>
  auto map(F f, const MapOptions& options = {}, Caller caller = Caller::here()) const {
    static_assert(
        std::is_invocable_v<const F&, T&&> || std::is_invocable_v<const F&, T&&, Generator&>,
        "map() calls f(element) or f(element, generator) on a const function: a lambda "
        "must not be mutable, because several threads may call it. It takes T, T&& or "
        "const T&, not T&");
    using Out = std::remove_cvref_t<decltype(detail::call_with(
        f, std::declval<T&>(), std::declval<detail::ElementScope&>(), 0))>;
    static_assert(!std::is_void_v<Out>, "map() needs a function that returns an element");
    detail::check_threads(options.threads, caller);
    return Pipeline<Out>(make_shared_of<detail::MapStage<T, Out, F>>(
        stage_, std::move(f),
        detail::notes("map(seed " + std::to_string(options.seed) + ")", caller, options.threads),
        detail::mixed(options.seed, State::count(steps())), static_cast<int>(options.threads)));
  }
  /// The elements for which keeps(element) is true. The result is a stream.
  template <class F>
  Pipeline filter(F keeps, Caller caller = Caller::here()) const {
    static_assert(std::is_invocable_r_v<bool, const F&, const T&>,
                  "filter() needs a function of an element that returns bool");
    return Pipeline(make_shared_of<detail::FilterStage<T, F>>(stage_, std::move(keeps),
                                                              detail::notes("filter", caller)));
  }
  /// Leaves out the elements whose functions or source threw. explain() has their number.
  Pipeline skip_errors(Caller caller = Caller::here()) const {
    return make<detail::SkipErrorsStage<T>>(detail::notes("skip_errors", caller));
  }
  /// `count` elements as one: numbers become a Tensor [count]; Tensors and the Tensors of structs
  /// with fields get a new first axis; of a pair each part is batched; others become a std::vector.
  /// The last batch of an epoch may have fewer. Throws Error unless count is at least 1, and, in
  /// the loop, ItemError for Tensors of different shapes.
  auto batch(CountNumber count, const BatchOptions& options = {},
             Caller caller = Caller::here()) const {
    return batch(count, detail::PlainGroup<T>{caller}, options, caller);
  }
  /// group(elements) for each `count` elements, a std::vector<T>.
  template <class F>
  requires std::is_invocable_v<const F&, std::vector<T> &&> auto batch(
      CountNumber count, F group, const BatchOptions& options = {},
      Caller caller = Caller::here()) const {
    return grouped("batch", count, std::move(group), options.drop_rest, caller);
  }
  /// As batch(), for Tensors whose first axes have different lengths: they are filled up to the
  /// longest of their batch.
  ///
  ///     for (auto& [words, lengths] : sentences.padded_batch(32)) train(words, lengths);
  auto padded_batch(CountNumber count, const PaddedOptions& options = {},
                    Caller caller = Caller::here()) const {
    return grouped("padded_batch", count,
                   detail::PaddedGroup<T>{options.value, caller, "padded_batch"}, options.drop_rest,
                   caller);
  }
  /// Padded batches of elements that are about equally long, so that little is filled up:
  /// length(element) chooses a bucket, and a bucket with options.batch elements is given. The rest
  /// of the buckets comes at the end of the epoch. Throws Error unless the bounds ascend.
  template <class F>
  auto bucket_by_length(F length, const BucketOptions& options,
                        Caller caller = Caller::here()) const {
    static_assert(std::is_invocable_r_v<std::int64_t, const F&, const T&>,
                  "bucket_by_length() needs a function of an element that returns its length");
    detail::check_count("bucket_by_length", "options.batch", options.batch, 1, caller);
    detail::check_bounds(options.bounds, caller);
    using Stage = detail::BucketStage<T, F>;
    return Pipeline<typename Stage::Out>(make_shared_of<Stage>(
        stage_, std::move(length),
        detail::notes(detail::bucket_text(options.bounds, options.batch), caller), options.bounds,
        options.batch.value, options.value));
  }
  /// So many epochs as one.
  Pipeline repeat(CountNumber times, Caller caller = Caller::here()) const {
    detail::check_count("repeat", "times", times, 1, caller);
    return make<detail::RepeatStage<T>>(
        detail::notes("repeat(" + std::to_string(times.value) + ")", caller), times.value);
  }
  /// Epoch after epoch without an end: leave the loop by `break`.
  Pipeline repeat(Caller caller = Caller::here()) const {
    return make<detail::RepeatStage<T>>(detail::notes("repeat", caller), INT64_MAX);
  }
  /// The first `count` elements of each epoch.
  Pipeline take(CountNumber count, Caller caller = Caller::here()) const {
    detail::check_count("take", "count", count, 0, caller);
    return select("take(" + std::to_string(count.value) + ")", 0, 1, count, caller);
  }
  /// All but the first `count` elements of each epoch.
  Pipeline skip(CountNumber count, Caller caller = Caller::here()) const {
    detail::check_count("skip", "count", count, 0, caller);
    return select("skip(" + std::to_string(count.value) + ")", count, 1, INT64_MAX, caller);
  }
  /// Elements rank, rank + count, rank + 2 count, ...: the part of one of `count` processes. Put it
  /// behind shuffle() and map(), with one seed in all processes, and before batch(). Ranks may get
  /// one element less than others. A saved position holds for all of them, and for another number
  /// of processes whose batches have as many elements together.
  /// Throws Error unless 0 <= rank < count.
  ///
  ///     auto mine = train.shuffle().shard(world.rank(), world.size()).batch(64 / world.size());
  Pipeline shard(CountNumber rank, CountNumber count, Caller caller = Caller::here()) const {
    detail::check_shard(rank, count, caller);
    detail::Notes own = detail::notes("", caller);
    own.extra = "shard(" + std::to_string(rank.value) + " of " + std::to_string(count.value) + ")";
    own.shards = count;
    return make<detail::SelectStage<T>>(std::move(own), rank.value, count.value, INT64_MAX);
  }
  /// Keeps all elements in memory. The first use makes them, in the order of epoch 0; random
  /// numbers in them stay as they were. The result is indexed, also over a stream.
  Pipeline cache(Caller caller = Caller::here()) const {
    return make<detail::CacheStage<T>>(detail::notes("cache", caller));
  }
  /// Makes elements ahead on a thread. Put it last. Throws DeviceError for a missing device.
  Pipeline prefetch(const PrefetchOptions& options = {}, Caller caller = Caller::here()) const {
    detail::check_count("prefetch", "options.batches", options.batches, 1, caller);
    const bool moves = options.device != cpu();
    if (moves) DeviceScope exists(options.device, caller);
    detail::Notes own = detail::notes("", caller);
    own.extra = "prefetch(" + std::to_string(options.batches.value) + ")";
    return make<detail::PrefetchStage<T>>(
        std::move(own), static_cast<std::size_t>(options.batches.value) + 1, options.device, moves);
  }

  /// The rest of the epoch, or the next epoch if the last loop has seen the end.
  Iterator begin() { return Iterator(advance() ? this : nullptr); }
  Iterator end() { return Iterator(nullptr); }
  /// The elements of an epoch; -1 if that is not known, and INT64_MAX without an end.
  std::int64_t size() const { return stage_->size(); }
  /// The number of the epoch that the next element belongs to, from 0.
  std::int64_t epoch() const { return epoch_; }
  /// A line for each step: how many elements it has given, their time, and how long the loop
  /// waited.
  std::string explain() const { return State::explain(steps(), loop_, waited_); }
  /// For io::save() and io::load().
  void fields(const auto& field) {
    take_loaded();
    state_ = packed();
    field("state", state_);
    loaded_ = true;
  }
  /// For functions that join pipelines.
  const detail::StageOf<T>& stage() const { return stage_; }

 private:
  template <class Stage, class... Options>
  Pipeline make(detail::Notes notes, Options&&... options) const {
    return Pipeline(
        make_shared_of<Stage>(stage_, std::move(notes), std::forward<Options>(options)...));
  }
  Pipeline select(std::string text, std::int64_t first, std::int64_t step, std::int64_t limit,
                  Caller caller) const {
    return make<detail::SelectStage<T>>(detail::notes(std::move(text), caller), first, step, limit);
  }
  template <class F>
  auto grouped(const char* op, std::int64_t count, F group, bool drop_rest, Caller caller) const {
    detail::check_count(op, "count", count, 1, caller);
    using Out = std::remove_cvref_t<std::invoke_result_t<const F&, std::vector<T>&&>>;
    // The elements of all shards: a position among batches holds for any number of shards.
    const std::int64_t shards = State::shards(steps());
    std::string text =
        op + ("(" + std::to_string(count * shards)) + (drop_rest ? ", drop_rest)" : ")");
    detail::Notes own = detail::notes(std::move(text), caller);
    own.shards = 0;
    if (shards > 1) own.extra = std::to_string(count) + " of them here";
    return Pipeline<Out>(make_shared_of<detail::BatchStage<T, Out, F>>(
        stage_, std::move(group), std::move(own), count, drop_rest));
  }

  std::vector<const detail::Notes*> steps() const {
    std::vector<const detail::Notes*> all;
    stage_->list(all);
    return all;
  }
  /// Behind the element that the loop has now.
  detail::Point point() const {
    if (at_ >= chunk_.elements.size()) return point_;
    if (at_ + 1 == chunk_.elements.size() && !chunk_.error) return chunk_.after;
    return {chunk_.before.words, chunk_.before.skip + static_cast<std::int64_t>(at_) + 1};
  }
  Tensor packed() const {
    return State::pack(State::fingerprint(steps(), stage_->compact()), epoch_,
                       stage_->settled(point()));
  }
  /// Goes to the state that a load has put into state_, if it is another one.
  void take_loaded() {
    if (!std::exchange(loaded_, false)) return;
    if (State::same(state_, packed())) return;
    State::unpack(state_, steps(), stage_->compact(), epoch_, point_);
    close();
  }
  /// Ends the pass. The threads of another process do not exist in this one.
  void close() {
    if (cursor_ && process_ != detail::process_number()) static_cast<void>(cursor_.release());
    cursor_.reset();
    chunk_ = {};
    at_ = none;
  }
  bool advance() try {
    take_loaded();
    ++at_;
    while (at_ >= chunk_.elements.size()) {
      point_ = chunk_.elements.empty() && !chunk_.error ? point_ : chunk_.after;
      if (chunk_.error) {
        const std::exception_ptr error = chunk_.error;
        chunk_ = {};
        at_ = none;
        std::rethrow_exception(error);
      }
      chunk_.clear();
      at_ = 0;
      if (fetch()) continue;
      left_ = 0;
      close();
      point_ = {};
      ++epoch_;
      return false;
    }
    return true;
  } catch (const std::bad_alloc&) {
    fail_memory(stage_->notes.caller, "Pipeline");
  }
  /// The next chunk. After an exception that is not an element's, the next call opens the pass
  /// again behind what was delivered.
  bool fetch() try {
    if (cursor_ && process_ != detail::process_number()) close();
    const std::int64_t start = detail::nanoseconds_now();
    if (!cursor_) {
      cursor_ = stage_->open(epoch_, point_);
      process_ = detail::process_number();
    }
    if (left_) loop_ += start - left_;
    const std::int64_t weight = stage_->weight();
    const bool more = cursor_->next(chunk_, weight < 64 ? 64 / weight : 1);
    left_ = detail::nanoseconds_now();
    waited_ += left_ - start;
    loop_ += left_ - start;
    at_ = 0;
    return more;
  } catch (...) {
    close();
    throw;
  }

  static constexpr std::size_t none = static_cast<std::size_t>(-1);  // before the first element
  detail::StageOf<T> stage_;
  std::int64_t epoch_ = 0;
  detail::Point point_;  // where the chunk begins, or the next one
  Owned<detail::Cursor<T>> cursor_;
  detail::Chunk<T> chunk_;
  std::size_t at_ = none;
  int process_ = 0;
  Tensor state_;
  bool loaded_ = false;
  std::int64_t loop_ = 0, waited_ = 0, left_ = 0;  // nanoseconds
};

/// Pairs of the elements of two pipelines. The shorter one decides the number.
///
///     for (auto [image, label] : data::zip(images, labels).batch(64)) ...
template <class A, class B>
Pipeline<std::pair<A, B>> zip(const Pipeline<A>& first, const Pipeline<B>& second,
                              Caller caller = Caller::here()) {
  return Pipeline<std::pair<A, B>>(make_shared_of<detail::ZipStage<A, B>>(
      first.stage(), second.stage(), detail::notes("zip", caller)));
}
/// `block` elements of each pipeline in turn, until all have ended. The result is a stream.
template <class T>
Pipeline<T> interleave(const std::vector<Pipeline<T>>& pipelines, CountNumber block = 1,
                       Caller caller = Caller::here()) {
  detail::check_count("interleave", "block", block, 1, caller);
  std::vector<detail::StageOf<T>> stages;
  for (const Pipeline<T>& each : pipelines) stages.push_back(each.stage());
  return Pipeline<T>(make_shared_of<detail::InterleaveStage<T>>(
      std::move(stages), detail::notes("interleave(" + std::to_string(block.value) + ")", caller),
      block.value));
}
}  // namespace reel::data
