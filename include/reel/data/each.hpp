// SPDX-License-Identifier: BSD-3-Clause
// Steps that look at one element at a time: map, filter, skip_errors. Programs use pipeline.hpp.
#pragma once
#include <reel/data/stage.hpp>
#include <reel/pointer.hpp>

namespace reel::data::detail {
/// f(element), or f(element, generator).
template <class T, class F>
decltype(auto) call_with(const F& f, T& element, ElementScope& scope, std::int64_t position) {
  if constexpr (std::is_invocable_v<const F&, T&&, Generator&>)
    return f(std::move(element), scope.at(position));
  else
    return scope.at(position), f(std::move(element));
}

/// Calls the function for elements at positions; appends the results.
template <class T, class F, class Out>
void map_all(const F& f, std::vector<T>& in, std::span<const std::int64_t> positions,
             ElementScope& scope, std::vector<Out>& out) {
  for (std::size_t i = 0; i < in.size(); ++i)
    out.push_back(call_with(f, in[i], scope, positions[i]));
}

/// A stream's chunks, mapped.
template <class T, class Out_, class F>
struct MapJob {
  using Out = Out_;
  struct Slot {
    Chunk<T> in;
    std::int64_t at = 0;
    std::vector<Chunk<Out>> parts;
  };
  const Stage<T>& before;
  const Notes& notes;
  const F& f;
  std::uint64_t seed;
  std::int64_t epoch, at;
  Owned<Cursor<T>> cursor;

  bool pull(Slot& slot, std::int64_t want) {
    slot.in.clear();
    slot.at = at;
    if (!cursor->next(slot.in, want)) return false;
    at += static_cast<std::int64_t>(slot.in.elements.size());
    return true;
  }
  void run(Slot& slot) const {
    const std::int64_t start = nanoseconds_now();
    std::size_t next = 0;
    Chunk<T>& in = slot.in;
    do {
      Chunk<Out> part;
      part.before = outer({in.before.words, in.before.skip + static_cast<std::int64_t>(next)},
                          std::array{slot.at + static_cast<std::int64_t>(next)});
      try {
        ElementScope scope(seed, epoch);
        for (; next < in.elements.size(); ++next)
          part.elements.push_back(
              call_with(f, in.elements[next], scope, slot.at + static_cast<std::int64_t>(next)));
        part.error = std::exchange(in.error, nullptr);
        part.after = outer(in.after, std::array{slot.at + static_cast<std::int64_t>(next)});
      } catch (...) {
        const std::int64_t wrong = in.before.skip + static_cast<std::int64_t>(next);
        try {
          throw_item_error(notes, "map", item_at(before, epoch, {in.before.words, wrong}));
        } catch (...) {
          part.error = std::current_exception();
        }
        ++next;
        part.after = outer({in.before.words, wrong + 1},
                           std::array{slot.at + static_cast<std::int64_t>(next)});
      }
      slot.parts.push_back(std::move(part));
    } while (next < in.elements.size() || in.error);
    notes.add(static_cast<std::int64_t>(next), start);
  }
  std::string where() const { return cursor->where(); }
  void stop() noexcept { cursor->stop(); }
};

template <class T, class Out, class F>
class MapStage final : public Stage<Out> {
 public:
  MapStage(StageOf<T> before, F f, Notes own, std::uint64_t seed, int threads)
      : Stage<Out>(std::move(own)),
        before_(std::move(before)),
        f_(std::move(f)),
        seed_(seed),
        threads_(threads) {}
  bool indexed() const override { return before_->indexed(); }
  std::int64_t size() const override { return before_->size(); }
  std::int64_t weight() const override { return before_->weight(); }
  int threads() const override {
    return before_->threads() > threads_ ? before_->threads() : threads_;
  }
  void get(std::int64_t epoch, std::span<const std::int64_t> positions,
           std::vector<Out>& out) const override {
    std::vector<T> in;
    std::exception_ptr late;
    try {
      in.reserve(positions.size());
      before_->get(epoch, positions, in);
    } catch (...) {
      late = std::current_exception();
    }
    const std::size_t first = out.size();
    const std::int64_t start = nanoseconds_now();
    try {
      ElementScope scope(seed_, epoch);
      map_all(f_, in, positions, scope, out);
    } catch (...) {
      throw_item_error(this->notes, "map", item(epoch, positions[out.size() - first]));
    }
    this->notes.add(static_cast<std::int64_t>(in.size()), start);
    if (late) std::rethrow_exception(late);
  }
  std::string item(std::int64_t epoch, std::int64_t position) const override {
    return before_->item(epoch, position);
  }
  Owned<Cursor<Out>> open(std::int64_t epoch, Point from) const override {
    if (indexed()) return Stage<Out>::open(epoch, std::move(from));
    std::int64_t at = 0;
    auto cursor = before_->open(epoch, inner(from.words, &at, 1));
    auto opened = make_owned<Threaded<MapJob<T, Out, F>>>(
        MapJob<T, Out, F>{*before_, this->notes, f_, seed_, epoch, at, std::move(cursor)},
        this->notes, threads_, 2 * static_cast<std::size_t>(threads_ > 0 ? threads_ : 1), 64);
    discard(*opened, from.skip);
    return opened;
  }
  void list(std::vector<const Notes*>& all) const override {
    before_->list(all);
    all.push_back(&this->notes);
  }

