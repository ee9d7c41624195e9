// SPDX-License-Identifier: BSD-3-Clause
// Steps that choose and order elements: take, skip, shard, repeat, shuffle. Programs use
// pipeline.hpp.
#pragma once  // defined in lib/data
#include <reel/data/each.hpp>
#include <reel/pointer.hpp>

namespace reel::data::detail {
/// Throws Error for a size without an end.
REEL_API void check_endless(std::string_view op, std::int64_t size, Caller caller);

/// Positions first, first + step, first + 2 step, ..., at most `limit` of them.
template <class T>
class SelectStage final : public StreamStage<T> {
 public:
  SelectStage(StageOf<T> before, Notes own, std::int64_t first, std::int64_t step,
              std::int64_t limit)
      : StreamStage<T>(std::move(before), std::move(own)),
        first_(first),
        step_(step),
        limit_(limit) {}
  bool indexed() const override { return this->before_->indexed(); }
  std::int64_t size() const override {
    const std::int64_t all = this->before_->size();
    if (all < 0) return -1;
    const std::int64_t left = all > first_ ? (all - first_ - 1) / step_ + 1 : 0;
    return all == INT64_MAX && limit_ == INT64_MAX ? all : left < limit_ ? left : limit_;
  }
  void get(std::int64_t epoch, std::span<const std::int64_t> positions,
           std::vector<T>& out) const override {
    std::vector<std::int64_t> chosen(positions.begin(), positions.end());
    for (std::int64_t& position : chosen) position = first_ + step_ * position;
    this->before_->get(epoch, chosen, out);
  }
  std::string item(std::int64_t epoch, std::int64_t position) const override {
    return this->before_->item(epoch, first_ + step_ * position);
  }
  Owned<Cursor<T>> open(std::int64_t epoch, Point from) const override {
    if (indexed()) return Stage<T>::open(epoch, std::move(from));
    std::int64_t at = 0;
    auto cursor = this->before_->open(epoch, inner(from.words, &at, 1));
    auto opened = make_owned<Pass>(*this, std::move(cursor), at);
    discard(*opened, from.skip);
    return opened;
  }

 private:
  struct Pass final : Cursor<T> {
    Pass(const SelectStage& own, Owned<Cursor<T>> source, std::int64_t start)
        : stage(own), cursor(std::move(source)), at(start) {}
    bool next(Chunk<T>& out, std::int64_t want) override {
      while (out.elements.empty() && !out.error) {
        const std::int64_t given =
            at > stage.first_ ? (at - stage.first_ - 1) / stage.step_ + 1 : 0;
        if (given >= stage.limit_) return false;
        if (stage.limit_ - given < want) want = stage.limit_ - given;
        Chunk<T> in;
        const std::int64_t left = stage.first_ - at;
        if (!cursor->next(in, left > 64 ? 64 : left > 0 ? left : want)) return false;
        out.before = outer(in.before, std::array{at});
        for (T& element : in.elements) {
          const std::int64_t past = at++ - stage.first_;
          if (past >= 0 && past % stage.step_ == 0 && past / stage.step_ < stage.limit_)
            out.elements.push_back(std::move(element));
        }
        out.after = outer(in.after, std::array{at});
        out.error = in.error;
      }
      return true;
    }
    std::string where() const override { return cursor->where(); }
    void stop() noexcept override { cursor->stop(); }
    const SelectStage& stage;
    Owned<Cursor<T>> cursor;
    std::int64_t at;
  };
  std::int64_t first_, step_, limit_;
};

/// Several epochs of the steps before it, as one epoch.
template <class T>
class RepeatStage final : public StreamStage<T> {
 public:
  RepeatStage(StageOf<T> before, Notes own, std::int64_t times)
      : StreamStage<T>(std::move(before), std::move(own)), times_(times) {}
  bool indexed() const override { return this->before_->indexed(); }
  std::int64_t size() const override {
    const std::int64_t once = this->before_->size();
    if (once <= 0) return once;
    return times_ > INT64_MAX / once ? INT64_MAX : once * times_;
  }
  void get(std::int64_t epoch, std::span<const std::int64_t> positions,
           std::vector<T>& out) const override {
    const std::int64_t once = this->before_->size();
    std::vector<std::int64_t> same;
    for (std::size_t i = 0; i < positions.size();) {
      const std::int64_t round = positions[i] / once;
      same.clear();
      for (; i < positions.size() && positions[i] / once == round; ++i)
        same.push_back(positions[i] % once);
      this->before_->get(number(epoch, round), same, out);
    }
  }
  std::string item(std::int64_t epoch, std::int64_t position) const override {
    const std::int64_t once = this->before_->size();
    return this->before_->item(number(epoch, position / once), position % once);
  }
  Owned<Cursor<T>> open(std::int64_t epoch, Point from) const override {
    if (indexed()) return Stage<T>::open(epoch, std::move(from));
    std::int64_t round = 0;
    Point before = inner(from.words, &round, 1);
    auto opened = make_owned<Pass>(*this, epoch, round,
                                   this->before_->open(number(epoch, round), std::move(before)));
    discard(*opened, from.skip);
    return opened;
  }

