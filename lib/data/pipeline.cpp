// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/pipeline.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <numeric>

#include <reel/ops.hpp>
#include <reel/pinned.hpp>

#include "lib/body/hash.hpp"
#include "lib/body/line.hpp"
#include "lib/body/text.hpp"
#include "lib/io/file.hpp"

namespace reel::data::detail {
std::int64_t nanoseconds_now() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}
void Notes::add(std::int64_t more_elements, std::int64_t since) const {
  __atomic_fetch_add(&elements, more_elements, __ATOMIC_RELAXED);
  __atomic_fetch_add(&nanoseconds, nanoseconds_now() - since, __ATOMIC_RELAXED);
}

Point outer(const Point& inner, std::span<const std::int64_t> own) {
  Point point;
  point.words.reserve(inner.words.size() + 1 + own.size());
  point.words = inner.words;
  point.words.push_back(inner.skip);
  point.words.insert(point.words.end(), own.begin(), own.end());
  return point;
}
Point inner(std::span<const std::int64_t> words, std::int64_t* own, std::size_t count) {
  if (words.size() < count + 1) return {};
  std::copy(words.end() - static_cast<std::ptrdiff_t>(count), words.end(), own);
  const auto before = words.first(words.size() - count - 1);
  return {{before.begin(), before.end()}, words[before.size()]};
}
void append_point(std::vector<std::int64_t>& words, const Point& point) {
  words.insert(words.end(), point.words.begin(), point.words.end());
  words.push_back(point.skip);
  words.push_back(static_cast<std::int64_t>(point.words.size()));
}
std::vector<Point> points_of(std::span<const std::int64_t> words, std::size_t count) {
  std::vector<Point> points(count);
  for (std::size_t i = count; i-- > 0 && words.size() >= 2;) {
    const auto size = static_cast<std::size_t>(words.back());
    if (size > words.size() - 2) break;
    points[i].skip = words[words.size() - 2];
    words = words.first(words.size() - 2);
    const auto own = words.last(size);
    points[i].words.assign(own.begin(), own.end());
    words = words.first(words.size() - size);
  }
  return points;
}

void throw_item_error(const Notes& notes, std::string_view step, const std::string& item) {
  const std::exception_ptr cause = std::current_exception();
  std::string text;
  try {
    std::rethrow_exception(cause);
  } catch (const ItemError&) {
    throw;
  } catch (const MemoryError&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail_memory(notes.caller, step);
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "an exception that is no std::exception";
  }
  std::string line = line_text(notes.caller, "");
  if (!line.empty()) line += ": ";
  line += std::string(step) + ": ";
  if (text.starts_with(line)) text.erase(0, line.size());
  throw ItemError(line + io::escaped(item) + ": " + text, cause);
}

