// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/captured.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/flow/context.hpp"
#include "lib/trace/state.hpp"
#include "lib/trace/words.hpp"

namespace reel::tracing {
namespace {
/// How many bytes of the function object are searched for pointers, and how many pointers count.
constexpr std::size_t most_leads = 256, most_windows = 16;
/// How often one word, and all words together, may change without a difference in the results.
constexpr int most_times = 8, most_changes = 32;

using Two [[gnu::vector_size(2 * word)]] = std::uint64_t;

/// Takes the bytes of the function object, and a hash of the bytes of its fields.
struct Listed : detail::StateList {
  const void* object = nullptr;
  std::size_t object_bytes = 0;
  std::uint64_t fields = 0;
  void add(const void* first, std::size_t bytes) override {
    if (!object) {
      object = first, object_bytes = bytes;
      return;
    }
    std::uint64_t hash = fields ^ bytes;
    for (std::size_t i = 0; i < bytes; i += word) {
      std::uint64_t value = 0;
      std::memcpy(&value, static_cast<const std::byte*>(first) + i, std::min(word, bytes - i));
      hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    fields = hash | 1;
  }
};
Listed list(const detail::TracedFunction& function) {
  Listed listed;
  function.list(function.object, listed);
  return listed;
}

/// Divides the bits into parts of `part` bits. Sets all bits of each part that has a bit set.
std::uint64_t whole(std::uint64_t bits, int part) {
  std::uint64_t found = 0;
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - part);
  for (int shift = 0; shift < 64; shift += part)
    if (bits >> shift & all) found |= all << shift;
  return found;
}
}  // namespace

CapturedWords::CapturedWords(const detail::TracedFunction& function, const StateWatch& known,
                             const std::vector<Ignored>& ignored, Compares compares)
    : function_(function), thread_(Context::here().thread) {
  const Listed listed = list(function);
  if (compares.fields) fields_ = listed.fields;
  if (!compares.pointers) return;
  std::vector<Window> own;
  int number = 0;
  for (std::size_t i = 0; i + word <= std::min(listed.object_bytes, most_leads); i += word) {
    std::uintptr_t at = 0;
    std::memcpy(&at, static_cast<const std::byte*>(listed.object) + i, word);
    if (at < page || at >> 56) continue;
    std::array<std::byte, window_bytes> content;
    Piece piece{at, content.data(), window_bytes};
    read_memory({&piece, 1});
    number += piece.read > 0;
    if (!piece.read && !read_memory(reinterpret_cast<std::uintptr_t>(&at), content.data(), word))
      unread_ = -1;
    const auto is_there = [&](const Named& other) { return other.at == at; };
    if (!piece.read || known.excluded(at) || std::any_of(named_.begin(), named_.end(), is_there) ||
        named_.size() == most_windows)
      continue;
    Mapped where = mapped(at, piece.read);
    if (where == Mapped::no) {  // the next page may be another kind of memory
      piece.read = std::min(piece.read, page - at % page);
      where = mapped(at, piece.read);
    }
    const bool near = where == Mapped::always || where == Mapped::stack;
    if (where == Mapped::constant || (!near && is_tensor(at))) continue;
    if (where == Mapped::no && !unread_) unread_ = number;
    if (where == Mapped::no) continue;
    // the object in a block of malloc() may be larger, as one behind `this`
    named_.push_back({at, i, number, where == Mapped::below_break ? 1u : 2u});
    add(at, content.data(), piece.read, certain_bytes(at, where, piece.read), known, ignored);
    if (where == Mapped::below_break) break_ = std::max(break_, at + piece.read);
    if (where != Mapped::stack) continue;
    own.push_back(windows_.back());
    windows_.pop_back();
  }
  shared_ = windows_.size();
  windows_.insert(windows_.end(), own.begin(), own.end());
}

void CapturedWords::add(std::uintptr_t at, const std::byte* content, std::size_t bytes,
                        std::size_t compared_bytes, const StateWatch& known,
                        const std::vector<Ignored>& ignored) {
  // If the memory ends with its page, the window ends there too. It begins at a multiple of a word.
  Window window{{}, {}, bytes < window_bytes ? at + bytes - window_bytes : at - at % word};
  bytes = std::min(compared_bytes, window.at + window_bytes - at);
  auto* const expected = reinterpret_cast<std::byte*>(window.expected.data());
  auto* const compared = reinterpret_cast<std::byte*>(window.compared.data());
  std::memcpy(expected + (at - window.at), content, bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    if (!known.excluded(at + i)) compared[at - window.at + i] = std::byte{0xff};
  for (const Ignored& changed : ignored)
    if (changed.often && changed.at - window.at < window_bytes)
      window.compared[(changed.at - window.at) / word] &= ~changed.any;
  windows_.push_back(window);
}

// Sanitizers are turned off here. Other threads may write next to the words that are compared. On
// the stack, a window may reach beyond the end of its object.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] const CapturedWords::Window*
CapturedWords::first_changed(std::uint64_t thread) const noexcept {
  struct [[gnu::packed, gnu::may_alias]] Unaligned {
    Two words;
  };
  const Window* const end = windows_.data() + (thread == thread_ ? windows_.size() : shared_);
  for (const Window* window = windows_.data(); window != end; ++window) {
    const auto* const now = reinterpret_cast<const Unaligned*>(window->at);
    const auto* const expected = reinterpret_cast<const Two*>(window->expected.data());
    const auto* const compared = reinterpret_cast<const Two*>(window->compared.data());
    Two any = {};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) any |= (now[i].words ^ expected[i]) & compared[i];
    if (any[0] | any[1]) [[unlikely]]
      return window;
  }
  return nullptr;
}

bool CapturedWords::is_unmapped() const noexcept {
  return break_ && reinterpret_cast<std::uintptr_t>(sbrk(0)) < break_;
}
bool CapturedWords::changed(std::uint64_t thread) const {
  return is_unmapped() || first_changed(thread) || (fields_ && list(function_).fields != fields_);
}

std::vector<ChangedWord> CapturedWords::changes() const {
  std::vector<ChangedWord> found;
  const Window* const window = is_unmapped() ? nullptr : first_changed(Context::here().thread);
  std::array<std::uint64_t, words> now;
  if (!window || !read_memory(window->at, now.data(), window_bytes)) return found;
  for (std::size_t i = 0; i < words; ++i)
    if ((now[i] ^ window->expected[i]) & window->compared[i])
      found.push_back({window->at + i * word, window->expected[i], now[i]});
  return found;
}

std::string CapturedWords::describe(const Ignored& word, const ChangedWord& change,
                                    std::size_t words) const {
  for (const Named& named : named_) {
    const std::uintptr_t byte = named.at - word.at;
    if (byte < tracing::word && word.all >> 8 * byte & 0xff && words <= named.words)
      return "what its captured pointer or reference number " + std::to_string(named.number) +
             " (byte " + std::to_string(named.offset) +
             " of the function object) leads to changes between calls: it " +
             change_text(change.before >> 8 * byte, change.now >> 8 * byte) +
             "; list it in reads(), or make it a Live number, a Variable or an argument";
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

bool CapturedWatch::tolerates_fields() const { return changes_ > most_changes; }

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
    if (word->times >= most_times && found.empty())
      found = now_.load(std::memory_order_relaxed)->describe(*word, change, changes.size());
  }
  return found;
}
}  // namespace reel::tracing
