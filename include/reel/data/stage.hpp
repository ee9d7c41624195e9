// SPDX-License-Identifier: BSD-3-Clause
// What pipelines are made of: stages, which describe a step, and cursors, which make one pass
// through it. Programs use pipeline.hpp.
#pragma once  // defined in lib/data
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>  // std::exception_ptr
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reel/autocast.hpp>
#include <reel/device.hpp>
#include <reel/error.hpp>
#include <reel/pointer.hpp>
#include <reel/random.hpp>
#include <reel/train.hpp>

namespace reel::data {
/// An exception of a function that a pipeline called, or of a source. what() names the step, the
/// item and its source: "train.cpp:12: map: item 812 of range(1000): expected ..., got ...".
struct REEL_API ItemError : Error {
  ItemError(const std::string& what, std::exception_ptr cause) : Error(what), cause_(cause) {}
  /// The exception itself, for std::rethrow_exception().
  std::exception_ptr cause() const { return cause_; }

 private:
  std::exception_ptr cause_;
};
}  // namespace reel::data

namespace reel::data::detail {
/// Where a pass goes on: a cursor that starts from `words` would give the next element after `skip`
/// others. The words of a step are those of the step before it, its skip, and words of its own.
struct Point {
  std::vector<std::int64_t> words;
  std::int64_t skip = 0;
};
/// The point of a step, from the point of the step before it and words of its own.
REEL_API Point outer(const Point& inner, std::span<const std::int64_t> own);
/// The point of the step before, and the last `count` words in `own`.
REEL_API Point inner(std::span<const std::int64_t> words, std::int64_t* own, std::size_t count);

/// Elements on their way, and an exception in place of the element after them.
template <class T>
struct Chunk {
  std::vector<T> elements;
  Point before = {}, after = {};
  std::exception_ptr error = {};
  bool overwrites = false;  // see Reader
  std::vector<T> used = {};
  /// Empties it. Keeps elements whose memory the reader uses again.
  void clear() {
    Chunk empty;
    if (overwrites) empty.used = std::move(elements);
    *this = std::move(empty);
  }
};

/// What a step is called in reports, and how long it took. All threads add to the counts.
struct Notes {
  std::string text;   // "shuffle(seed 3)": what decides the order and the values
  std::string extra;  // "3 threads": what does not
  Caller caller = {};
  /// Of how many parts the step gives one. 0: its text says what all parts do together.
  std::int64_t shards = 1;
  mutable std::int64_t elements = 0, nanoseconds = 0;
  REEL_API void add(std::int64_t more_elements, std::int64_t since) const;
};
REEL_API std::int64_t nanoseconds_now();
/// The number of the process; a fork has another one.
REEL_API int process_number();

/// Throws an ItemError for the current exception; MemoryError and ItemError pass as they are.
[[noreturn]] REEL_API void throw_item_error(const Notes& notes, std::string_view step,
                                            const std::string& item);

/// One pass.
template <class T>
struct Cursor {
  virtual ~Cursor() = default;
  /// Gives 1 to `want` elements, or fewer and an exception. `out` is empty at the call. Returns
  /// false at the end.
  virtual bool next(Chunk<T>& out, std::int64_t want) = 0;
  /// Which item of which source the last element was, if it was asked for alone.
  virtual std::string where() const { return "an item"; }
  /// Lets a next() on another thread return. It may be called on any thread.
  virtual void stop() noexcept {}
};

/// An indexed stage has a size and gives any of its elements. A stream gives one after another.
template <class T>
class Stage {
 public:
  explicit Stage(Notes own) : notes(std::move(own)) {}
  virtual ~Stage() = default;
  virtual bool indexed() const { return true; }
  /// The number of elements of an epoch; -1 if it is not known, and INT64_MAX without an end.
  virtual std::int64_t size() const = 0;
  /// Appends the elements of these positions. For an exception the elements before it have been
  /// appended.
  virtual void get(std::int64_t /*epoch*/, std::span<const std::int64_t> /*positions*/,
                   std::vector<T>& /*out*/) const {}
  /// "item 812 of range(1000)", for errors.
  virtual std::string item(std::int64_t /*epoch*/, std::int64_t position) const {
    return "item " + std::to_string(position) + " of " + notes.text;
  }
  virtual Owned<Cursor<T>> open(std::int64_t epoch, Point from) const;
  /// The shortest form of a point: the position alone where the stage is indexed.
  virtual Point settled(Point point) const {
    if (indexed() && point.words.size() == 1) point = {{}, point.words[0] + point.skip};
    return point;
  }
  /// Whether a state is the position alone.
  virtual bool compact() const { return indexed(); }
  /// How many elements of the source one element is made of, about.
  virtual std::int64_t weight() const { return 1; }
  /// How many threads a map of this stage or of those before it asked for.
  virtual int threads() const { return 0; }
  /// Appends the notes of the stages before it, and its own.
  virtual void list(std::vector<const Notes*>& all) const { all.push_back(&notes); }