namespace {
constinit thread_local bool without_threads = false;
}
WithoutThreads::WithoutThreads() { without_threads = true; }
WithoutThreads::~WithoutThreads() { without_threads = false; }
bool WithoutThreads::here() { return without_threads; }
void check_position(std::int64_t at, std::int64_t size, const Notes& notes) {
  if (at > size)
    fail<Error>(notes.caller, "Pipeline", "state", "a position of at most " + std::to_string(size),
                std::to_string(at), "The saved state is damaged.");
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  return mix_bits(a ^ (b + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u);
}

ElementScope::ElementScope(std::uint64_t seed, std::int64_t epoch)
    : key_(mixed(seed, static_cast<std::uint64_t>(epoch))),
      generator_(0),
      scope_(generator_),
      device_(cpu()),
      train_(true),
      autocast_({DType::float32}) {}
Generator& ElementScope::at(std::int64_t position) {
  generator_.restore(mixed(key_, static_cast<std::uint64_t>(position)), 0);
  return generator_;
}

void Trail::note(std::int64_t position, const Point& point, std::int64_t errors) {
  if (!places.empty() && position - places.back().position < spacing) return;
  places.push_back({position, point, errors});
}
void Trail::count_from_first() {
  const std::int64_t before = first().errors;
  for (Place& place : places) place.errors -= before;
}
void Trail::forget(std::int64_t position) {
  std::size_t first = 0;
  while (first + 1 < places.size() && places[first + 1].position <= position) ++first;
  places.erase(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(first));
}
std::size_t SlotOrder::draw(std::int64_t k, std::int64_t slots) const {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(mixed(key, static_cast<std::uint64_t>(k))) *
                       static_cast<std::uint64_t>(slots);
  return static_cast<std::size_t>(product >> 64);
}
std::vector<std::int64_t> SlotOrder::slots_after(std::int64_t k, std::int64_t taken) const {
  const std::int64_t full = std::min(taken, size), replaced = taken - full;
  std::vector<std::int64_t> slots(static_cast<std::size_t>(full));
  std::iota(slots.begin(), slots.end(), 0);
  std::int64_t j = 0;
  for (; j < replaced && j < k; ++j) slots[draw(j, full)] = full + j;
  for (; j < k && !slots.empty(); ++j) {
    slots[draw(j, static_cast<std::int64_t>(slots.size()))] = slots.back();
    slots.pop_back();
  }
  return slots;
}
void sort_pairs(std::vector<std::pair<std::int64_t, std::size_t>>& pairs) {
  std::sort(pairs.begin(), pairs.end());
}
void sort_positions(std::vector<std::int64_t>& positions) {
  std::sort(positions.begin(), positions.end());
}

Tensor stacked(std::string_view op, std::string_view field, std::vector<Tensor> parts,
               const Scalar* fill, Caller caller) {
  const CallerScope here(caller);
  std::int64_t longest = 0;
  bool ragged = false;
  const Shape first = parts[0].shape();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape shape = parts[i].shape();
    bool fits = shape == first;
    if (!fits && fill && shape.rank() == first.rank() && shape.rank() > 0) {
      ragged = fits = true;
      for (std::size_t axis = 1; axis < shape.rank(); ++axis)
        fits = fits && shape[axis] == first[axis];
    }
    if (!fits)
      fail<ShapeError>(
          caller, op,
          (field.empty() ? "element " : std::string(field) + " of element ") + std::to_string(i),
          "the shape of element 0, " + to_text(first), to_text(shape),
          fill ? "" : "padded_batch() fills up Tensors whose first axes differ.");
    if (shape.rank() > 0) longest = std::max(longest, shape[0]);
  }
  if (ragged)
    for (Tensor& part : parts) {
      if (part.shape()[0] == longest) continue;
      std::vector<Padding> widths(static_cast<std::size_t>(first.rank()), Padding{0, 0});
      widths[0] = {0, longest - part.shape()[0]};
      part = pad(part, widths, {PadMode::constant, *fill});
    }
  return stack(parts);
}
std::int64_t length_of(const Tensor& x, Caller caller) {
  if (x.rank() == 0)
    fail<ShapeError>(caller, "padded_batch", "element", "a Tensor with an axis of its length",
                     "one number");
  return x.shape()[0];
}
Tensor moved(const Tensor& x, Device device) {
  return x.device() == device ? x : pinned(x, device).to(device);
}

Notes notes(std::string text, Caller caller, std::int64_t threads) {
  Notes notes;
  notes.text = std::move(text);
  notes.caller = caller;
  if (threads > 0) notes.extra = std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  return notes;
}
void check_count(std::string_view op, std::string_view argument, std::int64_t got,
                 std::int64_t least, Caller caller) {
  if (got < least)
    fail<Error>(caller, op, argument, "at least " + std::to_string(least), std::to_string(got));
}
void check_threads(std::int64_t threads, Caller caller) {
  if (threads < 0 || threads > 256)
    fail<Error>(caller, "map", "options.threads", "0 to 256", std::to_string(threads));
}
void check_bounds(const std::vector<std::int64_t>& bounds, Caller caller) {
  for (std::size_t i = 1; i < bounds.size(); ++i)
    if (bounds[i] <= bounds[i - 1])
      fail<Error>(caller, "bucket_by_length", "options.bounds", "ascending lengths",
                  std::to_string(bounds[i]) + " after " + std::to_string(bounds[i - 1]));
}
void check_shard(std::int64_t rank, std::int64_t count, Caller caller) {
  check_count("shard", "count", count, 1, caller);
  if (rank < 0 || rank >= count)
    fail<Error>(caller, "shard", "rank", "0 to " + std::to_string(count - 1), std::to_string(rank));
}
void check_endless(std::string_view op, std::int64_t size, Caller caller) {
  if (size == INT64_MAX)
    fail<Error>(caller, op, "pipeline", "a number of elements", "a pipeline without end",
                "Shuffle before repeat().");
}
std::string bucket_text(const std::vector<std::int64_t>& bounds, std::int64_t batch) {
  std::string text = "bucket_by_length(bounds";
  for (const std::int64_t bound : bounds) text += " " + std::to_string(bound);
  return text + ", batch " + std::to_string(batch) + ")";
}

