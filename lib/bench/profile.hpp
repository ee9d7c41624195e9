// SPDX-License-Identifier: BSD-3-Clause
// What a profile collects while the program runs.
#pragma once
#include <reel/event.hpp>
#include <reel/profile.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/bench/live_blocks.hpp"
#include "lib/flow/hooks.hpp"
#include "lib/flow/observer.hpp"

namespace reel::detail {
struct SpanSums {
  std::int64_t calls = 0, moved = 0, made = 0;
  Ticks total = 0, inside = 0;
  double device_seconds = 0;
};
using AllSums = std::map<SpanKey, SpanSums>;

/// The calls of one op at one line on one thread, which writes it. Others read `key` and `sums`.
struct SpanPlace {
  const SpanKey key;   // of no op: a backward pass
  SpanSums sums = {};  // atomic
  // A short call is only counted, as one of `untimed`, if enough calls before it were short, read
  // as many bytes, and had no calls inside. It counts with the typical time.
  Ticks typical = 0;                           // atomic
  std::int64_t read = 0, moved = 0, made = 0;  // bytes of a call; the last two are atomic
  int brief = 0;                               // timed calls, one after another, that were short
  int untimed = 0;                             // that are left
  // Counted calls with these bytes that `sums` lacks, atomic; how many the last call of another
  // size found.
  std::int64_t alike = 0, alike_before = 0;
};
/// One call of an op, of a gradient's kernel, or a backward pass.
struct Span {
  Ticks begin, end;
  const SpanPlace* place;
  std::int64_t moved, made;  // bytes
  std::int64_t live;         // bytes of the thread's tensors at the end, as it counts them
};
/// What a thread has done. It adds to it; others read what was there when they looked.
struct SpanLog {
  struct Chunk {
    explicit Chunk(std::size_t most)
        : size(most), spans(std::make_unique_for_overwrite<Span[]>(most)) {}
    const std::size_t size;
    const std::unique_ptr<Span[]> spans;
    std::size_t count = 0;  // atomic
  };
  static constexpr std::size_t chunk_spans = 1 << 15, most_chunks = 27;
  // Behind Lock::profiles where they grow.
  std::vector<std::unique_ptr<Chunk>> chunks;
  std::deque<SpanPlace> places;
};
/// A kernel of another device: when it was put on the queue, and when it ran.
struct DeviceSpan {
  Ticks launched;
  const Op* op;
  Caller caller;
  Part part;
  Event begin, end;
};

/// A moment by two clocks. Ticks are cheap, and the difference of two moments says how long they
/// are.
struct Moment {
  Ticks ticks;
  std::int64_t nanoseconds;
  static Moment now();
};
inline Ticks ticks_now() {
#ifdef __x86_64__
  return __builtin_ia32_rdtsc();
#else
  return static_cast<Ticks>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Watches one thread. Only this thread adds to it. Others read it behind Lock::profiles.
class Recorder final : public OwnedObserver {
 public:
  Recorder(ProfileSession& session, Context& context, int number);

  void call_begins(const GateCall& call) override;
  void call_ends(const GateCall& call) override;
  void backward_begins(const Body&) override;
  void backward_ends(bool finished) override;
  void kernel_begins(const DeviceCall& call) override;
  void kernel_ends(const DeviceCall& call) override;
  void error(const ErrorEvent&) override { thrown_ = true, counted_ = nullptr; }

 private:
  friend class ProfileSession;
  struct Open {
    Ticks begin, inside;
    SpanPlace* place;
    std::int64_t read;  // bytes of the inputs
  };
  static constexpr std::size_t most_open = 1024;

  void begin_elsewhere(const GateCall& call);
  void begin_timed(SpanPlace& place, const GateCall& call);
  Open& push(SpanPlace& place);
  SpanPlace*& recent(const Op* op, Part part, unsigned line);
  SpanPlace* find_place(const SpanKey& key);
  /// Whether calls like this one need not be timed, because this one was short.
  void learn(const Open& open, Ticks took, std::int64_t moved, std::int64_t made);
  void begin_counted();
  void count_unlike(SpanPlace& place, const GateCall& call);
  void add_alike(SpanPlace& place);
  void pop(const GateCall& call);
  void pop_call(const GateCall& call, Ticks now, std::int64_t moved, std::int64_t made);
  /// An op ends before those that began after it: they are passes of a replay, which begin together
  /// and end in the order of their beginnings, or have thrown.
  void pop_inner(std::size_t at, Ticks now, std::int64_t moved, std::int64_t made);
  void drop_passes();
  /// Large results are this op's.
  void name_blocks(const GateCall& call);
  /// More bytes of tensors than this thread has had.
  void count_live();
  void add(const Open& open, Ticks end, std::int64_t moved, std::int64_t made, std::size_t outer);
  bool make_room();
  static bool is_call(const SpanPlace& place, const GateCall& call) {
    return place.key.op == &call.op && place.key.part == call.part;
  }

  ProfileSession& session_;
  Context& context_;
  const std::int64_t live_before_;
  const int number_;
  const std::unique_ptr<Open[]> open_{new Open[most_open]};
  std::size_t depth_ = 0;         // of open_
  SpanPlace* counted_ = nullptr;  // of a call that is not timed and has not ended
  Ticks last_end_ = 0;            // of a call; 0: others were not timed since
  const Ticks clock_;             // what reading the clock takes
  // The passes that have not ended are open_[pass_] and the following ones. They began together
  // with open_[first_pass_], and each has so many ticks.
  std::size_t pass_ = 0, first_pass_ = 0;
  Ticks pass_ticks_ = 0;
  bool thrown_ = false;
  std::int64_t count_above_;  // bytes of this thread
  const std::shared_ptr<SpanLog> log_ = std::make_shared<SpanLog>();
  SpanLog::Chunk* last_ = nullptr;
  std::map<SpanKey, SpanPlace*> places_;
  SpanPlace* recent_[1024];        // by a hash
  SpanPlace* backward_ = nullptr;  // of backward passes
  std::unique_ptr<Event> kernel_begin_;
  Ticks launched_ = 0;
  // Behind Lock::profiles.
  std::int64_t lost_ = 0;  // calls, for want of memory
  std::vector<DeviceSpan> kernels_;
  bool thread_ended_ = false;
};

/// Where the time of a device begins.
struct DeviceTrack {
  Device device;
  Event begin;
  Ticks ticks;
};

class ProfileSession {
 public:
  /// Watches this thread, and threads that use the library for the first time. Where an observer
  /// begins and ends it, also while it is notified, pass this observer as `behind`.
  static ProfileSession& begin(Observer* behind = nullptr);
  /// Ends it, and gives what it has measured. The session is deleted, also where memory ends here.
  ProfileData* end();
  const int process;

  /// For the hooks of contexts.
  static void context_made(Context& context) noexcept;
  static void context_ended(Context& context) noexcept;
  /// For the hooks of large blocks.
  static void block_taken(const void* block, std::int64_t bytes) noexcept;
  static void block_given(const void* block, std::int64_t bytes) noexcept;

 private:
  friend class Recorder;
  struct Delete {
    void operator()(ProfileSession* session) const noexcept;
  };
  ProfileSession();
  void leave() noexcept;  // the list of sessions
  void watch(Context& context);
  /// Whether this thread notified the recorder, which it does no more.
  bool unlink(Recorder& recorder);
  void see(Device device);
  /// What makes blocks on this thread now.
  SpanKey maker(const Context& context) const;
  ProfileSession* next_ = nullptr;
  Observer* behind_ = nullptr;
  const Moment begin_;
  const std::int64_t live_before_;
  std::vector<Recorder*> recorders_;
  std::vector<DeviceTrack> tracks_;
  LiveBlocks blocks_;
};

struct ThreadSpans {
  int number;
  std::int64_t live_before;
  std::shared_ptr<const SpanLog> log;
  std::vector<std::span<const Span>> parts;  // of the log, when the profile ended
};
struct KernelTime {
  Device device;
  const Op* op;
  Part part;
  Caller caller;
  int thread;
  double launched, begin, end;  // microseconds since the beginning
};
struct ProfileData {
  std::uint32_t references = 1;
  Moment begin, end;
  std::vector<ThreadSpans> threads;
  std::vector<KernelTime> kernels;
  AllSums sums;
  std::map<SpanKey, std::int64_t> makers;  // bytes of large blocks at the peak
  Ticks peak_time = 0;                     // 0: at the beginning
  std::int64_t live_before = 0, peak = 0, before_at_peak = 0, lost = 0;
  /// The bytes of tensors of all threads, at the end of each span.
  std::vector<std::pair<Ticks, std::int64_t>> memory() const;
  double nanoseconds(Ticks ticks) const {
    return static_cast<double>(ticks) * static_cast<double>(end.nanoseconds - begin.nanoseconds) /
           static_cast<double>(end.ticks - begin.ticks);
  }
  double microseconds_at(Ticks ticks) const { return nanoseconds(ticks - begin.ticks) / 1e3; }
};
/// The hook of a thread's first context. The first one of the process starts the profile that the
/// environment asks for.
void profile_thread(Context& context) noexcept;
/// The hook of the debugger.
std::unique_ptr<MeasuredRun> measure(Observer& observer);
/// "matmul", "gradient of matmul", "backward pass".
std::string name_of(const Op* op, Part part);
}  // namespace reel::detail
