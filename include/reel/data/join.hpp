// SPDX-License-Identifier: BSD-3-Clause
// Steps around whole pipelines: zip, interleave, cache, prefetch. Programs use pipeline.hpp.
#pragma once  // defined in lib/data
#include <reel/data/group.hpp>
#include <reel/pointer.hpp>

namespace reel::data::detail {
/// One of several cursors that are read together, element by element.
template <class T>
struct Side {
  Owned<Cursor<T>> cursor;
  Chunk<T> chunk = {};
  std::size_t used = 0;
  Point end = {};  // where the next chunk begins

  /// Whether there is an element or an exception.
  bool ready(std::int64_t want) {
    while (used == chunk.elements.size() && !chunk.error) {
      chunk = {};
      used = 0;
      if (!cursor->next(chunk, want)) return false;
      end = chunk.after;
    }
    return true;
  }
  bool wrong() const { return used == chunk.elements.size(); }
  std::exception_ptr take_error() { return std::exchange(chunk.error, nullptr); }
  T take() { return std::move(chunk.elements[used++]); }
  void drop() {
    if (wrong())
      chunk.error = nullptr;
    else
      ++used;
  }
  Point at() const {
    const bool inside = used < chunk.elements.size() || chunk.error;
    return inside ? Point{chunk.before.words, chunk.before.skip + static_cast<std::int64_t>(used)}
                  : end;
  }
};
/// The points of several sides as words: for each its words, its skip and their number.
REEL_API void append_point(std::vector<std::int64_t>& words, const Point& point);
REEL_API std::vector<Point> points_of(std::span<const std::int64_t> words, std::size_t count);

/// Pairs of the elements of two pipelines; as many as the shorter one has.
template <class A, class B>
class ZipStage final : public Stage<std::pair<A, B>> {
 public:
  using Out = std::pair<A, B>;
  ZipStage(StageOf<A> first, StageOf<B> second, Notes own)
      : Stage<Out>(std::move(own)), first_(std::move(first)), second_(std::move(second)) {}
  bool indexed() const override { return first_->indexed() && second_->indexed(); }
  std::int64_t size() const override {
    const std::int64_t a = first_->size(), b = second_->size();
    return a < b ? a : b;  // -1 where one is not known
  }
  std::int64_t weight() const override {
    return first_->weight() > second_->weight() ? first_->weight() : second_->weight();
  }
  int threads() const override {
    return first_->threads() > second_->threads() ? first_->threads() : second_->threads();
  }
  void list(std::vector<const Notes*>& all) const override {
    first_->list(all);
    second_->list(all);
    all.push_back(&this->notes);
  }
  void get(std::int64_t epoch, std::span<const std::int64_t> positions,
           std::vector<Out>& out) const override {
    std::vector<A> firsts;
    std::vector<B> seconds;
    std::exception_ptr late;
    try {
      first_->get(epoch, positions, firsts);
    } catch (...) {
      late = std::current_exception();
    }
    try {
      second_->get(epoch, positions.first(firsts.size()), seconds);
    } catch (...) {
      late = std::current_exception();
    }
    for (std::size_t i = 0; i < seconds.size(); ++i)
      out.emplace_back(std::move(firsts[i]), std::move(seconds[i]));
    if (late) std::rethrow_exception(late);
  }
  std::string item(std::int64_t epoch, std::int64_t position) const override {
    return first_->item(epoch, position) + " and " + second_->item(epoch, position);
  }
  Owned<Cursor<Out>> open(std::int64_t epoch, Point from) const override {
    if (indexed()) return Stage<Out>::open(epoch, std::move(from));
    const std::vector<Point> points = points_of(from.words, 2);
    auto opened = make_owned<Pass>();
    opened->first = {first_->open(epoch, points[0]), {}, 0, points[0]};
    opened->second = {second_->open(epoch, points[1]), {}, 0, points[1]};
    discard(*opened, from.skip);
    return opened;
  }