std::string PipelineState::text(const std::vector<const Notes*>& steps) {
  std::string text;
  for (const Notes* step : steps)
    if (!step->text.empty()) text += (text.empty() ? "" : ".") + step->text;
  if (const std::int64_t open = shards(steps); open > 1)
    text += ".shard(of " + std::to_string(open) + ")";
  return text;
}
std::int64_t PipelineState::shards(const std::vector<const Notes*>& steps) {
  std::int64_t open = 1;
  for (const Notes* step : steps) open = step->shards ? open * step->shards : 1;
  return open;
}
std::size_t PipelineState::count(const std::vector<const Notes*>& steps) {
  return static_cast<std::size_t>(std::count_if(
      steps.begin(), steps.end(), [](const Notes* step) { return !step->text.empty(); }));
}
std::uint64_t PipelineState::fingerprint(const std::vector<const Notes*>& steps, bool compact) {
  return fnv1a(text(steps), fnv1a_start + compact);
}
std::string PipelineState::explain(const std::vector<const Notes*>& steps, std::int64_t loop,
                                   std::int64_t waited) {
  std::string report;
  const Notes* slow = nullptr;
  char line[160];
  for (const Notes* step : steps) {
    report += io::escaped(step->text);
    if (!step->extra.empty()) report += (step->text.empty() ? "" : ", ") + step->extra;
    if (step->text == "skip_errors") {
      report += ": left out " + std::to_string(step->elements) + " elements";
    } else if (step->elements > 0) {
      const double each =
          static_cast<double>(step->nanoseconds) * 1e-3 / static_cast<double>(step->elements);
      std::snprintf(line, sizeof line, ": %lld elements, %.3g us each",
                    static_cast<long long>(step->elements), each);
      report += line;
      if (!slow || step->nanoseconds > slow->nanoseconds) slow = step;
    }
    report += "\n";
  }
  const double share = loop > 0 ? static_cast<double>(waited) / static_cast<double>(loop) : 0;
  std::snprintf(line, sizeof line, "the loop took %.3g s and waited %.3g %% of it\n",
                static_cast<double>(loop) * 1e-9, 100 * share);
  report += line;
  const bool ahead = steps.back()->extra.starts_with("prefetch");
  if (slow && share > 0.2) {
    report += "the slowest step is " + slow->text;
    if (slow->text.starts_with("map"))
      report += slow->extra.empty() ? ": give map() threads" : ": more threads may help";
    if (!ahead) report += "; prefetch() at the end would make elements during the steps";
    report += "\n";
  }
  return report;
}

bool PipelineState::same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const auto first = a.values<std::int64_t>(), second = b.values<std::int64_t>();
  return std::equal(first.begin(), first.end(), second.begin());
}
namespace {
constexpr std::uint64_t low48 = (std::uint64_t{1} << 48) - 1;
}
/// Two words have 16 bits of the fingerprint each: one with the epoch, one with the skip.
Tensor PipelineState::pack(std::uint64_t fingerprint, std::int64_t epoch, const Point& point) {
  const auto word = [](std::uint64_t mark, std::int64_t number) {
    return static_cast<std::int64_t>(mark << 48 | (static_cast<std::uint64_t>(number) & low48));
  };
  std::vector<std::int64_t> words = {word(fingerprint & 0xffff, epoch),
                                     word(fingerprint >> 16 & 0xffff, point.skip)};
  words.insert(words.end(), point.words.begin(), point.words.end());
  const DeviceScope host(cpu());
  return tensor(words);
}
void PipelineState::unpack(const Tensor& state, const std::vector<const Notes*>& steps,
                           bool compact, std::int64_t& epoch, Point& point) {
  const std::uint64_t own = fingerprint(steps, compact);
  const bool kind = state.dtype() == DType::int64 && state.rank() == 1 && state.size() >= 2;
  std::vector<std::int64_t> words(2);
  if (kind) {
    const auto values = state.values<std::int64_t>();
    words.assign(values.begin(), values.end());
  }
  const auto first = static_cast<std::uint64_t>(words[0]),
             second = static_cast<std::uint64_t>(words[1]);
  if (!kind || first >> 48 != (own & 0xffff) || second >> 48 != (own >> 16 & 0xffff))
    fail<Error>(steps.back()->caller, "Pipeline", "state", "a state of " + text(steps),
                "the state of another pipeline",
                "Steps, their sizes and their seeds must be those of the pipeline that was saved; "
                "threads may differ.");
  for (std::size_t i = 2; i < words.size(); ++i)
    if (words[i] < 0)
      fail<Error>(steps.back()->caller, "Pipeline", "state", "positions of at least 0",
                  std::to_string(words[i]), "The saved state is damaged.");
  epoch = static_cast<std::int64_t>(first & low48);
  point = {{words.begin() + 2, words.end()}, static_cast<std::int64_t>(second & low48)};
}
}  // namespace reel::data::detail
