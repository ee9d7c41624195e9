// SPDX-License-Identifier: BSD-3-Clause
// Where the elements of a pipeline come from.
#pragma once  // defined in lib/data
#include <string>
#include <utility>
#include <vector>

#include <reel/data/conllu.hpp>
#include <reel/data/csv.hpp>
#include <reel/data/json.hpp>
#include <reel/data/pipeline.hpp>
#include <reel/data/reader.hpp>
#include <reel/data/records.hpp>
#include <reel/data/trees.hpp>
#include <reel/function.hpp>
#include <reel/pointer.hpp>

namespace reel::data {
namespace detail {
/// f(i) for i = 0 to size - 1.
template <class T, class F>
class FunctionStage final : public Stage<T> {
 public:
  FunctionStage(F f, Notes own, std::int64_t size)
      : Stage<T>(std::move(own)), f_(std::move(f)), size_(size) {}
  std::int64_t size() const override { return size_; }
  void get(std::int64_t epoch, std::span<const std::int64_t> positions,
           std::vector<T>& out) const override {
    const std::size_t first = out.size();
    const std::int64_t start = nanoseconds_now();
    try {
      ElementScope scope(seed_of_text(), epoch);
      for (const std::int64_t i : positions) {
        scope.at(i);
        out.push_back(f_(i));
      }
      this->notes.add(static_cast<std::int64_t>(positions.size()), start);
    } catch (...) {
      throw_item_error(this->notes, "from", this->item(epoch, positions[out.size() - first]));
    }
  }

 private:
  std::uint64_t seed_of_text() const { return this->notes.text.size(); }
  F f_;
  std::int64_t size_;
};

/// The elements of Readers.
template <class T, class Open>
class ReaderStage final : public Stage<T> {
 public:
  ReaderStage(Open open, Notes own) : Stage<T>(std::move(own)), open_(std::move(open)) {}
  bool indexed() const override { return false; }
  std::int64_t size() const override { return -1; }
  Owned<Cursor<T>> open(std::int64_t, Point from) const override {
    auto opened = make_owned<Pass>(this->notes);
    Place place;
    if (from.words.size() == 3) {
      opened->item = from.words[0];
      place = {from.words[1], from.words[2]};
    }
    opened->reader = open_(place);
    discard(*opened, from.skip);
    return opened;
  }

 private:
  struct Pass final : Cursor<T> {
    explicit Pass(const Notes& own) : notes(own) {}
    bool next(Chunk<T>& out, std::int64_t want) override {
      out.before = at();
      const std::int64_t start = nanoseconds_now();
      std::vector<T>& elements = out.elements = std::move(out.used);
      out.overwrites = reader->overwrites();
      elements.reserve(static_cast<std::size_t>(want < 64 ? want : 64));
      std::size_t count = 0;
      try {
        for (; count < static_cast<std::size_t>(want); ++count) {
          if (count == elements.size()) elements.emplace_back();
          if (!reader->next(elements[count])) break;
          ++item;
        }
      } catch (const IoError&) {  // it names file and line
        out.error = std::current_exception();
        ++item;
      } catch (...) {
        ++item;
        try {
          throw_item_error(notes, "stream", where());
        } catch (...) {
          out.error = std::current_exception();
        }
      }
      elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(count), elements.end());
      out.after = at();
      notes.add(static_cast<std::int64_t>(count), start);
      return count > 0 || out.error;
    }
    Point at() const {
      const Place place = reader->place();
      return {{item, place.file, place.offset}, 0};
    }
    std::string where() const override {
      return "item " + std::to_string(item - 1) + " (" + reader->where() + ")";
    }
    const Notes& notes;
    Owned<Reader<T>> reader;
    std::int64_t item = 0;
  };
  Open open_;
};
/// Calls of a function until it returns false. The place is the number of calls.
template <class T, class F>
struct Calls final : Reader<T> {
  explicit Calls(F next_element) : f(std::move(next_element)) {}
  bool next(T& element) override {
    ++count;  // a call that throws counts too
    const bool more = f(element);
    if (!more) --count;
    return more;
  }
  Place place() const override { return {0, count}; }
  std::string where() const override { return "call " + std::to_string(count) + " of a function"; }
  F f;
  std::int64_t count = 0;
};
/// The length of the first axis. Throws ShapeError unless all Tensors of `arrays` have it.
REEL_API std::int64_t common_length(const std::vector<Tensor>& arrays, Caller caller);
REEL_API Tensor row_of(const Tensor& array, std::int64_t i);
template <class T>
T& element_of(const Reader<T>& its);  // its type alone is used
}  // namespace detail

/// The numbers begin to end - 1, as std::int64_t.
REEL_API Pipeline<std::int64_t> range(CountNumber begin, CountNumber end,
                                      Caller caller = Caller::here());
/// The numbers 0 to end - 1, as std::int64_t.
REEL_API Pipeline<std::int64_t> range(CountNumber end, Caller caller = Caller::here());

