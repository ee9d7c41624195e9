// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/state.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>

#include "lib/body/live.hpp"
#include "lib/flow/context.hpp"
#include "lib/trace/words.hpp"

namespace reel::tracing {
namespace {
/// How many bytes of an object are read. The first limit is for the stack, where the end of an
/// object is unknown. The second limit is for other memory.
constexpr std::size_t most_stack_bytes = 8192, most_bytes = std::size_t{256} << 10;
/// How many bytes of an object are searched for pointers: for an object that the function points
/// to, for other objects, and for objects on the stack.
constexpr std::size_t most_leads = 4096, most_inner_leads = 512, most_stack_leads = 512;
/// On the stack, bytes at a greater distance from a captured object may belong to another object.
/// Fewer pointers are followed there.
constexpr std::size_t surely_captured = 64, most_beside_leads = 64;
constexpr int most_levels = 8, most_beside_levels = 3;
// up to this number of pointers away, an address may be inside of an object
constexpr int most_levels_inside = 2;
constexpr std::size_t most_doubtful_of_region = 8;
constexpr std::size_t most_regions = 1024, most_copied = std::size_t{4} << 20;
constexpr std::uintptr_t end_of_addresses = std::uintptr_t{1} << 47;

/// Whether a tensor is at this address. The trace itself handles the tensors that matter, and other
/// tensors do not change. A small object may have taken the first part of a freed tensor's block.
bool is_tensor(Memory& memory, std::uintptr_t at) {
  alignas(Body) std::byte copy[sizeof(Body)];
  if (at % block_unit || !memory.read(at, copy, sizeof copy)) return false;
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(copy[i]); };
  const unsigned device = byte(offsetof(Body, device_kind)) & ~unsigned{live_number};
  if (byte(offsetof(Body, dtype)) >= 16 || byte(offsetof(Body, contiguous)) > 1 ||
      device >= device_kinds)
    return false;
  const Body& body = *std::launder(reinterpret_cast<const Body*>(copy));
  if (!body.references || body.shape.rank() > Shape::max_rank) return false;
  std::int64_t elements = 1;
  for (const std::int64_t length : body.shape)
    if (length < 0 || __builtin_mul_overflow(elements, length, &elements)) return false;
  const bool has_elements = body.owner || body.large_class ||
                            reinterpret_cast<std::uintptr_t>(body.data) == at + body_bytes;
  if (elements != body.elements || !has_elements || body.block_class < body_bytes / block_unit ||
      body.block_class >= small_classes)
    return false;
  const std::size_t bytes = heap_bytes(memory, at);
  return !bytes || bytes >= body.block_class * block_unit;
}

/// Whether a text of `length` characters, none of them zero, and a zero behind it are at this
/// address. Longer texts are not found.
bool is_text(Memory& memory, std::uintptr_t at, std::size_t length) {
  char text[512];
  return length < sizeof text && memory.read(at, text, length + 1) &&
         strnlen(text, length + 1) == length;
}

bool is_mapped(Memory& memory, std::uintptr_t at) {
  std::byte there;
  return at >= page && at < end_of_addresses && memory.read(at, &there, 1);
}

/// The size of the object at this address; 0 if it is unknown.
std::size_t size_behind(Memory& memory, std::uintptr_t at, int level) {
  if (const std::uintptr_t end = stack_end(at))
    return std::min<std::size_t>(end - at, level == 1   ? most_stack_bytes
                                           : level == 2 ? most_stack_leads
                                                        : unknown_bytes);
  if (const std::size_t bytes = heap_bytes(memory, at)) return std::min(bytes, most_bytes);
  const std::size_t shared =
      heap_bytes(memory, at - 2 * word);  // make_shared() stores two counts first
  if (shared) return std::min(shared - 2 * word, most_bytes);
  if (level <= most_levels_inside && memory.is_static(at)) return unknown_bytes;
  return level <= most_levels_inside ? bytes_inside(memory, at) : 0;
}
}  // namespace

void StateWatch::add(const void* first, std::size_t bytes) {
  if (bytes)
    regions_.push_back({reinterpret_cast<std::uintptr_t>(first), bytes, 0, bytes, 0, -1, 0});
}
void StateWatch::exclude(const void* first, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(first);
  excluded_.push_back({at, at + bytes});
}
void StateWatch::exclude(const Body& body) {
  exclude(&body, body.block_class * block_unit);
  if (body.large_class && body.large_class < borrowed_class)
    exclude(body.data, static_cast<std::size_t>(body.bytes()));
}
void StateWatch::exclude(const Variable& variable) {
  exclude(&Access::cell(variable), sizeof(Cell));
}

