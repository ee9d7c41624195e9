// SPDX-License-Identifier: BSD-3-Clause
// Steps that make one element of several: batch, padded_batch, bucket_by_length. Programs use
// pipeline.hpp.
#pragma once  // defined in lib/data
#include <reel/data/order.hpp>
#include <reel/fields.hpp>
#include <reel/pointer.hpp>

namespace reel::data {
/// Elements of different lengths in one batch: [elements, longest, ...], filled up behind their
/// ends, and the lengths, int64 [elements].
template <class T>
struct Padded {
  T batch;
  Tensor lengths;
  REEL_FIELDS(batch, lengths)
};
}  // namespace reel::data

namespace reel::data::detail {
/// The tensors of a batch's elements on a new first axis. Throws ShapeError unless all have one
/// shape; with `fill`, first axes may differ.
REEL_API Tensor stacked(std::string_view op, std::string_view field, std::vector<Tensor> parts,
                        const Scalar* fill, Caller caller);
REEL_API std::int64_t length_of(const Tensor& x, Caller caller);

template <class T>
concept Grouped = HasFields<T> || std::is_same_v<T, Tensor>;

/// Calls f(name, tensor) for each Tensor of an element.
template <class T, class F>
void each_tensor(T& element, const F& f, std::string_view name = {}) {
  if constexpr (std::is_same_v<T, Tensor>) {
    f(name, element);
  } else {
    static_assert(HasFields<T>,
                  "a batch of structs needs fields that are Tensors, or structs of Tensors: map() "
                  "the others to Tensors, or give batch() a function that groups a std::vector");
    reel::detail::visit_fields(
        element, [&](std::string_view field, auto& member) { each_tensor(member, f, field); });
  }
}

/// What a batch of T is: a Tensor for numbers and Tensors, the same struct for a struct of Tensors,
/// a pair for a pair, otherwise a std::vector.
template <class T>
struct Batch {
  using type = std::vector<T>;
  static type of(std::string_view, std::vector<T>&& all, const Scalar*, Caller) {
    return std::move(all);
  }
};
template <class T>
requires(Element<T> && !std::is_same_v<T, bool>) struct Batch<T> {
  using type = Tensor;
  static Tensor of(std::string_view, std::vector<T>&& all, const Scalar*, Caller caller) {
    return tensor(all, caller);
  }
};
template <Grouped T>
struct Batch<T> {
  using type = T;
  static T of(std::string_view op, std::vector<T>&& all, const Scalar* fill, Caller caller) {
    std::vector<std::vector<Tensor>> columns;
    for (T& element : all) {
      std::size_t column = 0;
      each_tensor(element, [&](std::string_view, Tensor& x) {
        if (column == columns.size()) {
          columns.emplace_back();
          columns.back().reserve(all.size());
        }
        columns[column++].push_back(std::move(x));
      });
    }
    T group = std::move(all[0]);
    std::size_t column = 0;
    each_tensor(group, [&](std::string_view field, Tensor& x) {
      x = stacked(op, field, std::move(columns[column++]), fill, caller);
    });
    return group;
  }
};
template <class A, class B>
struct Batch<std::pair<A, B>> {
  using type = std::pair<typename Batch<A>::type, typename Batch<B>::type>;
  static type of(std::string_view op, std::vector<std::pair<A, B>>&& all, const Scalar* fill,
                 Caller caller) {
    std::vector<A> firsts;
    std::vector<B> seconds;
    for (auto& [first, second] : all) {
      firsts.push_back(std::move(first));
      seconds.push_back(std::move(second));
    }
    return {Batch<A>::of(op, std::move(firsts), fill, caller),
            Batch<B>::of(op, std::move(seconds), fill, caller)};
  }
};
template <class T>
using BatchOf = typename Batch<T>::type;

/// The length of an element: of the first axis of its first Tensor, or size().
template <class T>
std::int64_t length_of_element(T& element, Caller caller) {
  if constexpr (Grouped<T>) {
    std::int64_t length = -1;
    each_tensor(element, [&](std::string_view, Tensor& x) {
      if (length < 0) length = length_of(x, caller);
    });
    return length;
  } else if constexpr (requires { element.first; }) {
    return length_of_element(element.first, caller);
  } else {
    static_assert(
        requires { element.size(); },
        "padded_batch() needs Tensors, pairs, or structs with REEL_FIELDS");
    return static_cast<std::int64_t>(element.size());
  }
}
/// A padded batch and its lengths.
template <class T>
struct PaddedGroup {
  Scalar fill;
  Caller caller;
  std::string_view op;
  Padded<BatchOf<T>> operator()(std::vector<T>&& all) const {
    std::vector<std::int64_t> lengths;
    for (T& element : all) lengths.push_back(length_of_element(element, caller));
    return {Batch<T>::of(op, std::move(all), &fill, caller), tensor(lengths, caller)};
  }
};
template <class T>
struct PlainGroup {
  Caller caller;
  BatchOf<T> operator()(std::vector<T>&& all) const {
    return Batch<T>::of("batch", std::move(all), nullptr, caller);
  }
};

/// Groups of `count` elements in their order.
template <class T, class Out, class Group>
class BatchStage final : public Stage<Out> {
 public:
  BatchStage(StageOf<T> before, Group group, Notes own, std::int64_t count, bool drop_rest)
      : Stage<Out>(std::move(own)),
        before_(std::move(before)),
        group_(std::move(group)),
        count_(count),
        drop_rest_(drop_rest) {}
  bool indexed() const override { return before_->indexed(); }
  std::int64_t size() const override {
    const std::int64_t all = before_->size();
    return all < 0 || all == INT64_MAX ? all : all / count_ + (!drop_rest_ && all % count_ != 0);
  }
  std::int64_t weight() const override {
    return count_ < 64 ? std::int64_t{count_} * before_->weight() : 64;
  }
  int threads() const override { return before_->threads(); }
  void list(std::vector<const Notes*>& all) const override {
    before_->list(all);
    all.push_back(&this->notes);
  }
  void get(std::int64_t epoch, std::span<const std::int64_t> positions,
           std::vector<Out>& out) const override {
    const std::int64_t all = before_->size();
    std::vector<std::int64_t> inside;
    for (const std::int64_t position : positions) {
      const std::int64_t first = position * count_;
      const std::int64_t end = all - first < count_ ? all : first + count_;
      inside.clear();
      for (std::int64_t i = first; i < end; ++i) inside.push_back(i);
      std::vector<T> group;
      group.reserve(inside.size());
      before_->get(epoch, inside, group);
      add(std::move(group), epoch, position, out);
    }
  }
  std::string item(std::int64_t epoch, std::int64_t position) const override {
    std::string text = "batch " + std::to_string(position);
    if (indexed()) text += ", which begins with " + before_->item(epoch, position * count_);
    return text;
  }
  Owned<Cursor<Out>> open(std::int64_t epoch, Point from) const override {
    if (indexed()) return Stage<Out>::open(epoch, std::move(from));
    std::int64_t at = 0;
    auto cursor = before_->open(epoch, inner(from.words, &at, 1));
    auto opened = make_owned<Pass>(*this, epoch, std::move(cursor), at);
    discard(*opened, from.skip);
    return opened;
  }

