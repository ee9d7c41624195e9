// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/captured.hpp"

#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lib/flow/context.hpp"
#include "lib/trace/state.hpp"
#include "lib/trace/words.hpp"

namespace reel::tracing {
namespace {
constexpr std::size_t most_object_bytes = 256, most_small = 32;
/// Limits in lines: for what the function object points to, at least for what is behind that, and
/// for all. One more line is allowed for this many steps.
constexpr std::size_t most_first = 8, least_behind = 6, most_lines = 16, steps_for_line = 16;
// in a trace of few steps, the largest distance that pointers are followed
constexpr std::size_t near = 48;
/// How often one word, and all words together, may change without a difference in the results.
constexpr int most_times = 8, most_changes = 32;

using Two [[gnu::vector_size(2 * word)]] = std::uint64_t;

/// Divides the bits into parts of `part` bits. Sets all bits of each part that has a bit set.
std::uint64_t whole(std::uint64_t bits, int part) {
  std::uint64_t found = 0;
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - part);
  for (int shift = 0; shift < 64; shift += part)
    if (bits >> shift & all) found |= all << shift;
  return found;
}
}  // namespace

/// Selects lines until there are enough. It begins with what the function object points to. Then it
/// takes what the pointers in those lines lead to, the nearest first. A line comes after the line
/// that holds the pointer to it. So it is read only while that pointer is unchanged.
struct CapturedWords::Selection {
  struct Target {
    std::uintptr_t at, end;
    std::size_t distance = 0;
    bool behind_stack = false;
  };
  CapturedWords& result;
  const StateWatch& known;
  const std::vector<Ignored>& ignored;
  Memory memory = {};
  // `shared` is readable by any thread; `own` is reached through this thread's stack
  std::vector<Line> shared = {}, own = {};
  std::vector<Target> taken = {}, targets = {}, rest_of_stack = {};

  std::size_t count() const { return shared.size() + own.size(); }
  Target target(std::uintptr_t at, std::size_t most, int level) {
    return {at, at + std::min(known.captured_bytes(memory, at, level), most)};
  }
  bool is_taken(const Target& x) const {
    return std::any_of(taken.begin(), taken.end(), [&](const Target& known) {
      return known.at <= x.at && std::min(x.end, x.at + line_bytes / 2) <= known.end;
    });
  }
  void take(Target x) {
    Line line{{}, {}, x.at - x.at % word};
    // If the object ends in this page, the line ends there too, because the next page may not be
    // mapped.
    const std::uintptr_t page_end = line.at - line.at % page + page;
    if (x.end <= page_end) line.at = std::min(line.at, page_end - line_bytes);
    const Mapped where = mapped(memory, line.at, line_bytes);
    if (where == Mapped::no || x.at == x.end || is_taken(x) ||
        !memory.read(line.at, line.expected.data(), line_bytes))
      return;
    const std::uintptr_t end = std::min(x.end, line.at + line_bytes);
    taken.push_back({x.at, end});
    std::byte compared[line_bytes] = {};
    std::memset(compared + (x.at - line.at), 0xff, end - x.at);
    std::memcpy(line.compared.data(), compared, line_bytes);
    for (std::size_t i = 0; i < words; ++i)
      for (const Ignored& changed : ignored)
        if (changed.at == line.at + i * word && changed.often) line.compared[i] &= ~changed.any;
    if (where == Mapped::below_break) result.break_ = std::max(result.break_, end);
    x.behind_stack |= where == Mapped::stack;
    follow(line, x);
    if (x.end > end)  // the end of an object on the stack is unknown
      (where == Mapped::stack || where == Mapped::main_stack ? rest_of_stack : targets)
          .push_back({end, x.end, x.distance + line_bytes, x.behind_stack});
    if (std::any_of(line.compared.begin(), line.compared.end(), [](auto bits) { return bits; }))
      (x.behind_stack ? own : shared).push_back(line);
  }
  void follow(const Line& line, const Target& from) {
    for (std::size_t i = 0; i < words; ++i) {
      if (~line.compared[i]) continue;
      const std::uintptr_t at = line.expected[i], next = i + 1 < words ? line.expected[i + 1] : 0;
      // A vector holds the end of its elements.
      Target found = target(at, next > at ? next - at : most_object_bytes, 2);
      found.distance = from.distance + (i + 1) * word;
      found.behind_stack = from.behind_stack;
      if (found.at < found.end) targets.push_back(found);
    }
  }
  void take_nearest(std::size_t most, std::size_t farthest) {
    while (!targets.empty() && count() < most) {
      const auto nearest = std::min_element(
          targets.begin(), targets.end(), [](auto& a, auto& b) { return a.distance < b.distance; });
      if (nearest->distance > farthest) return;
      const Target next = *nearest;
      targets.erase(nearest);
      take(next);
    }
  }
};

CapturedWords::CapturedWords(const void* object, std::size_t bytes, const StateWatch& known,
                             std::size_t steps, const std::vector<Ignored>& ignored)
    : thread_(Context::here().thread) {
  Selection selection{*this, known, ignored};
  std::vector<Selection::Target> first;
  int number = 0;
  for (std::size_t i = 0; i + word <= std::min(bytes, most_object_bytes); i += word) {
    std::uintptr_t at = 0;
    std::memcpy(&at, static_cast<const std::byte*>(object) + i, word);
    std::byte there;
    number += at >= page && selection.memory.read(at, &there, 1);
    const auto target = selection.target(at, most_object_bytes, 1);
    if (target.at == target.end) continue;
    first.push_back(target);
    if (stack_end(at) || target.end - at <= most_small || selection.memory.is_static(at))
      named_.push_back({at, i, number});
  }
  std::sort(first.begin(), first.end(), [](auto& a, auto& b) { return a.at < b.at; });
  for (const auto& target : first)
    if (selection.count() < most_first) selection.take(target);
  const std::size_t more = steps / steps_for_line, farthest = near + more * line_bytes;
  const std::size_t most = std::min(most_lines, selection.count() + std::max(least_behind, more));
  selection.take_nearest(most, farthest);
  selection.targets.swap(selection.rest_of_stack);
  selection.take_nearest(std::min(most, selection.count() + more), farthest);
  all_ = std::move(selection.shared);
  const std::size_t shared = all_.size();
  all_.insert(all_.end(), selection.own.begin(), selection.own.end());
  lines_ = all_.data();
  end_of_shared_ = lines_ + shared;
  end_ = lines_ + all_.size();
}