 private:
  /// The number of an epoch before this step. Epochs without an end come first.
  std::int64_t number(std::int64_t epoch, std::int64_t round) const {
    return times_ == INT64_MAX ? epoch + round : epoch * times_ + round;
  }
  struct Pass final : Cursor<T> {
    Pass(const RepeatStage& own, std::int64_t number, std::int64_t start, Owned<Cursor<T>> source)
        : stage(own), epoch(number), round(start), cursor(std::move(source)) {}
    bool next(Chunk<T>& out, std::int64_t want) override {
      for (bool fresh = false; !cursor->next(out, want); fresh = true) {
        if (fresh || round + 1 >= stage.times_) return false;  // an empty epoch has no rest
        ++round;
        auto opened = stage.before_->open(stage.number(epoch, round), {});
        Lock lock(busy);  // against stop() of another thread
        if (stopped) return false;
        cursor = std::move(opened);
      }
      out.before = outer(out.before, std::array{round});
      out.after = outer(out.after, std::array{round});
      return true;
    }
    std::string where() const override { return cursor->where(); }
    void stop() noexcept override {
      Lock lock(busy);
      stopped = true;
      cursor->stop();
    }
    struct Lock {
      explicit Lock(char& own) : flag(own) {
        while (__atomic_test_and_set(&flag, __ATOMIC_ACQUIRE)) {
        }
      }
      ~Lock() { __atomic_clear(&flag, __ATOMIC_RELEASE); }
      Lock(const Lock&) = delete;
      Lock& operator=(const Lock&) = delete;
      char& flag;
    };
    char busy = 0;
    bool stopped = false;
    const RepeatStage& stage;
    std::int64_t epoch, round;
    Owned<Cursor<T>> cursor;
  };
  std::int64_t times_;
};

/// All elements of an indexed stage, in another order in each epoch.
template <class T>
class ShuffleStage final : public StreamStage<T> {
 public:
  ShuffleStage(StageOf<T> before, Notes own, std::uint64_t seed)
      : StreamStage<T>(std::move(before), std::move(own)), seed_(seed) {}
  bool indexed() const override { return true; }
  std::int64_t size() const override {
    const std::int64_t size = this->before_->size();
    check_endless("shuffle", size, this->notes.caller);
    return size;
  }
  void get(std::int64_t epoch, std::span<const std::int64_t> positions,
           std::vector<T>& out) const override {
    std::vector<std::int64_t> other(positions.begin(), positions.end());
    permute(mixed(seed_, static_cast<std::uint64_t>(epoch)), size(), other);
    this->before_->get(epoch, other, out);
  }
  std::string item(std::int64_t epoch, std::int64_t position) const override {
    permute(mixed(seed_, static_cast<std::uint64_t>(epoch)), size(), {&position, 1});
    return this->before_->item(epoch, position);
  }
  Owned<Cursor<T>> open(std::int64_t epoch, Point from) const override {
    return Stage<T>::open(epoch, std::move(from));
  }

 private:
  std::uint64_t seed_;
};

/// Where to open the steps before a buffer again, so that all elements in the buffer come: places
/// of a pass at some of its positions.
struct REEL_API Trail {
  struct Place {
    std::int64_t position;
    Point point;
    std::int64_t errors;  // exceptions before it
  };
  std::vector<Place> places;
  std::int64_t spacing = 64;
  void note(std::int64_t position, const Point& point, std::int64_t errors = 0);
  /// Counts exceptions from the first place on.
  void count_from_first();
  /// Forgets what lies before the last place at or before `position`.
  void forget(std::int64_t position);
  const Place& first() const { return places.front(); }
};

/// The order in which a buffer of `size` slots gives the elements of a stream: at first the first
/// elements are in the slots; then a random slot gives its element and takes the next one, or the
/// last slot's where the stream has ended. (The reservoir of tf.data.)
struct REEL_API SlotOrder {
  std::uint64_t key;
  std::int64_t size;
  /// The slot, of so many, that gives output number k.
  std::size_t draw(std::int64_t k, std::int64_t slots) const;
  /// The positions in the slots after k outputs, while `taken` elements had been taken.
  std::vector<std::int64_t> slots_after(std::int64_t k, std::int64_t taken) const;
};

REEL_API void sort_pairs(std::vector<std::pair<std::int64_t, std::size_t>>& pairs);

/// Elements of a stream in the order of a buffer.
template <class T>
class BufferStage final : public StreamStage<T> {
 public:
  BufferStage(StageOf<T> before, Notes own, std::uint64_t seed, std::int64_t buffer)
      : StreamStage<T>(std::move(before), std::move(own)), seed_(seed), buffer_(buffer) {}
  std::int64_t size() const override { return this->before_->size(); }
  Owned<Cursor<T>> open(std::int64_t epoch, Point from) const override {
    auto opened = make_owned<Pass>(*this, epoch);
    opened->start(from);
    discard(*opened, from.skip);
    return opened;
  }

