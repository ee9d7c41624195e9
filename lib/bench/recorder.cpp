// SPDX-License-Identifier: BSD-3-Clause
// Watching threads for a profile.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
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
[[gnu::always_inline]] inline Bytes bytes_of(const GateCall& call) {
  std::int64_t moved = 0, made = 0;  // in registers
  bool large = false;
  const Body* const* const inputs = call.inputs;
  const int count = call.input_count;
  for (int i = 0; i < count; ++i)
    if (const Body* const input = inputs[i]) moved += input->bytes();
  for (int i = 0; i < call.output_count; ++i) {
    const Body* const output = call.outputs[i];
    if (!output) continue;
    const std::int64_t bytes = output->bytes();
    moved += bytes;
    large |= output->large_class != 0;
    bool own = !output->owner && !(call.accumulates >> std::min(i, 30) & 1);
    for (int k = 0; own && k < count; ++k) own = !inputs[k] || inputs[k]->data != output->data;
    if (own) made += bytes;
  }
  return {moved, made, large};
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
      count_above_(live_before_) {
  only_looks = only_times = true;
  first_ = std::make_unique<Chunk>(1024);
  last_ = first_.get();
  chunks_ = 1;
}

Recorder::Chunk::Chunk(std::size_t most)
    : size(most),
      spans(static_cast<Span*>(most == chunk_spans ? std::aligned_alloc(chunk_bytes, chunk_bytes)
                                                   : std::malloc(most * sizeof(Span)))) {
  if (!spans) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (most == chunk_spans) madvise(spans.get(), chunk_bytes, MADV_HUGEPAGE);
#endif
}

void Recorder::drop_passes() {
  depth_ = first_pass_;
  pass_ = first_pass_ = 0;
}

inline Recorder::Open& Recorder::push(const Op* op, Part part, Caller site) {
  if (pass_) [[unlikely]]
    drop_passes();
  // Ops that have thrown stay open.
  if (depth_ == most_open) [[unlikely]]
    depth_ = 0;
  return open_[depth_++] = {0, 0, op, part, site};
}
/// A kernel that directly follows another one has the time between them: a clock takes about as
/// long as a small kernel.
void Recorder::begins(const GateCall& call) {
  Open& open = push(&call.op, call.part, call.site);
  open.begin = call.follows && last_end_ ? last_end_ : ticks_now();
}

void Recorder::pop(const GateCall& call) {
  const Ticks now = ticks_now();
  const Bytes bytes = bytes_of(call);
  if (bytes.large) [[unlikely]]
    name_blocks(call);
  if (depth_ && !pass_ && open_[depth_ - 1].op == &call.op && open_[depth_ - 1].part == call.part)
      [[likely]] {
    --depth_;
    add(open_[depth_], now, bytes.moved, bytes.made, depth_);
  } else {
    pop_call(call, now, bytes.moved, bytes.made);
  }
  last_end_ = now;
}
/// A call that is not the last that has begun, or is a pass.
void Recorder::pop_call(const GateCall& call, Ticks now, std::int64_t moved, std::int64_t made) {
  const auto is_call = [&](const Open& open) {
    return open.op == &call.op && open.part == call.part;
  };
  if (pass_) {
    if (is_call(open_[pass_])) {
      const Open& open = open_[pass_];
      add(open, open.begin + pass_ticks_, moved, made, first_pass_);
      if (++pass_ == depth_) drop_passes();
      return;
    }
    drop_passes();
  }
  for (std::size_t i = depth_; i-- > 0;) {
    if (!is_call(open_[i])) continue;
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

void Recorder::backward_ends(bool) {
  const Ticks now = ticks_now();
  if (pass_) drop_passes();
  while (depth_ && open_[depth_ - 1].op) --depth_;
  if (!depth_) return;
  --depth_;
  add(open_[depth_], now, 0, 0, depth_);
  last_end_ = 0;
}

inline void Recorder::add(const Open& open, Ticks end, std::int64_t moved, std::int64_t made,
                          std::size_t outer) {
  if (outer > 0) open_[outer - 1].inside += end - open.begin;
  if (context_.live_bytes > count_above_) [[unlikely]]
    count_live();
  if (last_->count == last_->size && !make_room()) [[unlikely]]
    return;
  last_->spans[last_->count] = {open.begin, end,  open.inside,        open.op, open.site, open.part,
                                moved,      made, context_.live_bytes};
  __atomic_store_n(&last_->count, last_->count + 1, __ATOMIC_RELEASE);
}

/// A new chunk, or the last one again, whose spans are summed up.
bool Recorder::make_room() try {
  std::unique_ptr<Chunk> more;
  if (chunks_ < most_chunks) more = std::make_unique<Chunk>(chunk_spans);
  const Locked held(Lock::profiles);
  if (more) {
    last_->next = std::move(more);
    last_ = last_->next.get();
    ++chunks_;
    return true;
  }
  for (const Span& span : std::span(last_->spans.get(), last_->size))
    sums_[{span.op, span.part, span.site.file, span.site.line}].add(span);
  left_out_ += static_cast<std::int64_t>(last_->size);
  last_->count = 0;
  return true;
} catch (const std::bad_alloc&) {
  ++lost_;
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
    const Recorder::Open& open = each->open_[each->depth_ - 1];
    const Caller line = open.site.file ? open.site : site;
    return {open.op, open.part, line.file, line.line};
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

ProfileData* ProfileSession::end() {
  auto data = std::make_unique<ProfileData>();
  data->begin = begin_;
  std::vector<DeviceSpan> kernels;
  std::vector<int> kernel_threads;
  bool left = false;  // a thread that goes on
  {
    const Locked held(Lock::profiles);
    ProfileSession** link = &sessions;
    while (*link != this) link = &(*link)->next_;
    *link = next_;
    if (!sessions) __atomic_store_n(&block_watch, nullptr, __ATOMIC_RELEASE);
    data->end = Moment::now();
    data->peak = blocks_.peak();
    data->before_at_peak = blocks_.before_at_peak();
    data->makers = blocks_.at_peak();
    data->peak_time = blocks_.peak_time();
    if (data->peak_time) data->memory.emplace_back(data->peak_time, data->peak);
    for (Recorder* const each : recorders_) {
      ThreadSpans& thread =
          data->threads.emplace_back(ThreadSpans{each->number_, each->live_before_, {}});
      for (const Recorder::Chunk* chunk = each->first_.get(); chunk; chunk = chunk->next.get()) {
        const std::size_t count = __atomic_load_n(&chunk->count, __ATOMIC_ACQUIRE);
        thread.spans.insert(thread.spans.end(), chunk->spans.get(), chunk->spans.get() + count);
      }
      for (const auto& [key, sums] : each->sums_) {
        SpanSums& all = data->sums[key];
        all.calls += sums.calls;
        all.moved += sums.moved;
        all.made += sums.made;
        all.total += sums.total;
        all.inside += sums.inside;
      }
      for (DeviceSpan& kernel : each->kernels_) {
        kernels.push_back(std::move(kernel));
        kernel_threads.push_back(each->number_);
      }
      each->kernels_.clear();
      data->left_out += each->left_out_;
      data->lost += each->lost_;
    }
  }
  for (const ThreadSpans& thread : data->threads)
    for (const Span& span : thread.spans)
      data->sums[{span.op, span.part, span.site.file, span.site.line}].add(span);
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
  // The bytes of all threads at the end of each span.
  struct Step {
    Ticks at;
    std::int64_t live;
    std::size_t thread;
  };
  std::vector<Step> steps;
  std::vector<std::int64_t> live;
  for (std::size_t i = 0; i < data->threads.size(); ++i) {
    live.push_back(data->threads[i].live_before);
    for (const Span& span : data->threads[i].spans) steps.push_back({span.end, span.live, i});
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.at < b.at; });
  std::int64_t now = live_before_;
  for (const Step& step : steps) {
    now += step.live - std::exchange(live[step.thread], step.live);
    data->memory.emplace_back(step.at, now);
    data->peak = std::max(data->peak, now);
  }
  std::sort(data->memory.begin(), data->memory.end());
  for (Recorder* const each : recorders_) {
    if (each->thread_ended_)
      delete each;
    else if (&each->context_ == Context::current())
      end_observing(each);
    else
      left = true, end_observing(each);
  }
  if (!left) delete this;
  return data.release();
}
}  // namespace reel::detail
