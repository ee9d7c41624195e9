// SPDX-License-Identifier: BSD-3-Clause
// Watching threads for a profile.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <utility>

#include <reel/error.hpp>
#include <reel/memory.hpp>

#include "lib/bench/profile.hpp"
#include "lib/pool/process.hpp"
#include "lib/table/backend.hpp"

namespace reel::detail {
namespace {
/// What a call has read and written.
struct Bytes {
  std::int64_t moved = 0;  // of inputs and results
  std::int64_t made = 0;   // of results that have memory of their own, not that of an input
  bool large = false;      // a result has a large block
};
constexpr auto bytes_each = [] {
  std::array<std::uint8_t, dtype_count> sizes{};
  for (int i = 0; i < dtype_count; ++i)
    sizes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(size_of(static_cast<DType>(i)));
  return sizes;
}();
inline std::int64_t bytes_in(const Body& x) {
  return x.elements * bytes_each[static_cast<std::size_t>(x.dtype)];
}
inline std::int64_t bytes_read(const GateCall& call) {
  std::int64_t bytes = 0;
  for (int i = 0, count = call.input_count; i < count; ++i)
    if (const Body* const input = call.inputs[i]) bytes += bytes_in(*input);
  return bytes;
}
/// The bytes of outputs behind the first one.
[[gnu::noinline]] void add_others(const GateCall& call, Bytes& bytes) {
  for (int i = 1; i < call.output_count; ++i) {
    const Body* const output = call.outputs[i];
    if (!output) continue;
    bool own = !output->owner && !(call.accumulates >> std::min(i, 30) & 1);
    for (int k = 0; own && k < call.input_count; ++k)
      own = !call.inputs[k] || call.inputs[k]->data != output->data;
    bytes.moved += bytes_in(*output);
    bytes.large |= output->large_class != 0;
    if (own) bytes.made += bytes_in(*output);
  }
}
[[gnu::always_inline]] inline Bytes bytes_of(const GateCall& call) {
  const Body* const first = call.output_count > 0 ? call.outputs[0] : nullptr;
  const void* const data = first ? first->data : nullptr;
  std::int64_t moved = 0;
  bool own = true;
  const Body* const* const inputs = call.inputs;
  for (int i = 0, count = call.input_count; i < count; ++i)
    if (const Body* const input = inputs[i]) {
      moved += bytes_in(*input);
      own &= input->data != data;
    }
  Bytes bytes{moved, 0, false};
  if (first) {
    bytes.moved += bytes_in(*first);
    bytes.large = first->large_class != 0;
    if (own && !first->owner && !(call.accumulates & 1)) bytes.made = bytes_in(*first);
  }
  if (call.output_count > 1) [[unlikely]]
    add_others(call, bytes);
  return bytes;
}
/// Whether an output has memory of its own.
inline bool is_made(const GateCall& call, const Body& output) {
  if (output.owner || call.accumulates & 1) return false;
  for (int i = 0, count = call.input_count; i < count; ++i)
    if (call.inputs[i] == &output) return false;
  return true;
}
/// A number that one thread writes and others read.
template <class T>
void store(T& number, T value) {
  __atomic_store_n(&number, value, __ATOMIC_RELAXED);
}
template <class T>
T load(const T& number) {
  return __atomic_load_n(&number, __ATOMIC_RELAXED);
}
template <class T>
void add_to(T& sum, T more) {
  store(sum, sum + more);
}
void add_sums(SpanSums& sums, const SpanSums& more) {
  add_to(sums.calls, load(more.calls));
  add_to(sums.moved, load(more.moved));
  add_to(sums.made, load(more.made));
  add_to(sums.total, load(more.total));
  add_to(sums.inside, load(more.inside));
}
/// The counted calls that the sums of a place lack. Behind Lock::profiles.
SpanSums alike_of(const SpanPlace& place) {
  const std::int64_t calls = __atomic_load_n(&place.alike, __ATOMIC_ACQUIRE);
  return {.calls = calls,
          .moved = calls * load(place.moved),
          .made = calls * load(place.made),
          .total = static_cast<Ticks>(calls) * load(place.typical)};
}
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
constinit ProfileSession* sessions = nullptr;  // behind Lock::profiles
}  // namespace

Moment Moment::now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return {ticks_now(), std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()};
}

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