 private:
  struct Pass final : Cursor<Out> {
    bool next(Chunk<Out>& out, std::int64_t want) override {
      out.before = at();
      while (static_cast<std::int64_t>(out.elements.size()) < want && !out.error) {
        if (!first.ready(want) || !second.ready(want)) break;
        if (first.wrong() || second.wrong()) {
          out.error = first.wrong() ? first.chunk.error : second.chunk.error;
          first.drop();
          second.drop();
        } else {
          out.elements.emplace_back(first.take(), second.take());
        }
      }
      out.after = at();
      return !out.elements.empty() || out.error;
    }
    Point at() const {
      Point point;
      append_point(point.words, first.at());
      append_point(point.words, second.at());
      return point;
    }
    std::string where() const override {
      return first.cursor->where() + " and " + second.cursor->where();
    }
    void stop() noexcept override {
      first.cursor->stop();
      second.cursor->stop();
    }
    Side<A> first;
    Side<B> second;
  };
  StageOf<A> first_;
  StageOf<B> second_;
};

/// `block` elements of each pipeline in turn, until all have ended.
template <class T>
class InterleaveStage final : public Stage<T> {
 public:
  InterleaveStage(std::vector<StageOf<T>> before, Notes own, std::int64_t block)
      : Stage<T>(std::move(own)), before_(std::move(before)), block_(block) {}
  bool indexed() const override { return false; }
  std::int64_t size() const override {
    std::int64_t sum = 0;
    for (const auto& stage : before_) {
      const std::int64_t size = stage->size();
      if (size < 0 || size == INT64_MAX) return size;
      sum += size;
    }
    return sum;
  }
  std::int64_t weight() const override { return before_.empty() ? 1 : before_[0]->weight(); }
  void list(std::vector<const Notes*>& all) const override {
    for (const auto& stage : before_) stage->list(all);
    all.push_back(&this->notes);
  }
  Owned<Cursor<T>> open(std::int64_t epoch, Point from) const override {
    auto opened = make_owned<Pass>();
    opened->block = block_;
    if (!from.words.empty()) {
      opened->given = from.words.back();
      from.words.pop_back();
      opened->turn = static_cast<std::size_t>(from.words.back());
      from.words.pop_back();
      if (opened->turn >= before_.size()) opened->turn = 0;
    }
    const std::vector<Point> points = points_of(from.words, before_.size());
    for (std::size_t i = 0; i < before_.size(); ++i)
      opened->sides.push_back({before_[i]->open(epoch, points[i]), {}, 0, points[i]});
    discard(*opened, from.skip);
    return opened;
  }

 private:
  struct Pass final : Cursor<T> {
    bool next(Chunk<T>& out, std::int64_t want) override {
      out.before = at();
      std::size_t ended = 0;
      while (static_cast<std::int64_t>(out.elements.size()) < want && !out.error &&
             ended < sides.size()) {
        Side<T>& side = sides[turn];
        if (!side.ready(block)) {
          ++ended;
          given = block;
        } else {
          ended = 0;
          if (side.wrong())
            out.error = side.take_error();
          else
            out.elements.push_back(side.take());
          ++given;
        }
        if (given >= block) {
          given = 0;
          turn = turn + 1 == sides.size() ? 0 : turn + 1;
        }
      }
      out.after = at();
      return !out.elements.empty() || out.error;
    }
    Point at() const {
      Point point;
      for (const Side<T>& side : sides) append_point(point.words, side.at());
      point.words.push_back(static_cast<std::int64_t>(turn));
      point.words.push_back(given);
      return point;
    }
    std::string where() const override { return "an item of an interleaved pipeline"; }
    void stop() noexcept override {
      for (Side<T>& side : sides) side.cursor->stop();
    }
    std::vector<Side<T>> sides;
    std::size_t turn = 0;
    std::int64_t given = 0, block = 1;
  };
  std::vector<StageOf<T>> before_;
  std::int64_t block_;
};

/// A lock of an object that a fork may copy while a thread has it: a child has a new one.
class REEL_API OwnLock {
 public:
  OwnLock();
  ~OwnLock();
  OwnLock(const OwnLock&) = delete;
  OwnLock& operator=(const OwnLock&) = delete;
  /// False in a process that has not locked it before: what it guards may be half written.
  bool lock();
  void unlock();

