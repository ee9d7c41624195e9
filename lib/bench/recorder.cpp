// SPDX-License-Identifier: BSD-3-Clause
// Counting the calls of a thread. Some are timed too: timing.cpp.
#include <algorithm>
#include <new>
#include <utility>

#include "lib/bench/counts.hpp"
#include "lib/pool/process.hpp"
#include "lib/table/backend.hpp"

namespace reel::detail {
namespace {
constinit SpanPlace nowhere{{nullptr, Part::value, nullptr, ~0u}};
constexpr Ticks brief = 1000;              // about 0.4 us; reading the clock takes 0.01 to 0.03
constexpr std::int64_t most_moved = 8000;  // less than a large block has
// After 8 timed calls that were short, one call of 16 is timed; after 8 more, one of 128, then 512.
constexpr int enough_brief = 8, untimed[] = {15, 127, 511};
Ticks clock_ticks() {
  Ticks least = 1000;
  for (int i = 0; i < 20; ++i) {
    const Ticks begin = ticks_now();
    least = std::min(least, ticks_now() - begin);
  }
  return least;
}
}  // namespace

Recorder::Recorder(ProfileSession& session, Context& context, int number)
    : session_(session),
      context_(context),
      live_before_(context.live_bytes),
      number_(number),
      clock_(clock_ticks()),
      count_above_(live_before_) {
  only_looks = only_times = true;
  std::fill(std::begin(recent_), std::end(recent_), &nowhere);
  log_->chunks.reserve(SpanLog::most_chunks);
  log_->chunks.push_back(std::make_unique<SpanLog::Chunk>(1024));
  last_ = log_->chunks.back().get();
}

inline SpanPlace*& Recorder::recent(const Op* op, Part part, unsigned line) {
  return recent_[(reinterpret_cast<std::uintptr_t>(op) / 64 + 31 * line +
                  64 * static_cast<std::uintptr_t>(part)) %
                 std::size(recent_)];
}
/// Null without memory.
[[gnu::noinline]] SpanPlace* Recorder::find_place(const SpanKey& key) try {
  SpanPlace*& place = places_[key];
  if (!place) {
    const Locked held(Lock::profiles);
    place = &log_->places.emplace_back(SpanPlace{key});
  }
  return recent(key.op, key.part, key.line) = place;
} catch (const std::bad_alloc&) {
  ++lost_;
  return nullptr;
}

// A profile pays for each instruction of this one and of call_ends().
void Recorder::call_begins(const GateCall& call) {
  SpanPlace& place = *recent(&call.op, call.part, call.caller.line);
  if (!is_call(place, call) || place.key.line != call.caller.line ||
      place.key.file != call.caller.file) [[unlikely]]
    return begin_elsewhere(call);
  if (place.untimed <= 0 || place.read != bytes_read(call) || call.is_replayed() || counted_)
    return begin_timed(place, call);
  --place.untimed;
  counted_ = &place;
}
/// A call that is not the latest of its hash.
[[gnu::noinline]] void Recorder::begin_elsewhere(const GateCall& call) {
  if (find_place({&call.op, call.part, call.caller.file, call.caller.line})) call_begins(call);
}
void Recorder::learn(const Open& open, Ticks took, std::int64_t moved, std::int64_t made) {
  SpanPlace& place = *open.place;
  const Ticks alone = took - std::min(took, clock_);
  // Without inputs, a call may be of any size.
  const bool is_brief = took <= brief && !open.inside && moved < most_moved && open.read > 0;
  const bool alike = place.read == open.read && place.moved == moved;
  if (!alike && place.brief > 0) {  // a call of another size now and then changes nothing
    if (place.alike - place.alike_before < enough_brief) --place.brief;
    place.alike_before = place.alike;
    return;
  }
  if (place.alike) add_alike(place);
  if (!is_brief || !alike) {
    place.read = open.read;
    store(place.moved, moved);
    store(place.made, made);
    store(place.typical, alone);
    place.brief = is_brief;
    place.untimed = 0;
    return;
  }
  // A call that was interrupted changes little.
  store(place.typical, (3 * place.typical + std::min(alone, 2 * place.typical)) / 4);
  store(place.made, made);
  place.brief = std::min(place.brief + 1, 4 * enough_brief - 1);
  if (place.brief >= enough_brief) place.untimed = untimed[place.brief / enough_brief - 1];
}

void Recorder::call_ends(const GateCall& call) {
  if (!counted_ || !is_call(*counted_, call)) return pop(call);
  SpanPlace& place = *std::exchange(counted_, nullptr);
  if (depth_) open_[depth_ - 1].inside += place.typical;
  last_end_ = 0;
  const Body* const output = call.output_count == 1 ? call.outputs[0] : nullptr;
  if (!output) [[unlikely]]
    return count_unlike(place, call);
  const std::int64_t bytes = bytes_in(*output);
  if (place.read + bytes != place.moved || place.made != (is_made(call, *output) ? bytes : 0))
      [[unlikely]]
    return count_unlike(place, call);
  __atomic_store_n(&place.alike, place.alike + 1, __ATOMIC_RELEASE);
  if (context_.live_bytes > count_above_) [[unlikely]]
    count_live();
}
/// A call that is not timed and has other results than the timed one before.
[[gnu::noinline]] void Recorder::count_unlike(SpanPlace& place, const GateCall& call) {
  const Bytes bytes = bytes_of(call);
  add_to(place.sums.calls, std::int64_t{1});
  add_to(place.sums.total, place.typical);
  add_to(place.sums.moved, bytes.moved);
  add_to(place.sums.made, bytes.made);
  if (bytes.moved != place.moved) place.untimed = place.brief = 0;
  if (context_.live_bytes > count_above_) [[unlikely]]
    count_live();
}
/// Before a place gets other bytes or another time. The end of a profile sees all of it or nothing.
[[gnu::noinline]] void Recorder::add_alike(SpanPlace& place) {
  const Locked held(Lock::profiles);
  add_sums(place.sums, alike_of(place));
  store(place.alike, place.alike_before = 0);
}

void Recorder::name_blocks(const GateCall& call) {
  const Locked held(Lock::profiles);
  for (int i = 0; i < call.output_count; ++i)
    if (const Body* const made = call.outputs[i]; made && made->large_class)
      session_.blocks_.name(made->data, {&call.op, call.part, call.caller.file, call.caller.line});
}
void Recorder::count_live() {
  count_above_ = context_.live_bytes + context_.live_bytes / 1024;
  const std::int64_t bytes = live_tensors().live_bytes;
  const Locked held(Lock::profiles);
  session_.blocks_.count(bytes, ticks_now());
}

void Recorder::kernel_begins(const DeviceCall& call) try {
  session_.see(call.device);
  kernel_begin_ = std::make_unique<Event>(call.device);
  launched_ = ticks_now();
} catch (...) {
  kernel_begin_.reset();
}
void Recorder::kernel_ends(const DeviceCall& call) try {
  if (!kernel_begin_) return;
  Event end(call.device);
  const Locked held(Lock::profiles);
  kernels_.push_back(
      {launched_, &call.op, call.caller, call.part, std::move(*kernel_begin_), std::move(end)});
} catch (...) {
  ++lost_;
}
}  // namespace reel::detail