void Recorder::drop_passes() {
  depth_ = first_pass_;
  pass_ = first_pass_ = 0;
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

inline Recorder::Open& Recorder::push(SpanPlace& place) {
  if (pass_) [[unlikely]]
    drop_passes();
  // Ops that have thrown stay open.
  if (depth_ == most_open) [[unlikely]]
    depth_ = 0;
  return open_[depth_++] = {0, 0, &place, 0};
}

// A profile pays for each instruction of this one and of call_ends().
void Recorder::call_begins(const GateCall& call) {
  SpanPlace& place = *recent(&call.op, call.part, call.site.line);
  if (!is_call(place, call) || place.key.line != call.site.line || place.key.file != call.site.file)
      [[unlikely]]
    return begin_elsewhere(call);
  if (place.untimed <= 0 || place.read != bytes_read(call) || call.is_replayed() || counted_)
    return begin_timed(place, call);
  --place.untimed;
  counted_ = &place;
}
/// A call that is not the latest of its hash.
[[gnu::noinline]] void Recorder::begin_elsewhere(const GateCall& call) {
  if (find_place({&call.op, call.part, call.site.file, call.site.line})) call_begins(call);
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

void Recorder::name_blocks(const GateCall& call) {
  const Locked held(Lock::profiles);
  for (int i = 0; i < call.output_count; ++i)
    if (const Body* const made = call.outputs[i]; made && made->large_class)
      session_.blocks_.name(made->data, {&call.op, call.part, call.site.file, call.site.line});
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
      {launched_, &call.op, call.site, call.part, std::move(*kernel_begin_), std::move(end)});
} catch (...) {
  ++lost_;
}

void ProfileSession::see(Device device) {
  const auto seen = [&] {
    return std::any_of(tracks_.begin(), tracks_.end(),
                       [&](const DeviceTrack& track) { return track.device == device; });
  };
  {
    const Locked held(Lock::profiles);
    if (seen()) return;
  }
  Event begin(device);
  begin.wait();
  const Ticks now = ticks_now();
  const Locked held(Lock::profiles);
  if (!seen()) tracks_.push_back({device, std::move(begin), now});
}

ProfileSession::ProfileSession()
    : process(getpid()),
      begin_(Moment::now()),
      live_before_(live_tensors().live_bytes),
      blocks_(live_before_) {}

SpanKey ProfileSession::maker(const Context& context) const {
  const Caller site = context.site;
  for (const Recorder* each : recorders_) {
    if (each->thread_ended_ || &each->context_ != &context || each->depth_ == 0) continue;
    const SpanKey& key = each->open_[each->depth_ - 1].place->key;
    const Caller line = key.file ? Caller{key.file, key.line} : site;
    return {key.op, key.part, line.file, line.line};
  }
  return {nullptr, Part::value, site.file, site.line};
}
void ProfileSession::block_taken(const void* block, std::int64_t bytes) noexcept try {
  const std::int64_t live = live_tensors().live_bytes;
  const Context& context = Context::here();
  const Locked held(Lock::profiles);
  for (ProfileSession* each = sessions; each; each = each->next_) {
    each->blocks_.take(block, bytes, each->maker(context));
    each->blocks_.count(live, ticks_now());
  }
} catch (const std::bad_alloc&) {  // the block is one without a line
}
void ProfileSession::block_given(const void* block, std::int64_t bytes) noexcept try {
  const Locked held(Lock::profiles);
  for (ProfileSession* each = sessions; each; each = each->next_) each->blocks_.give(block, bytes);
} catch (const std::bad_alloc&) {
}
namespace {
constexpr BlockWatch watching = {ProfileSession::block_taken, ProfileSession::block_given};
}

ProfileSession& ProfileSession::begin() {
  Context& context = Context::here();
  std::unique_ptr<ProfileSession> session(new ProfileSession);
  auto recorder = std::make_unique<Recorder>(*session, context, 0);
  session->recorders_.push_back(recorder.get());
  start_owned(*recorder.release(), sizeof(Recorder));
  const Locked held(Lock::profiles);
  session->next_ = sessions;
  __atomic_store_n(&block_watch, &watching, __ATOMIC_RELEASE);
  return *(sessions = session.release());
}

void ProfileSession::context_made(Context& context) noexcept {
  const Locked held(Lock::profiles);
  for (ProfileSession* each = sessions; each; each = each->next_) each->watch(context);
}
/// Without memory, the thread is not watched.
void ProfileSession::watch(Context& context) try {
  auto recorder = std::make_unique<Recorder>(*this, context, static_cast<int>(recorders_.size()));
  recorders_.push_back(recorder.get());
  start_observing(*recorder.release(), sizeof(Recorder));
} catch (const std::bad_alloc&) {
}
void ProfileSession::context_ended(Context& context) noexcept {
  const Locked held(Lock::profiles);
  for (ProfileSession* session = sessions; session; session = session->next_) {
    for (Recorder* each : session->recorders_) {
      if (&each->context_ != &context) continue;
      stop_observing(*each);
      each->thread_ended_ = true;
    }
  }
}

namespace {
/// Calls f(time, bytes) with the bytes of all threads at the end of each span.
template <class F>
void each_live(const ProfileData& data, const F& f) {
  struct Walk {
    const ThreadSpans* thread;
    std::size_t part = 0, at = 0;
    std::int64_t live;  // of the last span
    const Span& span() const { return thread->parts[part][at]; }
    /// False at the end.
    bool advance() {
      if (++at == thread->parts[part].size()) at = 0, ++part;
      return part < thread->parts.size();
    }
  };
  std::vector<Walk> walks;  // a heap: the earliest is first
  const auto later = [](const Walk& a, const Walk& b) { return a.span().end > b.span().end; };
  for (const ThreadSpans& thread : data.threads)
    if (!thread.parts.empty()) walks.push_back({&thread, 0, 0, thread.live_before});
  std::make_heap(walks.begin(), walks.end(), later);
  std::int64_t now = data.live_before;
  while (!walks.empty()) {
    std::pop_heap(walks.begin(), walks.end(), later);
    Walk& walk = walks.back();
    bool more = true;
    do {
      const Span& span = walk.span();
      now += span.live - std::exchange(walk.live, span.live);
      f(span.end, now);
      more = walk.advance();
    } while (more && (walks.size() == 1 || walk.span().end <= walks.front().span().end));
    if (more)
      std::push_heap(walks.begin(), walks.end(), later);
    else
      walks.pop_back();
  }
}
}  // namespace

std::vector<std::pair<Ticks, std::int64_t>> ProfileData::memory() const {
  std::vector<std::pair<Ticks, std::int64_t>> all;
  if (peak_time) all.emplace_back(peak_time, peak);
  each_live(*this, [&](Ticks at, std::int64_t bytes) { all.emplace_back(at, bytes); });
  std::sort(all.begin(), all.end());
  return all;
}

void ProfileSession::leave() noexcept {
  const Locked held(Lock::profiles);
  ProfileSession** link = &sessions;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
  if (!sessions) __atomic_store_n(&block_watch, nullptr, __ATOMIC_RELEASE);
}
void ProfileSession::Delete::operator()(ProfileSession* session) const noexcept {
  bool left = false;  // a thread that goes on
  for (Recorder* const each : session->recorders_) {
    left |= !each->thread_ended_ && &each->context_ != Context::current();
    if (each->thread_ended_)
      delete each;
    else
      end_observing(each);
  }
  if (!left) delete session;
}

ProfileData* ProfileSession::end() {
  leave();
  const std::unique_ptr<ProfileSession, Delete> self(this);
  auto data = std::make_unique<ProfileData>();
  data->begin = begin_;
  std::vector<DeviceSpan> kernels;
  std::vector<int> kernel_threads;
  {
    const Locked held(Lock::profiles);
    data->end = Moment::now();
    data->peak = blocks_.peak();
    data->before_at_peak = blocks_.before_at_peak();
    data->makers = blocks_.at_peak();
    data->peak_time = blocks_.peak_time();
    for (Recorder* const each : recorders_) {
      ThreadSpans& thread = data->threads.emplace_back(
          ThreadSpans{each->number_, each->live_before_, each->log_, {}});
      for (const auto& chunk : each->log_->chunks)
        if (const std::size_t count = __atomic_load_n(&chunk->count, __ATOMIC_ACQUIRE))
          thread.parts.emplace_back(chunk->spans.get(), count);
      for (const SpanPlace& place : each->log_->places) {
        const SpanSums alike = alike_of(place);
        if (!load(place.sums.calls)) continue;
        SpanSums& all = data->sums[place.key];
        add_sums(all, place.sums);
        add_sums(all, alike);
      }
      for (DeviceSpan& kernel : each->kernels_) {
        kernels.push_back(std::move(kernel));
        kernel_threads.push_back(each->number_);
      }
      each->kernels_.clear();
      data->lost += each->lost_;
    }
  }
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const DeviceSpan& kernel = kernels[i];
    for (const DeviceTrack& track : tracks_) {
      if (track.device != kernel.begin.device()) continue;
      const double origin = data->microseconds_at(track.ticks);
      const double begin = origin + kernel.begin.milliseconds_since(track.begin) * 1e3;
      const double time = kernel.end.milliseconds_since(kernel.begin) * 1e3;
      data->kernels.push_back({track.device, kernel.op, kernel.part, kernel.site, kernel_threads[i],
                               data->microseconds_at(kernel.launched), begin, begin + time});
      data->sums[{kernel.op, kernel.part, kernel.site.file, kernel.site.line}].device_seconds +=
          time * 1e-6;
    }
  }
  std::sort(data->kernels.begin(), data->kernels.end(),
            [](const KernelTime& a, const KernelTime& b) { return a.begin < b.begin; });
  data->live_before = live_before_;
  each_live(*data, [&](Ticks, std::int64_t bytes) { data->peak = std::max(data->peak, bytes); });
  return data.release();
}
}  // namespace reel::detail