void StateWatch::begin() {
  exclude_free_blocks();
  merge_excluded();
  Memory memory;
  std::pmr::vector<Region> known{&own_};
  std::swap(known, regions_);
  for (const Region& region : known) copy(memory, region);
  for (std::size_t i = 0;
       i < regions_.size() && regions_.size() < most_regions && copies_.size() < most_copied; ++i)
    follow(memory, i);
}

/// Excludes free blocks of tensors, which tensors will use again. A stale pointer may lead to one.
void StateWatch::exclude_free_blocks() {
  for (const FreeList& list : Context::here().blocks)
    for (FreeBlock* block = list.first; block; block = block->next)
      exclude(block, malloc_usable_size(block));
}

/// A std::deque has a table of its blocks, and two iterators: of its first element, and of the end.
/// An iterator has its position, the first element of a block, the end of the block, and the place
/// of the block in the table. The rest of the table and of the last block may hold old pointers.
struct StateWatch::DequeWords {
  struct Iterator {
    std::uintptr_t position, first, end, place;
  };
  std::uintptr_t table, length;
  Iterator begin, end;

  std::uintptr_t block_bytes() const { return begin.end - begin.first; }
  /// Whether these words are those of a deque.
  bool fit(Memory& memory) const {
    const auto fits = [&](const Iterator& i) {
      std::uintptr_t block = 0;
      return i.first <= i.position && i.position <= i.end && i.place % word == 0 &&
             memory.read(i.place, &block, word) && block == i.first;
    };
    const std::uintptr_t bytes = block_bytes();
    return length && length <= most_bytes / word && begin.place >= table &&
           end.place >= begin.place && end.place - table < length * word && bytes &&
           bytes <= most_bytes && bytes == end.end - end.first && fits(begin) && fits(end);
  }
};
/// Leads to the elements in the first blocks of a deque: as many blocks as pointers are followed in
/// other objects. Returns false if the words are those of another object. Only the first block is
/// asked whether it is in use: the unused start of the table may look like that of a free block.
bool StateWatch::lead_to_deque(Memory& memory, const DequeWords& deque, std::size_t from,
                               std::size_t offset) {
  const auto& [table, length, begin, end] = deque;
  const std::uintptr_t bytes = deque.block_bytes();
  if (!deque.fit(memory) || heap_bytes(memory, begin.first) < bytes) return false;
  const std::uintptr_t last_place = std::min(end.place, begin.place + most_inner_leads - word);
  for (std::uintptr_t place = begin.place, block = 0; place <= last_place; place += word)
    if (memory.read(place, &block, word) && block >= page && block < end_of_addresses) {
      const std::uintptr_t first = place == begin.place ? begin.position : block;
      const std::uintptr_t last = place == end.place ? end.position : block + bytes;
      if (first < last) lead_to(memory, first, {last - first, last - first}, from, offset, true);
    }
  return true;
}

void StateWatch::follow(Memory& memory, std::size_t number) {
  const Region region = regions_[number];
  const std::size_t first = (word - region.at % word) % word;
  const auto word_at = [&](std::size_t i) {
    std::uintptr_t value = 0;
    if (i + word <= region.bytes) std::memcpy(&value, copies_.data() + region.copy + i, word);
    return value;
  };
  const auto deque_at = [&](std::size_t i) {
    DequeWords words;
    std::memcpy(&words, copies_.data() + region.copy + i, sizeof words);
    return words;
  };
  for (std::size_t i = first; i + word <= std::min(region.bytes, region.leads); i += word) {
    const std::uintptr_t at = word_at(i), second = word_at(i + word), third = word_at(i + 2 * word);
    if (at < page || at >= end_of_addresses || excluded(region.at + i)) continue;
    const std::size_t bytes = heap_bytes(memory, at);
    if (i + sizeof(DequeWords) <= region.bytes && lead_to_deque(memory, deque_at(i), number, i)) {
      i += sizeof(DequeWords) - word;
      continue;
    }
    // A vector has three pointers: to its first element, to the end of its elements, to the end of
    // its memory. The three pointers of a map with one element are equal.
    const bool is_vector = at <= second && second <= third && third > at && third - at <= bytes;
    // A string has its address, its length and 16 bytes. These bytes are the text if it is short.
    // Else they begin with the capacity, 16 or more, and the text's block has one byte more, or as
    // few more as malloc() may add.
    const bool is_short = at == region.at + i + 2 * word;
    const bool is_long = second && second <= third && third < bytes && third >= 2 * word &&
                         bytes - third <= 4 * word;
    const std::size_t most = is_vector ? second - at : most_bytes;
    // The memory behind the text may hold old pointers.
    const std::size_t led = is_long && is_text(memory, at, second) ? second + 1 : most;
    if (most) lead_to(memory, at, {most, led}, number, i);
    if (is_vector) i += 2 * word;
    if (is_short || is_long) i += 3 * word;
  }
}