 private:
  void add(std::vector<T>&& group, std::int64_t epoch, std::int64_t position,
           std::vector<Out>& out) const {
    const std::int64_t start = nanoseconds_now();
    try {
      out.push_back(group_(std::move(group)));
    } catch (...) {
      throw_item_error(this->notes, "batch", this->item(epoch, position));
    }
    this->notes.add(1, start);
  }
  struct Pass final : Cursor<Out> {
    Pass(const BatchStage& own, std::int64_t number, Owned<Cursor<T>> source, std::int64_t start)
        : stage(own), epoch(number), cursor(std::move(source)), at(start) {}
    /// After an exception the next call fills the same group further.
    bool next(Chunk<Out>& out, std::int64_t) override {
      while (static_cast<std::int64_t>(group.size()) < stage.count_ && !ended) {
        Chunk<T> in;
        if (!cursor->next(in, stage.count_ - static_cast<std::int64_t>(group.size()))) {
          ended = true;
          break;
        }
        if (group.empty()) before = in.before;
        after = in.after;
        for (T& element : in.elements) group.push_back(std::move(element));
        if (in.error) {
          out.error = in.error;
          out.before = outer(before, std::array{at});
          out.after = group.empty() ? outer(after, std::array{at}) : out.before;
          return true;
        }
      }
      if (group.empty() ||
          (stage.drop_rest_ && static_cast<std::int64_t>(group.size()) < stage.count_))
        return false;
      out.before = outer(before, std::array{at});
      try {
        stage.add(std::exchange(group, {}), epoch, at, out.elements);
      } catch (...) {
        out.error = std::current_exception();
      }
      out.after = outer(after, std::array{++at});
      return true;
    }
    std::string where() const override { return cursor->where(); }
    void stop() noexcept override { cursor->stop(); }
    const BatchStage& stage;
    std::int64_t epoch;
    Owned<Cursor<T>> cursor;
    std::int64_t at;
    std::vector<T> group;
    Point before, after;
    bool ended = false;
  };
  StageOf<T> before_;
  Group group_;
  std::int64_t count_;
  bool drop_rest_;
};

REEL_API void sort_positions(std::vector<std::int64_t>& positions);

/// A group for each range of lengths; a full one is given.
template <class T, class Length>
class BucketStage final : public Stage<Padded<BatchOf<T>>> {
 public:
  using Out = Padded<BatchOf<T>>;
  BucketStage(StageOf<T> before, Length length, Notes own, std::vector<std::int64_t> bounds,
              std::int64_t count, Scalar fill)
      : Stage<Out>(std::move(own)),
        before_(std::move(before)),
        length_(std::move(length)),
        bounds_(std::move(bounds)),
        count_(count),
        fill_(fill) {}
  bool indexed() const override { return false; }
  std::int64_t size() const override { return -1; }
  std::int64_t weight() const override {
    return count_ < 64 ? std::int64_t{count_} * before_->weight() : 64;
  }
  int threads() const override { return before_->threads(); }
  void list(std::vector<const Notes*>& all) const override {
    before_->list(all);
    all.push_back(&this->notes);
  }
  Owned<Cursor<Out>> open(std::int64_t epoch, Point from) const override {
    auto opened = make_owned<Pass>(*this, epoch);
    opened->start(from);
    discard(*opened, from.skip);
    return opened;
  }