  const Notes notes;
};
template <class T>
using StageOf = Shared<const Stage<T>>;

/// While it lives, passes that this thread opens have no threads of their own.
class REEL_API WithoutThreads {
 public:
  WithoutThreads();
  ~WithoutThreads();
  WithoutThreads(const WithoutThreads&) = delete;
  WithoutThreads& operator=(const WithoutThreads&) = delete;
  static bool here();
};
/// The item of a stream at this point, by reading it again.
template <class T>
std::string item_at(const Stage<T>& stage, std::int64_t epoch, Point at) try {
  const WithoutThreads alone;
  const auto cursor = stage.open(epoch, std::move(at));
  Chunk<T> one;
  if (!cursor->next(one, 1)) return "an item";
  return cursor->where();
} catch (...) {
  return "an item";
}
/// Takes `count` elements or exceptions from the cursor.
template <class T>
void discard(Cursor<T>& cursor, std::int64_t count) {
  while (count > 0) {
    Chunk<T> chunk;
    if (!cursor.next(chunk, count)) return;
    count -= static_cast<std::int64_t>(chunk.elements.size()) + (chunk.error ? 1 : 0);
  }
}

/// Throws Error for a position behind the end, as a damaged state has it.
REEL_API void check_position(std::int64_t at, std::int64_t size, const Notes& notes);

/// Threads that fill slots in order. One thread at a time pulls; all of them run.
class REEL_API Crew {
 public:
  struct Work {
    virtual ~Work() = default;
    /// Takes work into the slot; false at the end. It throws nothing, nor does run().
    virtual bool pull(std::size_t slot) noexcept = 0;
    virtual void run(std::size_t slot) noexcept = 0;
    /// Lets a pull() that waits return.
    virtual void wake() noexcept = 0;
  };
  Crew(Work& work, int threads, std::size_t slots, const Notes& notes);
  /// Stops and joins the threads.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  /// The next slot in order once it has run, or -1 at the end. The slot before it is free again.
  std::ptrdiff_t take();
  void stop() noexcept;

 private:
  struct State;
  State* state_;
};

/// Runs the chunks of a job, on threads or at once. A Job has a type Out, a Slot with a list
/// `parts` of chunks, pull(slot, want), run(slot) and stop().
template <class Job>
class Threaded final : public Cursor<typename Job::Out>, public Crew::Work {
 public:
  using T = typename Job::Out;
  Threaded(Job job, const Notes& notes, int threads, std::size_t slots, std::int64_t most)
      : job_(std::move(job)), most_(most) {
    if (WithoutThreads::here()) threads = 0;
    slots_.resize(threads > 0 ? slots : 1);
    failures_.resize(slots_.size());
    if (threads > 0) crew_ = make_owned<Crew>(*this, threads, slots, notes);
  }
  ~Threaded() override { crew_.reset(); }
  bool next(Chunk<T>& out, std::int64_t want) override {
    while (!slot_ || part_ == slot_->parts.size()) {
      std::ptrdiff_t ready = 0;
      slot_ = nullptr;
      if (crew_) {
        ready = crew_->take();
      } else {
        slots_[0].parts.clear();
        want_ = want;
        if (!job_.pull(slots_[0], want)) ready = -1;
        if (ready == 0) job_.run(slots_[0]);
      }
      if (ready < 0) return false;
      if (failures_[static_cast<std::size_t>(ready)])
        std::rethrow_exception(std::exchange(failures_[static_cast<std::size_t>(ready)], nullptr));
      slot_ = &slots_[static_cast<std::size_t>(ready)];
      part_ = 0;
      given_ = 0;
    }
    Chunk<T>& part = slot_->parts[part_];
    const auto count = static_cast<std::int64_t>(part.elements.size());
    // An error is the last one of `want` items, so it may have to wait for the next call.
    const bool fits = count - given_ < want || !part.error;
    if (given_ == 0 && count <= want && fits) {
      std::swap(out, part);
      ++part_;
      return true;
    }
    const std::int64_t end = count - given_ <= want ? count : given_ + want;
    out.before = {part.before.words, part.before.skip + given_};
    for (std::int64_t i = given_; i < end; ++i)
      out.elements.push_back(std::move(part.elements[static_cast<std::size_t>(i)]));
    out.after = {part.before.words, part.before.skip + end};
    given_ = end;
    if (end == count && fits) {
      out.after = std::move(part.after);
      out.error = std::move(part.error);
      given_ = 0;
      ++part_;
    }
    return true;
  }
  std::string where() const override { return job_.where(); }
  void stop() noexcept override {
    if (crew_) crew_->stop();
    job_.stop();
  }