namespace {
bool holds_tensor(Memory& memory, std::uintptr_t at) {
  std::uintptr_t body = 0;
  return memory.read(at, &body, sizeof body) && is_tensor(memory, body);
}
bool is_variable(Memory& memory, std::uintptr_t at, std::size_t bytes) {
  return bytes == cell_block_bytes && holds_tensor(memory, at + word);
}
}  // namespace

std::size_t StateWatch::captured_bytes(Memory& memory, std::uintptr_t at, int level) const {
  if (at < page || at >= end_of_addresses || excluded(at)) return 0;
  if ((level > 1 && at % alignof(std::int32_t)) || is_tensor(memory, at)) return 0;
  const std::size_t bytes = size_behind(memory, at, level);
  return is_variable(memory, at, bytes) ? 0 : bytes;
}

void StateWatch::lead_to(Memory& memory, std::uintptr_t at, Most most, std::size_t from,
                         std::size_t offset, bool exact) {
  auto known = followed_.upper_bound(at);
  if (known != followed_.begin() && at < std::prev(known)->second) return;
  if (excluded(at) || is_tensor(memory, at)) return;
  const Region& leader = regions_[from];
  const int level = leader.level + 1;
  if (level > 1 && at % alignof(std::int32_t)) return;
  const bool beside = leader.beside || (stack_end(leader.at) && offset >= surely_captured);
  const std::size_t bytes =
      exact ? most.bytes : std::min(size_behind(memory, at, level), most.bytes);
  if (!bytes) return;
  std::size_t leads = beside          ? most_beside_leads
                      : stack_end(at) ? most_stack_leads
                      : level == 1    ? most_leads
                                      : most_inner_leads;
  leads = std::min({leads, bytes, most.leads});
  if (at % word || level == (beside ? most_beside_levels : most_levels)) leads = 0;
  // The last word of a Variable's block is not part of it, and may hold an old value.
  if (is_variable(memory, at, bytes)) leads = std::min(leads, bytes - word);
  copy(memory, {at, bytes, 0, leads, level, static_cast<int>(from), offset, beside, exact});
}

/// Copies page by page, because the page after an object may not be mapped.
void StateWatch::copy(Memory& memory, Region region) {
  region.copy = copies_.size();
  copies_.resize(region.copy + region.bytes);
  std::size_t done = 0;
  while (done < region.bytes) {
    const std::uintptr_t at = region.at + done;
    const std::size_t piece = std::min<std::size_t>(region.bytes - done, page - at % page);
    if (!memory.read(at, copies_.data() + region.copy + done, piece)) break;
    done += piece;
  }
  if (region.level > 1 && is_waiting_block(memory, region.at, copies_.data() + region.copy, done))
    done = 0;
  region.bytes = done;
  memory.read(region.at - word, &region.size_word, word);
  copies_.resize(region.copy + done);
  if (!done) return;
  regions_.push_back(region);
  std::uintptr_t& end = followed_[region.at];
  end = std::max(end, region.at + std::max<std::size_t>(std::min(region.leads, done), 1));
}

bool StateWatch::excluded(std::uintptr_t at) const {
  auto range = std::upper_bound(excluded_.begin(), excluded_.end(), at,
                                [](std::uintptr_t a, const Range& b) { return a < b.first; });
  return range != excluded_.begin() && at < (--range)->end;
}

