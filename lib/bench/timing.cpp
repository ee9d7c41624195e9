// SPDX-License-Identifier: BSD-3-Clause
// Timing calls of a thread: spans that are open, passes of a replay, the timeline.
#include <algorithm>
#include <new>
#include <utility>

#include "lib/bench/counts.hpp"
#include "lib/pool/process.hpp"

namespace reel::detail {
void Recorder::drop_passes() {
  depth_ = first_pass_;
  pass_ = first_pass_ = 0;
}

inline Recorder::Open& Recorder::push(SpanPlace& place) {
  if (pass_) [[unlikely]]
    drop_passes();
  // Ops that have thrown stay open.
  if (depth_ == most_open) [[unlikely]]
    depth_ = 0;
  return open_[depth_++] = {0, 0, &place, 0};
}

/// A kernel that directly follows another one has the time between them: a clock takes about as
/// long as a small kernel.
[[gnu::noinline]] void Recorder::begin_timed(SpanPlace& place, const GateCall& call) {
  if (counted_) begin_counted();
  Open& open = push(place);
  open.read = bytes_read(call);
  open.begin = call.follows && last_end_ ? last_end_ : ticks_now();
}
/// The call that was not to be timed has calls inside.
void Recorder::begin_counted() {
  SpanPlace& place = *std::exchange(counted_, nullptr);
  place.untimed = place.brief = 0;
  push(place).begin = ticks_now();
}
void Recorder::pop(const GateCall& call) {
  const Ticks now = ticks_now();
  const Bytes bytes = bytes_of(call);
  if (bytes.large) [[unlikely]]
    name_blocks(call);
  if (depth_ && !pass_ && is_call(*open_[depth_ - 1].place, call)) [[likely]] {
    Open& open = open_[--depth_];
    add(open, now, bytes.moved, bytes.made, depth_);
    learn(open, now - open.begin, bytes.moved, bytes.made);
  } else {
    pop_call(call, now, bytes.moved, bytes.made);
  }
  last_end_ = now;
}
/// A call that is not the last that has begun, or is a pass.
void Recorder::pop_call(const GateCall& call, Ticks now, std::int64_t moved, std::int64_t made) {
  if (pass_) {
    if (is_call(*open_[pass_].place, call)) {
      const Open& open = open_[pass_];
      add(open, open.begin + pass_ticks_, moved, made, first_pass_);
      if (++pass_ == depth_) drop_passes();
      return;
    }
    drop_passes();
  }
  for (std::size_t i = depth_; i-- > 0;) {
    if (!is_call(*open_[i].place, call)) continue;
    if (i + 1 < depth_) return pop_inner(i, now, moved, made);
    add(open_[i], now, moved, made, i);
    --depth_;
    return;
  }
}

void Recorder::pop_inner(std::size_t at, Ticks now, std::int64_t moved, std::int64_t made) {
  const Ticks all = now - open_[at].begin;
  // Where an error was thrown, the ops inside have perhaps not ended, and the time is this op's.
  const std::size_t passes = std::exchange(thrown_, false) ? 1 : depth_ - at;
  pass_ticks_ = passes == 1 ? 0 : all / passes;
  for (std::size_t i = at + 1; i < depth_; ++i)
    open_[i].begin = passes == 1 ? now : open_[at].begin + pass_ticks_ * (i - at);
  add(open_[at], passes == 1 ? now : open_[at].begin + pass_ticks_, moved, made, at);
  first_pass_ = at;
  pass_ = at + 1;
}

void Recorder::backward_begins(const Body&) {
  if (!backward_) backward_ = find_place({nullptr, Part::value, nullptr, 0});
  if (backward_) push(*backward_).begin = ticks_now();
}
void Recorder::backward_ends(bool) {
  const Ticks now = ticks_now();
  counted_ = nullptr;
  if (pass_) drop_passes();
  while (depth_ && open_[depth_ - 1].place->key.op) --depth_;
  if (!depth_) return;
  --depth_;
  add(open_[depth_], now, 0, 0, depth_);
  last_end_ = 0;
}

inline void Recorder::add(const Open& open, Ticks end, std::int64_t moved, std::int64_t made,
                          std::size_t outer) {
  const Ticks took = end - open.begin;
  if (outer > 0) open_[outer - 1].inside += took;
  SpanSums& sums = open.place->sums;
  add_to(sums.calls, std::int64_t{1});
  add_to(sums.moved, moved);
  add_to(sums.made, made);
  add_to(sums.total, took);
  if (open.inside) add_to(sums.inside, std::min(open.inside, took));
  if (context_.live_bytes > count_above_) [[unlikely]]
    count_live();
  if (last_->count == last_->size && !make_room()) [[unlikely]]
    return;
  last_->spans[last_->count] = {open.begin, end, open.place, moved, made, context_.live_bytes};
  __atomic_store_n(&last_->count, last_->count + 1, __ATOMIC_RELEASE);
}

/// False if the timeline is full.
bool Recorder::make_room() try {
  if (log_->chunks.size() < SpanLog::most_chunks) {
    auto more = std::make_unique<SpanLog::Chunk>(SpanLog::chunk_spans);
    const Locked held(Lock::profiles);
    last_ = log_->chunks.emplace_back(std::move(more)).get();
    return true;
  }
  return false;
} catch (const std::bad_alloc&) {
  return false;
}
}  // namespace reel::detail