 private:
  struct State;
  State* state_;
};

/// All elements in memory, from their first use on. What comes before a cache is read in epoch 0.
template <class T>
class CacheStage final : public Stage<T> {
 public:
  CacheStage(StageOf<T> before, Notes own) : Stage<T>(std::move(own)), before_(std::move(before)) {}
  std::int64_t size() const override {
    if (before_->indexed()) return before_->size();
    const Held held(*this);
    return static_cast<std::int64_t>(elements_.size());
  }
  std::int64_t weight() const override { return before_->weight(); }
  void list(std::vector<const Notes*>& all) const override {
    before_->list(all);
    all.push_back(&this->notes);
  }
  void get(std::int64_t, std::span<const std::int64_t> positions,
           std::vector<T>& out) const override {
    const Held held(*this);
    for (const std::int64_t position : positions)
      out.push_back(elements_[static_cast<std::size_t>(position)]);
  }

 private:
  struct Held {
    explicit Held(const CacheStage& own) : stage(own) {
      if (!stage.lock_.lock()) stage.full_ = false;
      try {
        stage.fill();
      } catch (...) {
        stage.lock_.unlock();
        throw;
      }
    }
    ~Held() { stage.lock_.unlock(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    const CacheStage& stage;
  };
  void fill() const {
    if (full_) return;
    check_endless("cache", before_->size(), this->notes.caller);
    elements_.clear();
    const auto cursor = before_->open(0, {});
    for (Chunk<T> chunk; cursor->next(chunk, 64); chunk = {}) {
      if (chunk.error) std::rethrow_exception(chunk.error);
      for (T& element : chunk.elements) elements_.push_back(std::move(element));
    }
    full_ = true;
  }
  StageOf<T> before_;
  mutable OwnLock lock_;
  mutable bool full_ = false;
  mutable std::vector<T> elements_;
};

/// x in pinned memory, and then on the device.
REEL_API Tensor moved(const Tensor& x, Device device);

/// Chunks of the steps before it, made ahead on a thread.
template <class T>
struct PrefetchJob {
  using Out = T;
  struct Slot {
    std::vector<Chunk<T>> parts;
  };
  Owned<Cursor<T>> cursor;
  Device device;
  bool moves;
  std::int64_t most;

  bool pull(Slot& slot, std::int64_t) {
    slot.parts.emplace_back();
    Chunk<T>& chunk = slot.parts.back();
    if (!cursor->next(chunk, most)) return false;
    if (moves)
      for (T& element : chunk.elements)
        visit_leaves("", element, [this](std::string_view, auto& leaf) {
          if constexpr (std::is_same_v<decltype(leaf), Tensor&>) leaf = moved(leaf, device);
        });
    return true;
  }
  void run(Slot&) const {}
  std::string where() const { return cursor->where(); }
  void stop() noexcept { cursor->stop(); }
};

template <class T>
class PrefetchStage final : public StreamStage<T> {
 public:
  PrefetchStage(StageOf<T> before, Notes own, std::size_t chunks, Device device, bool moves)
      : StreamStage<T>(std::move(before), std::move(own)),
        chunks_(chunks),
        device_(device),
        moves_(moves) {}
  std::int64_t size() const override { return this->before_->size(); }
  bool compact() const override { return this->before_->compact(); }
  Point settled(Point point) const override { return this->before_->settled(std::move(point)); }
  Owned<Cursor<T>> open(std::int64_t epoch, Point from) const override {
    const std::int64_t weight = this->weight(), most = weight < 64 ? 64 / weight : 1;
    return make_owned<Threaded<PrefetchJob<T>>>(
        PrefetchJob<T>{this->before_->open(epoch, std::move(from)), device_, moves_, most},
        this->notes, 1, chunks_, most);
  }

 private:
  std::size_t chunks_;
  Device device_;
  bool moves_;
};
}  // namespace reel::data::detail