 private:
  StageOf<T> before_;
  F f_;
  std::uint64_t seed_;
  int threads_;
};

/// A step that gives some of a stream's elements, in their order.
template <class T>
class StreamStage : public Stage<T> {
 public:
  StreamStage(StageOf<T> before, Notes own)
      : Stage<T>(std::move(own)), before_(std::move(before)) {}
  bool indexed() const override { return false; }
  std::int64_t size() const override { return -1; }
  std::int64_t weight() const override { return before_->weight(); }
  int threads() const override { return before_->threads(); }
  void list(std::vector<const Notes*>& all) const override {
    before_->list(all);
    all.push_back(&this->notes);
  }

 protected:
  StageOf<T> before_;
};

template <class T, class F>
class FilterStage final : public StreamStage<T> {
 public:
  FilterStage(StageOf<T> before, F keeps, Notes own)
      : StreamStage<T>(std::move(before), std::move(own)), keeps_(std::move(keeps)) {}
  Owned<Cursor<T>> open(std::int64_t epoch, Point from) const override {
    auto opened =
        make_owned<Pass>(*this, epoch, this->before_->open(epoch, inner(from.words, {}, 0)));
    discard(*opened, from.skip);
    return opened;
  }

 private:
  struct Pass final : Cursor<T> {
    Pass(const FilterStage& own, std::int64_t number, Owned<Cursor<T>> source)
        : stage(own), epoch(number), cursor(std::move(source)) {}
    /// After an exception of the function, the rest of its chunk is left in `in`.
    bool next(Chunk<T>& out, std::int64_t want) override {
      while (out.elements.empty() && !out.error) {
        if (used == in.elements.size() && !in.error) {
          in = {};
          used = 0;
          if (!cursor->next(in, want)) return false;
        }
        const std::int64_t start = nanoseconds_now();
        const std::size_t first = used;
        out.before = outer(at(), {});
        try {
          for (; used < in.elements.size(); ++used)
            if (stage.keeps_(std::as_const(in.elements[used])))
              out.elements.push_back(std::move(in.elements[used]));
          out.error = std::exchange(in.error, nullptr);
          out.after = outer(in.after, {});
        } catch (...) {
          const Point wrong = at();
          ++used;
          out.after = outer(at(), {});
          try {
            throw_item_error(stage.notes, "filter", item_at(*stage.before_, epoch, wrong));
          } catch (...) {
            out.error = std::current_exception();
          }
        }
        stage.notes.add(static_cast<std::int64_t>(used - first), start);
      }
      return true;
    }
    Point at() const { return {in.before.words, in.before.skip + static_cast<std::int64_t>(used)}; }
    std::string where() const override { return cursor->where(); }
    void stop() noexcept override { cursor->stop(); }
    const FilterStage& stage;
    std::int64_t epoch;
    Owned<Cursor<T>> cursor;
    Chunk<T> in;
    std::size_t used = 0;
  };
  F keeps_;
};

template <class T>
class SkipErrorsStage final : public StreamStage<T> {
 public:
  using StreamStage<T>::StreamStage;
  Owned<Cursor<T>> open(std::int64_t epoch, Point from) const override {
    auto opened =
        make_owned<Pass>(this->before_->open(epoch, inner(from.words, {}, 0)), this->notes);
    discard(*opened, from.skip);
    return opened;
  }

 private:
  struct Pass final : Cursor<T> {
    Pass(Owned<Cursor<T>> source, const Notes& own) : cursor(std::move(source)), notes(own) {}
    bool next(Chunk<T>& out, std::int64_t want) override {
      do {
        out = {};
        if (!cursor->next(out, want)) return false;
        if (out.error) notes.add(1, nanoseconds_now());
        out.error = nullptr;
        out.before = outer(out.before, {});
        out.after = outer(out.after, {});
      } while (out.elements.empty());
      return true;
    }
    std::string where() const override { return cursor->where(); }
    void stop() noexcept override { cursor->stop(); }
    Owned<Cursor<T>> cursor;
    const Notes& notes;
  };
};
}  // namespace reel::data::detail