 private:
  bool pull(std::size_t slot) noexcept override {
    slots_[slot].parts.clear();
    try {
      return job_.pull(slots_[slot], __atomic_load_n(&want_, __ATOMIC_RELAXED));
    } catch (...) {  // there is no memory
      failures_[slot] = std::current_exception();
      return true;
    }
  }
  /// The next chunks take about 2 ms.
  void run(std::size_t slot) noexcept override {
    if (failures_[slot]) return;
    const std::int64_t start = nanoseconds_now();
    try {
      job_.run(slots_[slot]);
    } catch (...) {
      failures_[slot] = std::current_exception();
    }
    std::int64_t count = 0;
    for (const auto& part : slots_[slot].parts)
      count += static_cast<std::int64_t>(part.elements.size());
    const std::int64_t each = (nanoseconds_now() - start) / (count > 0 ? count : 1) + 1;
    std::int64_t want = 2'000'000 / each;
    if (want > 4 * count) want = 4 * count;
    want = want < 1 ? 1 : want > most_ ? most_ : want;
    __atomic_store_n(&want_, want, __ATOMIC_RELAXED);
  }
  void wake() noexcept override { job_.stop(); }

  Job job_;
  std::int64_t want_ = 1, most_;
  std::vector<typename Job::Slot> slots_;
  std::vector<std::exception_ptr> failures_;  // of the slots, for want of memory
  typename Job::Slot* slot_ = nullptr;
  std::size_t part_ = 0;
  std::int64_t given_ = 0;
  Owned<Crew> crew_;
};

/// Positions of an indexed stage, one after another.
template <class T>
struct IndexedJob {
  using Out = T;
  struct Slot {
    std::int64_t begin = 0, end = 0;
    std::vector<Chunk<T>> parts;
  };
  const Stage<T>& stage;
  std::int64_t epoch, at, size;

  bool pull(Slot& slot, std::int64_t want) {
    if (at >= size) return false;
    slot.begin = at;
    slot.end = at = size - at <= want ? size : at + want;
    return true;
  }
  /// A chunk up to each exception, and one for the rest.
  void run(Slot& slot) const {
    for (std::int64_t begin = slot.begin; begin < slot.end;) {
      Chunk<T> part;
      part.before = {{begin}, 0};
      try {
        std::vector<std::int64_t> positions;
        for (std::int64_t i = begin; i < slot.end; ++i) positions.push_back(i);
        part.elements.reserve(positions.size());
        stage.get(epoch, positions, part.elements);
        begin = slot.end;
      } catch (...) {
        begin += static_cast<std::int64_t>(part.elements.size()) + 1;
        part.error = std::current_exception();
      }
      part.after = {{begin}, 0};
      slot.parts.push_back(std::move(part));
    }
  }
  std::string where() const { return stage.item(epoch, at - 1); }
  void stop() noexcept {}
};

template <class T>
Owned<Cursor<T>> Stage<T>::open(std::int64_t epoch, Point from) const {
  const std::int64_t at = (from.words.empty() ? 0 : from.words[0]) + from.skip;
  check_position(at, size(), notes);
  const std::int64_t most = weight() < 64 ? 64 / weight() : 1;
  const int count = threads();
  return make_owned<Threaded<IndexedJob<T>>>(IndexedJob<T>{*this, epoch, at, size()}, notes, count,
                                             2 * static_cast<std::size_t>(count > 0 ? count : 1),
                                             most);
}

/// What ops of a function of the user see while it makes an element, on whatever thread: random
/// numbers that depend on the seed, the epoch and the position only, new tensors on the CPU,
/// training() true, and no AutocastScope.
class REEL_API ElementScope {
 public:
  ElementScope(std::uint64_t seed, std::int64_t epoch);
  Generator& at(std::int64_t position);

 private:
  std::uint64_t key_;
  Generator generator_;
  GeneratorScope scope_;
  DeviceScope device_;
  TrainScope train_;
  AutocastScope autocast_;
};
/// Mixes the bits of two numbers.
REEL_API std::uint64_t mixed(std::uint64_t a, std::uint64_t b);
/// Puts other positions of a permutation of n in place of these.
REEL_API void permute(std::uint64_t key, std::int64_t n, std::span<std::int64_t> positions);
/// Throws Error unless `got` is at least `least`.
REEL_API void check_count(std::string_view op, std::string_view argument, std::int64_t got,
                          std::int64_t least, Caller caller);
}  // namespace reel::data::detail