/// f(i) for i from 0 to size - 1. Several threads call the function at once if a step behind it has
/// threads. `name` stands for the source in errors and in the check of a saved state.
template <class F>
requires std::is_invocable_v<const F&, std::int64_t>
auto from(CountNumber size, F f, std::string name = "from", Caller caller = Caller::here()) {
  using T = std::remove_cvref_t<std::invoke_result_t<const F&, std::int64_t>>;
  detail::check_count("from", "size", size, 0, caller);
  detail::Notes notes =
      detail::notes(std::move(name) + "(" + std::to_string(size.value) + ")", caller);
  return Pipeline<T>(
      make_shared_of<detail::FunctionStage<T, F>>(std::move(f), std::move(notes), size.value));
}
/// The elements of a vector, which the pipeline takes over.
///
///     data::from(data::glob("images/*.png")).shuffle({.seed = 1}).map(load, {.threads = 4})
template <class T>
Pipeline<T> from(std::vector<T> values, Caller caller = Caller::here()) {
  const auto shared = make_shared_of<const std::vector<T>>(std::move(values));
  const auto element = [shared](std::int64_t i) { return (*shared)[static_cast<std::size_t>(i)]; };
  return from(shared->size(), element, "vector", caller);
}
/// The rows of a Tensor, or of all Tensors of a struct with fields, whose first axes have one
/// length. Throws ShapeError if the lengths differ.
///
///     struct Example { Tensor x, y; REEL_FIELDS(x, y) };
///     data::rows(Example{images, labels}).shuffle().batch(64)
template <class T>
requires detail::Grouped<T> Pipeline<T> rows(T arrays, Caller caller = Caller::here()) {
  std::vector<Tensor> all;
  detail::each_tensor(arrays, [&](std::string_view, Tensor& x) { all.push_back(x); });
  const auto row = [arrays](std::int64_t i) {
    T element = arrays;
    detail::each_tensor(element, [&](std::string_view, Tensor& x) { x = detail::row_of(x, i); });
    return element;
  };
  return from(detail::common_length(all, caller), row, "rows", caller);
}

/// A stream of what Readers read. open(place) returns an Owned<Reader<T>> that begins
/// there; a new epoch begins at Place{}. `name` stands for the source in errors.
template <class Open>
auto stream(std::string name, Open open, Caller caller = Caller::here()) {
  using Opened = std::invoke_result_t<const Open&, Place>;
  using T = std::remove_reference_t<decltype(detail::element_of(*std::declval<Opened>()))>;
  return Pipeline<T>(make_shared_of<detail::ReaderStage<T, Open>>(
      std::move(open), detail::notes(std::move(name), caller)));
}
/// A stream from a function: start() is called for each epoch and returns a function that writes
/// the next element to its argument and returns false at the end. A resume calls it again from the
/// start and drops what was delivered.
///
///     data::generate<int>([] {
///       return [i = 0](int& x) mutable { return i < 3 ? (x = i++, true) : false; };
///     })
template <class T, class F>
Pipeline<T> generate(F start, Caller caller = Caller::here()) {
  return stream(
      "generate",
      [start = std::move(start)](Place place) -> Owned<Reader<T>> {
        auto calls = make_owned<detail::Calls<T, std::invoke_result_t<const F&>>>(start());
        bool more = true;
        for (T dropped; more && calls->count < place.offset;) try {
            more = calls->next(dropped);
          } catch (...) {  // it was thrown before
          }
        return calls;
      },
      caller);
}

/// The lines of text files, one file after another, without their ends. The files are opened when a
/// loop needs them: a missing one is an IoError there. So it is for the other sources of files.
REEL_API Pipeline<std::string> lines(std::vector<std::string> files,
                                     Caller caller = Caller::here());
/// The records of TFRecord files, with both checksums checked: see parse_example().
REEL_API Pipeline<std::string> tfrecords(std::vector<std::string> files,
                                         Caller caller = Caller::here());
/// The records of TFRecord files as messages tf.train.Example. This is the fastest way to read
/// them.
REEL_API Pipeline<Example> examples(std::vector<std::string> files, Caller caller = Caller::here());
/// The rows of CSV files.
REEL_API Pipeline<CsvRow> csv(std::vector<std::string> files, CsvOptions options = {},
                              Caller caller = Caller::here());
/// The lines of files that each have one value of JSON.
REEL_API Pipeline<JsonRecord> json_lines(std::vector<std::string> files,
                                         Caller caller = Caller::here());
/// Trees in brackets, as the Penn Treebank and the Stanford Sentiment Treebank have them.
REEL_API Pipeline<Tree> trees(std::vector<std::string> files, Caller caller = Caller::here());
/// The sentences of CoNLL-U files.
REEL_API Pipeline<Sentence> conllu(std::vector<std::string> files, Caller caller = Caller::here());
}  // namespace reel::data