/// Sorts the ranges and merges those that overlap or touch.
void StateWatch::merge_excluded() {
  std::sort(excluded_.begin(), excluded_.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  std::size_t last = 0;
  for (const Range& range : excluded_)
    if (last && range.first <= excluded_[last - 1].end)
      excluded_[last - 1].end = std::max(excluded_[last - 1].end, range.end);
    else
      excluded_[last++] = range;
  excluded_.resize(last);
}

std::string StateWatch::change() {
  exclude_free_blocks();
  merge_excluded();
  Memory memory;
  std::pmr::vector<std::byte>& now = now_;
  std::string found;
  // What a stale pointer led to may not be an object of malloc().
  const auto certain_bytes = [&](const Region& region) -> std::size_t {
    const auto block = region.level > 1 ? memory.block_around(region.at) : std::nullopt;
    if (!block) return region.bytes;
    const std::uintptr_t inside = region.at - block->first;
    // The lowest three bits of a size are flags. One of them is about the previous block.
    if (region.at >= block->end ||
        (region.level > most_levels_inside && inside > 2 * word && !region.exact) ||
        (!inside && (block->size_word ^ region.size_word) > 7))
      return 0;
    return std::min(region.bytes, block->end - region.at);
  };
  for (const Region& region : regions_) {
    now.resize(region.bytes);
    if (led_by_known(region) || !memory.read(region.at, now.data(), region.bytes)) continue;
    if (!std::memcmp(now.data(), copies_.data() + region.copy, region.bytes)) continue;
    if (was_freed(memory, region) ||
        (region.level > 1 && is_waiting_block(memory, region.at, now.data(), region.bytes)))
      continue;
    const std::size_t known = doubtful_.size();
    const std::string words = words_;
    std::string change = compare(memory, region, now.data());
    if (change.empty()) continue;
    // Visiting all blocks is slow, so this happens only if something has changed.
    if (const std::size_t bytes = certain_bytes(region); bytes < region.bytes) {
      doubtful_.resize(known);
      std::memcpy(now.data() + bytes, copies_.data() + region.copy + bytes, region.bytes - bytes);
      change = compare(memory, region, now.data());
    }
    if (change.empty()) continue;
    if (found.empty())
      found = std::move(change);
    else
      words_ = words;
    if (region.level <= 1) break;
  }
  return found;
}

/// Whether a changed word, two or more pointers away, is not part of the function's state. If the
/// word is a pointer that changed, usually a stale pointer led to memory that is used again. If
/// state changes, a number changes; or a vector or a deque grows, and is still one.
bool StateWatch::is_reused(Memory& memory, const Region& region, std::size_t start,
                           const std::byte* now) const {
  const std::byte* const before = copies_.data() + region.copy;
  const auto word_at = [&](const std::byte* bytes, std::size_t i) {
    std::uintptr_t value = 0;
    if (i + word <= region.bytes) std::memcpy(&value, bytes + i, word);
    return value;
  };
  // A small number next to the upper half of an old address may be a mapped address, but it is
  // rarely aligned.
  const auto is_address = [&](std::uintptr_t value) {
    return value % word == 0 && is_mapped(memory, value);
  };
  const std::uintptr_t old_value = word_at(before, start), value = word_at(now, start);
  if (!is_address(old_value) && !is_address(value)) return false;
  // A vector's end pointer is between its start and the end of its memory. All three change if it
  // moves to a larger block. All three are null if it has no block.
  const auto is_vector = [&](const std::byte* bytes, std::size_t i) {
    const std::uintptr_t first = word_at(bytes, i), end = word_at(bytes, i + 2 * word);
    return first <= word_at(bytes, i + word) && word_at(bytes, i + word) <= end &&
           is_address(first) && is_mapped(memory, end);
  };
  const auto has_no_block = [&](const std::byte* bytes, std::size_t i) {
    return !word_at(bytes, i) && !word_at(bytes, i + word) && !word_at(bytes, i + 2 * word);
  };
  const auto is_in_vector = [&](std::size_t i) {
    const bool was = is_vector(before, i);
    if (was && has_no_block(now, i)) return true;
    if (!is_vector(now, i) || !(was || has_no_block(before, i))) return false;
    const std::uintptr_t first = word_at(now, i), end = word_at(now, i + 2 * word);
    const bool stays = first == word_at(before, i) && end == word_at(before, i + 2 * word);
    return stays || (end > first && heap_bytes(memory, first) >= end - first);
  };
  const auto is_in_deque = [&] {
    DequeWords words;
    for (std::size_t i = 0; i < sizeof words && i <= start; i += word) {
      if (start - i + sizeof words > region.bytes) continue;
      std::memcpy(&words, now + start - i, sizeof words);
      if (words.fit(memory)) return true;
    }
    return false;
  };
  for (std::size_t i = 0; i <= 2 * word && i <= start; i += word)
    if (is_in_vector(start - i)) return false;
  return !is_in_deque();
}

/// Describes the first word that changed; empty if none did.
std::string StateWatch::compare(Memory& memory, const Region& region, const std::byte* now) {
  const std::byte* const before = copies_.data() + region.copy;
  const std::size_t most = doubtful_.size() + most_doubtful_of_region;
  std::string found;
  for (std::size_t i = 0; i < region.bytes && doubtful_.size() < most; ++i) {
    if (now[i] == before[i] || excluded(region.at + i)) continue;
    const std::size_t start = i - i % std::min(word, region.bytes);
    const std::size_t bytes = std::min(word, region.bytes - start);
    std::uint64_t value = 0;
    std::memcpy(&value, now + start, bytes);
    if (region.level > 1 && bytes == word && is_reused(memory, region, start, now)) {
      i = start + word - 1;
      continue;
    }
    if (found.empty()) found = describe(memory, region, start, value);
    if (region.level <= 1) {
      doubtful_.clear();
      return found;
    }
    doubtful_.push_back({region.at + start, bytes, value});
    i = start + word - 1;
  }
  return found;
}

/// Whether a tensor or a Variable leads to this region. The trace itself handles these.
bool StateWatch::led_by_known(const Region& region) const {
  return region.from >= 0 &&
         excluded(regions_[static_cast<std::size_t>(region.from)].at + region.offset);
}
/// Whether the region was freed, so that the pointer to it is stale. Code that frees an object that
/// it still uses also changes the pointer to it.
bool StateWatch::was_freed(Memory& memory, const Region& region) {
  return region.from >= 0 && !stack_end(region.at) && !memory.is_static(region.at) &&
         !bytes_inside(memory, region.at);
}

/// "what its captured pointer or reference number 2 leads to (8 bytes in)"
std::string StateWatch::name_in_words(Memory& memory, const Region& region,
                                      std::size_t offset) const {
  const std::string place = " (" + std::to_string(offset) + " bytes in)";
  if (region.from < 0) return "a value that it holds" + place;
  const Region* led = &region;
  while (regions_[static_cast<std::size_t>(led->from)].from >= 0)
    led = &regions_[static_cast<std::size_t>(led->from)];
  const Region& object = regions_[static_cast<std::size_t>(led->from)];
  int number = 0;
  for (std::size_t i = led->offset % word; i <= led->offset; i += word) {
    std::uintptr_t at = 0;
    std::memcpy(&at, copies_.data() + object.copy + i, word);
    number += is_mapped(memory, at);
  }
  const std::string far =
      region.level > 1 ? ", " + std::to_string(region.level) + " pointers away," : "";
  return "what its captured pointer or reference number " + std::to_string(number) + " leads to" +
         far + place;
}

std::string StateWatch::describe(Memory& memory, const Region& region, std::size_t offset,
                                 std::uint64_t now) {
  std::uint64_t before = 0;
  std::memcpy(&before, copies_.data() + region.copy + offset,
              std::min(word, region.bytes - offset));
  std::string path = "byte " + std::to_string(offset);
  for (const Region* at = &region; at->from >= 0;) {
    path += " behind the pointer at byte " + std::to_string(at->offset);
    at = &regions_[static_cast<std::size_t>(at->from)];
  }
  words_ = name_in_words(memory, region, offset) +
           (is_mapped(memory, before) && is_mapped(memory, now) ? " points to something else now"
                                                                : ' ' + change_text(before, now));
  char values[64];
  std::snprintf(values, sizeof values, "%#llx, now %#llx", static_cast<unsigned long long>(before),
                static_cast<unsigned long long>(now));
  return path + " of the function object: before " + values;
}

void StateWatch::clear() {
  words_.clear();
  doubtful_.clear();
  excluded_.clear();
  regions_.clear();
  followed_.clear();
  copies_.clear();
}
}  // namespace reel::tracing