 private:
  struct Held {
    std::vector<T> elements;
    std::vector<std::int64_t> lengths, positions;
  };
  struct Pass final : Cursor<Out> {
    Pass(const BucketStage& own, std::int64_t number)
        : stage(own), epoch(number), buckets(own.bounds_.size() + 1) {}
    /// The words are those of a place, its position, the number of items taken (elements, and
    /// exceptions in the place of one), the positions in the buckets, and how many these are.
    void start(const Point& from) {
      std::int64_t count = 0;
      std::span<const std::int64_t> words = from.words;
      if (!words.empty()) {
        count = words.back();
        words = words.first(words.size() - 1);
      }
      if (count < 0 || static_cast<std::size_t>(count) > words.size()) count = 0;
      const auto held = words.last(static_cast<std::size_t>(count));
      std::vector<std::int64_t> wanted(held.begin(), held.end());
      std::int64_t own[2] = {};
      Point place = inner(words.first(words.size() - held.size()), own, 2);
      taken = own[0];
      cursor = stage.before_->open(epoch, place);
      trail.note(taken, place);
      for (std::size_t found = 0; taken < own[1];) {
        if (!more(own[1] - taken)) check_position(own[1], taken, stage.notes);
        const bool was_held = found < wanted.size() && wanted[found] == taken;
        if (was_held) ++found;
        std::exception_ptr error;
        if (was_held && used < ready.elements.size()) put(error);
        if (std::exception_ptr thrown = pass()) error = thrown;
        // It has given an element before. An exception in another place was given before.
        if (was_held && error) late.push_back(error);
      }
      point = at();
    }
    /// Whether there is a next item; it is in `ready`.
    bool more(std::int64_t want) {
      if (used < ready.elements.size() || ready.error) return true;
      ready = {};
      used = 0;
      return cursor->next(ready, want);
    }
    /// The next item has been dealt with. Gives it if it is an exception.
    std::exception_ptr pass() {
      std::exception_ptr error;
      if (used < ready.elements.size())
        ++used;
      else
        error = std::exchange(ready.error, nullptr);
      ++taken;
      if (used == ready.elements.size() && !ready.error) trail.note(taken, ready.after);
      return error;
    }
    bool next(Chunk<Out>& out, std::int64_t) override {
      out.before = point;
      if (next_late < late.size()) out.error = late[next_late++];
      while (out.elements.empty() && !out.error && !ended) {
        if (!more(64)) {
          ended = true;
        } else if (used == ready.elements.size()) {
          out.error = pass();
        } else {
          Held* const bucket = put(out.error);
          pass();
          if (bucket && static_cast<std::int64_t>(bucket->elements.size()) == stage.count_)
            give(*bucket, out);
        }
      }
      for (Held& bucket : buckets)
        if (ended && out.elements.empty() && !out.error && !bucket.elements.empty())
          give(bucket, out);
      point = out.after = at();
      return !out.elements.empty() || out.error;
    }
    /// Puts the next element into its bucket; null and an exception if its length throws.
    Held* put(std::exception_ptr& error) {
      T& element = ready.elements[used];
      std::int64_t length = 0;
      try {
        length = static_cast<std::int64_t>(stage.length_(std::as_const(element)));
      } catch (...) {
        const Point place{ready.before.words, ready.before.skip + static_cast<std::int64_t>(used)};
        error = item_error(item_at(*stage.before_, epoch, place));
        return nullptr;
      }
      std::size_t i = 0;
      while (i < stage.bounds_.size() && length > stage.bounds_[i]) ++i;
      buckets[i].elements.push_back(std::move(element));
      buckets[i].lengths.push_back(length);
      buckets[i].positions.push_back(taken);
      return &buckets[i];
    }
    void give(Held& bucket, Chunk<Out>& out) {
      const std::int64_t start = nanoseconds_now();
      Held full = std::exchange(bucket, {});
      const Caller caller = stage.notes.caller;
      try {
        out.elements.push_back(
            {Batch<T>::of("bucket_by_length", std::move(full.elements), &stage.fill_, caller),
             tensor(full.lengths, caller)});
        stage.notes.add(1, start);
      } catch (...) {
        out.error =
            item_error("the batch that ends with item " + std::to_string(full.positions.back()));
      }
    }
    /// An ItemError of the current exception.
    std::exception_ptr item_error(const std::string& item) const try {
      throw_item_error(stage.notes, "bucket_by_length", item);
    } catch (...) {
      return std::current_exception();
    }
    Point at() {
      std::vector<std::int64_t> held;
      for (const Held& bucket : buckets)
        held.insert(held.end(), bucket.positions.begin(), bucket.positions.end());
      sort_positions(held);
      trail.forget(held.empty() ? taken : held[0]);
      held.insert(held.begin(), {trail.first().position, taken});
      held.push_back(static_cast<std::int64_t>(held.size()) - 2);
      return outer(trail.first().point, held);
    }
    std::string where() const override { return cursor->where(); }
    void stop() noexcept override { cursor->stop(); }
    const BucketStage& stage;
    std::int64_t epoch;
    Owned<Cursor<T>> cursor;
    std::vector<Held> buckets;
    Trail trail;
    Point point;
    Chunk<T> ready;
    std::vector<std::exception_ptr> late;  // of a resume; each is given by itself
    std::size_t used = 0, next_late = 0;
    std::int64_t taken = 0;
    bool ended = false;
  };
  StageOf<T> before_;
  Length length_;
  std::vector<std::int64_t> bounds_;
  std::int64_t count_;
  Scalar fill_;
};
}  // namespace reel::data::detail
