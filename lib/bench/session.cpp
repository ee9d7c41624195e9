// SPDX-License-Identifier: BSD-3-Clause
// Which threads and blocks profiles watch, and what a profile has measured when it ends.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <reel/error.hpp>
#include <reel/memory.hpp>

#include "lib/bench/counts.hpp"
#include "lib/pool/process.hpp"

namespace reel::detail {
namespace {
constinit ProfileSession* sessions = nullptr;  // behind Lock::profiles
}  // namespace

Moment Moment::now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return {ticks_now(), std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()};
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
  const Caller caller = context.outer_caller;
  for (const Recorder* each : recorders_) {
    if (each->thread_ended_ || &each->context_ != &context || each->depth_ == 0) continue;
    const SpanKey& key = each->open_[each->depth_ - 1].place->key;
    const Caller line = key.file ? Caller{key.file, key.line} : caller;
    return {key.op, key.part, line.file, line.line};
  }
  return {nullptr, Part::value, caller.file, caller.line};
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

ProfileSession& ProfileSession::begin(Observer* behind) {
  Context& context = Context::here();
  std::unique_ptr<ProfileSession> session(new ProfileSession);
  auto recorder = std::make_unique<Recorder>(*session, context, 0);
  session->recorders_.push_back(recorder.get());
  if (behind) {
    recorder->bytes = sizeof(Recorder);
    recorder->next = behind->next;
    session->behind_ = behind;
    behind->next = recorder.release();
  } else {
    start_owned(*recorder.release(), sizeof(Recorder));
  }
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
bool ProfileSession::unlink(Recorder& recorder) {
  if (stop_observing(recorder)) return true;
  // While an observer is notified, the list of this thread is put aside.
  if (!behind_ || behind_->next != &recorder) return false;
  behind_->next = recorder.next;
  return true;
}
void ProfileSession::Delete::operator()(ProfileSession* session) const noexcept {
  bool left = false;  // a thread that goes on
  for (Recorder* const each : session->recorders_) {
    left |= !each->thread_ended_ && &each->context_ != Context::current();
    if (each->thread_ended_ || session->unlink(*each))
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
      data->kernels.push_back({track.device, kernel.op, kernel.part, kernel.caller,
                               kernel_threads[i], data->microseconds_at(kernel.launched), begin,
                               begin + time});
      data->sums[{kernel.op, kernel.part, kernel.caller.file, kernel.caller.line}].device_seconds +=
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