// Sanitizers are turned off here. Other threads may write next to the words that are compared. On
// the stack, a line may reach beyond the end of its object.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] const CapturedWords::Line*
CapturedWords::first_changed(const Line* line, const Line* end) noexcept {
  struct [[gnu::packed, gnu::may_alias]] Unaligned {
    Two words;
  };
  for (; line != end; ++line) {
    const auto* const now = reinterpret_cast<const Unaligned*>(line->at);
    const auto* const expected = reinterpret_cast<const Two*>(line->expected.data());
    const auto* const compared = reinterpret_cast<const Two*>(line->compared.data());
    Two any = {};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) any |= (now[i].words ^ expected[i]) & compared[i];
    if (any[0] | any[1]) [[unlikely]]
      return line;
  }
  return nullptr;
}

#if defined(__x86_64__)
[[gnu::target("avx2"), gnu::no_sanitize_address,
  gnu::no_sanitize_thread]] const CapturedWords::Line*
CapturedWords::first_changed_wide(const Line* line, const Line* end) noexcept {
  for (; line != end; ++line) {
    const auto* const now = reinterpret_cast<const __m256i*>(line->at);
    const auto* const expected = reinterpret_cast<const __m256i*>(line->expected.data());
    const auto* const compared = reinterpret_cast<const __m256i*>(line->compared.data());
    __m256i low = _mm256_xor_si256(_mm256_loadu_si256(now), expected[0]);
    __m256i high = _mm256_xor_si256(_mm256_loadu_si256(now + 1), expected[1]);
    low = _mm256_and_si256(low, compared[0]);
    high = _mm256_and_si256(high, compared[1]);
    const __m256i any = _mm256_or_si256(low, high);
    if (!_mm256_testz_si256(any, any)) [[unlikely]]
      return line;
  }
  return nullptr;
}
CapturedWords::Find CapturedWords::fastest() {
  return __builtin_cpu_supports("avx2") ? first_changed_wide : first_changed;
}
#else
CapturedWords::Find CapturedWords::fastest() { return first_changed; }
#endif

bool CapturedWords::is_unmapped() const noexcept {
  return break_ && reinterpret_cast<std::uintptr_t>(sbrk(0)) < break_;
}
bool CapturedWords::changed(std::uint64_t thread) const noexcept {
  return is_unmapped() || find_(lines_, thread == thread_ ? end_ : end_of_shared_);
}

std::vector<ChangedWord> CapturedWords::changes() const {
  const bool own = Context::here().thread == thread_;
  const Line* const line = is_unmapped() ? nullptr : find_(lines_, own ? end_ : end_of_shared_);
  std::vector<ChangedWord> found;
  std::array<std::uint64_t, words> now;
  if (!line || !read_memory(line->at, now.data(), line_bytes)) return found;
  for (std::size_t i = 0; i < words; ++i)
    if ((now[i] ^ line->expected[i]) & line->compared[i])
      found.push_back({line->at + i * word, line->expected[i], now[i]});
  return found;
}

std::string CapturedWords::name_of(const Ignored& changed) const {
  for (const Named& named : named_) {
    const std::uintptr_t byte = named.at - changed.at;
    if (byte < word && changed.all >> 8 * byte & 0xff)
      return "captured pointer or reference number " + std::to_string(named.number) + " (byte " +
             std::to_string(named.offset) + " of the function object)";
  }
  return {};
}

std::vector<ChangedWord> CapturedWatch::changes() const {
  const CapturedWords* const now = now_.load(std::memory_order_acquire);
  return now ? now->changes() : std::vector<ChangedWord>();
}

void CapturedWatch::set(std::unique_ptr<CapturedWords> words) {
  if (words->empty()) return now_.store(nullptr, std::memory_order_release);
  all_.push_back(std::move(words));
  now_.store(all_.back().get(), std::memory_order_release);
}

std::string CapturedWatch::tolerate(const std::vector<ChangedWord>& changes) {
  std::string found;
  ++changes_;
  for (const ChangedWord& change : changes) {
    auto word = std::find_if(ignored_.begin(), ignored_.end(),
                             [&](const auto& known) { return known.at == change.at; });
    if (word == ignored_.end())
      word = ignored_.insert(word, {change.at, 0, ~std::uint64_t{0}, 0, false});
    word->any |= whole(change.before ^ change.now, 32);
    word->all &= whole(change.before ^ change.now, 8);
    word->often |= ++word->times >= most_times || changes_ > most_changes;
    if (word->times < most_times || !found.empty()) continue;
    const std::string name = now_.load(std::memory_order_relaxed)->name_of(*word);
    if (name.empty()) continue;
    found = "what its " + name + " leads to changes between calls: it " +
            change_text(change.before, change.now) +
            "; make it a Live number, a Variable or an argument";
  }
  return found;
}
}  // namespace reel::tracing