 private:
  struct Pass final : Cursor<T> {
    Pass(const BufferStage& own, std::int64_t number)
        : stage(own),
          epoch(number),
          order{mixed(own.seed_, static_cast<std::uint64_t>(number)), own.buffer_} {}
    /// Reads again what was in the slots, and the exceptions that have not been given.
    void start(const Point& from) {
      // The position of the place; outputs, elements taken; exceptions since then, and those of
      // them that have been given.
      std::int64_t own[5] = {};
      Point place = inner(from.words, own, 5);
      given = own[1];
      taken = own[0];
      positions = order.slots_after(given, own[2]);
      cursor = stage.before_->open(epoch, place);
      trail.note(taken, place);
      reported = own[4];
      slots.resize(positions.size());
      std::vector<std::pair<std::int64_t, std::size_t>> wanted;
      for (std::size_t i = 0; i < positions.size(); ++i) wanted.emplace_back(positions[i], i);
      sort_pairs(wanted);
      for (std::size_t found = 0; taken < own[2] || errors < own[3];) {
        const bool all_taken = taken == own[2];
        if (!cursor->next(ready, all_taken ? 1 : own[2] - taken)) {
          check_position(own[2], taken, stage.notes);
          break;
        }
        if (all_taken && !ready.elements.empty()) break;  // another source than before
        for (T& element : ready.elements) {
          if (found < wanted.size() && wanted[found].first == taken)
            slots[wanted[found++].second] = std::move(element);
          ++taken;
        }
        finish_chunk();
      }
      point = at();
    }
    bool next(Chunk<T>& out, std::int64_t want) override {
      out.before = point;
      while (static_cast<std::int64_t>(out.elements.size()) < want && !out.error) {
        if (next_late < late.size()) {
          out.error = late[next_late++];
          ++reported;
        } else if (!ended && static_cast<std::int64_t>(slots.size()) < stage.buffer_) {
          slots.emplace_back();
          positions.push_back(0);
          take(slots.size() - 1);
        } else if (!slots.empty()) {
          const std::size_t slot = order.draw(given++, static_cast<std::int64_t>(slots.size()));
          out.elements.push_back(std::move(slots[slot]));
          take(slot);
          if (given % stage.buffer_ == 0 && next_late == late.size()) forget();
        } else {
          break;
        }
      }
      point = out.after = at();
      return !out.elements.empty() || out.error;
    }
    /// Puts the next element into a slot; at the end the last slot's.
    void take(std::size_t slot) {
      while (!ended && used == ready.elements.size()) {
        ended = !cursor->next(ready, 64);
        if (ready.elements.empty()) finish_chunk();
      }
      if (ended) {
        slots[slot] = std::move(slots.back());
        positions[slot] = positions.back();
        slots.pop_back();
        positions.pop_back();
        return;
      }
      slots[slot] = std::move(ready.elements[used]);
      positions[slot] = taken++;
      if (++used == ready.elements.size()) finish_chunk();
    }
    /// All elements of the chunk have been taken.
    void finish_chunk() {
      if (ready.error && errors++ >= reported) late.push_back(ready.error);
      if (!ready.elements.empty() || ready.error) trail.note(taken, ready.after, errors);
      ready = {};
      used = 0;
    }
    void forget() {
      std::int64_t low = taken;
      for (const std::int64_t position : positions) low = position < low ? position : low;
      trail.forget(low);
      errors -= trail.first().errors;
      reported -= trail.first().errors;
      trail.count_from_first();
    }
    Point at() const {
      return outer(trail.first().point,
                   std::array{trail.first().position, given, taken, errors, reported});
    }
    std::string where() const override { return "an item of " + stage.notes.text; }
    void stop() noexcept override { cursor->stop(); }
    const BufferStage& stage;
    std::int64_t epoch;
    SlotOrder order;
    Owned<Cursor<T>> cursor;
    std::vector<T> slots;
    std::vector<std::int64_t> positions;
    Trail trail;
    Point point;
    Chunk<T> ready;
    std::vector<std::exception_ptr> late;  // of the stream; each is given by itself
    std::size_t used = 0, next_late = 0;
    std::int64_t given = 0, taken = 0;
    // Exceptions since the first place of the trail, and those of them that have been given.
    std::int64_t errors = 0, reported = 0;
    bool ended = false;
  };
  std::uint64_t seed_;
  std::int64_t buffer_;
};
}  // namespace reel::data::detail
