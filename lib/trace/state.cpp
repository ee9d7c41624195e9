// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/state.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "lib/flow/context.hpp"
#include "lib/trace/words.hpp"

namespace reel::tracing {
namespace {
/// How many bytes of the function object are searched for pointers, and how many pointers are
/// followed.
constexpr std::size_t most_leads = 4096, most_regions = 1024;
/// How many bytes are watched where no malloc() puts other objects behind an object.
constexpr std::size_t most_near = 256;

bool may_be_address(std::uint64_t value) {
  return value >= page && !(value >> 56);  // the highest byte of an address is zero
}
bool is_mapped(std::uint64_t value) {
  std::byte there;
  return may_be_address(value) && read_memory(value, &there, 1);
}
/// Whether a word holds a pointer. A small number next to the upper half of an old address may be a
/// mapped address, but it is rarely aligned.
bool is_pointer(std::uint64_t value) { return value % word == 0 && is_mapped(value); }
/// Whether a word of this block is a pointer, or one to a block nearby as malloc() hides it in free
/// blocks.
bool is_link(std::uint64_t value, std::uintptr_t block) {
  return is_pointer(value) || value >> 36 == block >> 36;
}
}  // namespace

bool is_tensor(std::uintptr_t at) {
  alignas(Body) std::byte bytes[sizeof(Body)];
  if (at % block_unit || !read_memory(at, bytes, sizeof bytes)) return false;
  const Body& x = *reinterpret_cast<const Body*>(bytes);
  if (!x.references || !x.block_class || x.shape.rank() > Shape::max_rank) return false;
  std::uint64_t elements = 1;
  for (const std::int64_t length : x.shape) elements *= static_cast<std::uint64_t>(length);
  return elements == static_cast<std::uint64_t>(x.elements);
}

void StateWatch::add(const void* first, std::size_t bytes) {
  if (bytes) regions_.push_back({reinterpret_cast<std::uintptr_t>(first), bytes, 0, -1, 0});
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
bool StateWatch::excluded(std::uintptr_t at) const {
  auto range = std::upper_bound(excluded_.begin(), excluded_.end(), at,
                                [](std::uintptr_t a, const Range& b) { return a < b.first; });
  return range != excluded_.begin() && at < (--range)->end;
}

void StateWatch::begin(std::uintptr_t object, bool follows) {
  object_ = object;
  merge_excluded();
  read(0);
  for (int level = 0; follows && level < 2; ++level) follow(level);
}

/// Where the system refuses to read memory, only the function object is watched.
void StateWatch::read_pieces() {
  read_memory(pieces_);
  if (pieces_.empty() || pieces_[0].read || pieces_[0].from != regions_[0].at) return;
  std::memcpy(pieces_[0].to, reinterpret_cast<const void*>(pieces_[0].from), pieces_[0].bytes);
  pieces_[0].read = pieces_[0].bytes;
}

/// Copies the regions from this one on, and shortens those that cannot be read as a whole.
void StateWatch::read(std::size_t first_region) {
  pieces_.clear();
  std::size_t end = copies_.size();
  for (std::size_t i = first_region; i < regions_.size(); ++i) {
    regions_[i].copy = end;
    end += regions_[i].bytes;
  }
  copies_.resize(end);
  for (std::size_t i = first_region; i < regions_.size(); ++i)
    pieces_.push_back({regions_[i].at, copies_.data() + regions_[i].copy, regions_[i].bytes});
  read_pieces();
  for (std::size_t i = first_region; i < regions_.size(); ++i)
    regions_[i].bytes = pieces_[i - first_region].read;
}

std::uint64_t StateWatch::word_at(const Region& region, std::size_t offset) const {
  std::uint64_t value = 0;
  std::memcpy(&value, copies_.data() + region.copy + offset, std::min(word, region.bytes - offset));
  return value;
}

/// Adds the memory behind the pointers of this level: of the function object and of its fields, or
/// of the first words of what they lead to.
void StateWatch::follow(int level) {
  const std::size_t end = regions_.size();
  for (std::size_t i = 0; i < end; ++i) {
    const Region region = regions_[i];
    if (region.level != level) continue;
    // Farther, only the first word leads on: behind it, a window may be longer than its object, and
    // objects may have unused words, which hold old pointers.
    if (level && (region.at % word || region.bytes <= word)) continue;
    const std::size_t leads = std::min(level ? word : most_leads, region.bytes);
    for (std::size_t k = (word - region.at % word) % word; k + word <= leads; k += word) {
      const std::uintptr_t at = word_at(region, k);
      if (!may_be_address(at) || excluded(region.at + k) || is_unused_stack(at, object_) ||
          regions_.size() >= most_regions)
        continue;
      const auto known = [&](const Region& other) { return other.at == at && other.level; };
      if (std::any_of(regions_.begin(), regions_.end(), known)) continue;
      const Mapped where = mapped(at, most_near);
      if (where == Mapped::constant) continue;
      const bool near = where == Mapped::always || where == Mapped::stack;
      if (!near && is_tensor(at)) continue;
      const std::size_t bytes = near && !level ? most_near : certain_bytes(at, where, window_bytes);
      // Unused memory behind a pointer holds old words, which rarely lead to the start of an
      // object.
      if (bytes <= (level ? word : 0)) continue;
      regions_.push_back({at, bytes, 0, static_cast<int>(i), k, level + 1});
    }
  }
  read(end);
  const auto unread = [](const Region& region) { return !region.bytes; };
  regions_.erase(
      std::remove_if(regions_.begin() + static_cast<std::ptrdiff_t>(end), regions_.end(), unread),
      regions_.end());
}

std::optional<RunChange> StateWatch::change() {
  now_.resize(copies_.size());
  pieces_.clear();
  for (const Region& region : regions_)
    pieces_.push_back({region.at, now_.data() + region.copy, region.bytes});
  merge_excluded();
  read_pieces();
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    const std::byte *const before = copies_.data() + region.copy, *const now =
                                                                      now_.data() + region.copy;
    // What a tensor or a Variable leads to is handled by the trace.
    const bool by_known =
        region.level &&
        excluded(regions_[static_cast<std::size_t>(region.from)].at + region.offset);
    if (by_known || !std::memcmp(before, now, pieces_[i].read)) continue;
    for (std::size_t k = 0; k < pieces_[i].read; k += word) {
      RunChange change{region.at + k, 0, 0, i, k, region.level > 0};
      for (std::size_t b = 0; b < std::min(word, pieces_[i].read - k); ++b) {
        if (excluded(region.at + k + b)) continue;
        std::memcpy(reinterpret_cast<std::byte*>(&change.before) + b, before + k + b, 1);
        std::memcpy(reinterpret_cast<std::byte*>(&change.now) + b, now + k + b, 1);
      }
      if (change.before == change.now) continue;
      // Far from the function object, only numbers count: lists there may grow and shrink.
      if (region.level < 2 ||
          !(is_link(change.before, region.at) || is_link(change.now, region.at)))
        return change;
    }
  }
  return {};
}

/// "what its captured pointer or reference number 2 leads to (8 bytes in)"
std::string StateWatch::in_words(const RunChange& change) const {
  const std::string text = is_pointer(change.before) && is_pointer(change.now)
                               ? " points to something else now"
                               : ' ' + change_text(change.before, change.now);
  const std::string place = " (" + std::to_string(change.offset) + " bytes in)";
  const Region* led = &regions_[change.region];
  if (!led->level) return "a value that it holds" + place + text;
  while (led->level > 1) led = &regions_[static_cast<std::size_t>(led->from)];
  const Region& object = regions_[static_cast<std::size_t>(led->from)];
  int number = 0;
  for (std::size_t i = led->offset % word; i <= led->offset; i += word)
    number += is_mapped(word_at(object, i));
  return "what its captured pointer or reference number " + std::to_string(number) + " leads to" +
         place + text;
}

std::string StateWatch::in_bytes(const RunChange& change) const {
  std::string path = "byte " + std::to_string(change.offset);
  for (const Region* at = &regions_[change.region]; at->from >= 0;) {
    path += " behind the pointer at byte " + std::to_string(at->offset);
    at = &regions_[static_cast<std::size_t>(at->from)];
  }
  char values[64];
  std::snprintf(values, sizeof values, "%#llx, now %#llx",
                static_cast<unsigned long long>(change.before),
                static_cast<unsigned long long>(change.now));
  return path + " of the function object: before " + values;
}

void StateWatch::clear() {
  excluded_.clear();
  regions_.clear();
  copies_.clear();
}
}  // namespace reel::tracing
