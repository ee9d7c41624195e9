// SPDX-License-Identifier: BSD-3-Clause
// The end of a run of a traced function: it is captured, or a replay is compared with it.
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "lib/gate/call_kernel.hpp"
#include "lib/pool/process.hpp"
#include "lib/trace/check.hpp"
#include "lib/trace/progress.hpp"

namespace reel::detail {
void warn(const TraceProgress& call, const std::string& why) {
  std::fprintf(stderr, "reel: %s:%u: a traced function runs eagerly: %s\n",
               call.caller.file ? call.caller.file : "?", call.caller.line,
               why.substr(0, why.find('\n')).c_str());
}

namespace {
std::unique_ptr<tracing::CapturedWords> captured_words(const TraceProgress& call,
                                                       const tracing::CapturedWatch& known) {
  const TraceCache& cache = *call.cache;
  return std::make_unique<tracing::CapturedWords>(
      cache.function, call.state, known.ignored(),
      tracing::CapturedWords::Compares{cache.reads.empty(), !known.tolerates_fields()});
}

tracing::Difference compare(const TraceProgress& call, const tracing::Capture& path) {
  if (tracing::Difference difference = call.entry->difference(path)) return difference;
  if (call.differs) return {"plain value in its result", "the captured value", "another value"};
  if (call.results.size() != call.expected.size())
    return {"number of tensors in its result", std::to_string(call.expected.size()),
            std::to_string(call.results.size())};
  std::vector<tracing::Compared> pairs;
  for (std::size_t i = 0; i < call.results.size(); ++i)
    pairs.push_back({"result " + std::to_string(i), call.expected[i], call.results[i]});
  for (const auto& [variable, value] : call.assigned)
    pairs.push_back({"Variable \"" + variable.name() + "\"", value, Access::cell(variable).value});
  if (tracing::Difference difference = tracing::compare(pairs)) return difference;
  const std::uint64_t position = position_of(current_generator());
  if (position == call.position) return {};
  return {"position of the generator of random numbers", std::to_string(call.position),
          std::to_string(position)};
}

void capture_by_itself(TraceProgress& call, const tracing::Difference& difference) {
  call.entry->forget({});
  bool last = false;
  {
    const Locked held(Lock::traces);
    last = ++call.cache->differences == TraceCache::most_differences;
  }
  std::fprintf(stderr,
               "reel: %s:%u: what a traced function does depends on lengths of its arguments (%s: "
               "expected %s, got %s): call number %llu is right, and its lengths are captured by "
               "themselves%s\n",
               call.caller.file ? call.caller.file : "?", call.caller.line, difference.what.c_str(),
               difference.before.c_str(), difference.now.c_str(),
               static_cast<unsigned long long>(call.number),
               last ? ", and so are all further ones" : "");
}

void watch_captured(TraceProgress& call) {
  call.scheduled = call.cache->options.verify > 0;
  if (!call.scheduled) {
    call.ending->until_check = 0;
    call.changes.clear();
    return;
  }
  auto words = captured_words(call, call.ending->captured);
  const Locked held(Lock::traces);
  call.ending->captured.set(std::move(words));
}

/// Reports that something outside the trace has changed since the capture.
void report(TraceProgress& call, const tracing::Difference& difference) {
  const auto& [what, before, now, is_chance] = difference;
  const std::uint64_t good = call.ending ? call.ending->last_good.load() : call.number;
  std::string since =
      "calls since number " + std::to_string(good + 1) + " may have been wrong" +
      ". Pass what changes as an argument, or keep it in a Variable or a Live number";
  if (good + 1 >= call.number)
    since = "this call, number " + std::to_string(call.number) + ", is right";
  const std::string why = what + ": was " + before + ", is " + now + "; " + since;
  call.entry->run_eagerly(why);
  if (!call.cache->options.throw_on_difference) return warn(call, why);
  fail<TraceError>(call.caller, "trace", what, before + ", as captured", now,
                   since + ". Calls of this signature run eagerly from now on.");
}

/// What a run did to the state of its function.
struct StateFound {
  enum class Kind { none, state, certain } kind = Kind::none;
  std::string why = {};
  std::optional<tracing::RunChange> change = {};
};
/// `changed_read` names what the run changed of the objects that reads() lists.
StateFound find_state(TraceProgress& call, const std::string& changed_read) {
  using Kind = StateFound::Kind;
  std::vector<const Body*> arguments;
  for (const Tensor* slot : call.slots) {
    const Body* body = nullptr;  // the run may have freed the object that contained the slot
    if (tracing::read_memory(reinterpret_cast<std::uintptr_t>(slot), &body, sizeof body) && body)
      arguments.push_back(body);
  }
  // Under a tape, the tape keeps tensors too.
  if (!call.is_taped)
    if (std::string kept = call.tracer->escaped(call.results, call.expected, arguments);
        !kept.empty())
      return {Kind::state, "it keeps " + kept};
  const std::string advice = "; keep it in a Variable, or pass it as an argument";
  if (!changed_read.empty())
    return {Kind::certain, "it changes " + changed_read + ", which reads() lists" + advice};
  tracing::StateWatch& state = call.state;
  call.tracer->exclude_from(state);
  for (const Tensor& result : call.results)
    if (result.defined()) state.exclude(*Access::body(result));
  const std::optional<tracing::RunChange> change = state.change();
  if (!change) return {};
  // Another thread may run the function, and write what its pointers lead to.
  const bool alone = call.alone && call.cache->begun == call.run;
  if (change->behind && !alone) return {};
  return {Kind::state,
          "it changes its own state: " + state.in_words(*change) + advice + "\n    " +
              state.in_bytes(*change),
          change};
}

/// The function has changed its state, so its calls cannot be replayed.
void refuse(TraceProgress& call, const StateFound& found) {
  if (call.cache->state_changed(*call.entry, found.why, found.kind == StateFound::Kind::certain,
                                found.change))
    warn(call, found.why);
}

/// Whether the run can be captured. If not, the reason is stored in its entry.
bool can_capture(TraceProgress& call) {
  const std::string& trouble = call.tracer->trouble();
  if (!call.result_shared && trouble.empty()) return true;
  const std::string why =
      call.result_shared ? "copies of its result share an object behind a pointer" : trouble;
  if (call.entry->skip(why, call.tracer->by_chance())) warn(call, why);
  return false;
}

/// Says where replays compare less than they do elsewhere: once for each function, and once for a
/// line that makes many functions.
void tell_unread(TraceProgress& call, int number) {
  static std::atomic<std::uintptr_t> last = 0;
  if (!number || call.cache->warned_unread.exchange(true)) return;
  const std::uintptr_t line = reinterpret_cast<std::uintptr_t>(call.caller.file) ^ call.caller.line;
  if (last.exchange(line) == line) return;
  const std::string what =
      number < 0 ? "captured pointers and references lead to: the system refuses to read memory"
                 : "captured pointer or reference number " + std::to_string(number) +
                       " leads to: this memory may be unmapped (a stack of another thread or of a "
                       "fiber, a large block, or memory that is not of glibc's main heap)";
  std::fprintf(
      stderr,
      "reel: %s:%u: replays of a traced function do not compare what its %s; list what the "
      "function reads: trace(f).reads(x)\n",
      call.caller.file ? call.caller.file : "?", call.caller.line, what.c_str());
}

tracing::Difference add_path(TraceProgress& call, const tracing::Capture& path) {
  std::unique_ptr<tracing::CapturedWords> captured;
  if (call.cache->options.verify > 0) {
    captured = captured_words(call, tracing::CapturedWatch());
    tell_unread(call, captured->unread());
  }
  return call.entry->publish(path, call.number, std::move(captured), open_calls() > 1,
                             call.cache->shared);
}

void publish(TraceProgress& call, tracing::Capture path) {
  path.result = std::move(call.result);
  path.sources = call.taped.sources;
  if (call.marked_reads != Context::here().marked_reads)
    return;  // a replay would not pass marks on
  tracing::Difference difference = add_path(call, path);
  if (call.entry->keep_loops_apart(path, bool(difference))) return call.entry->forget({});
  if (difference && call.entry->is_unchecked()) {
    capture_by_itself(call, difference);
    difference = add_path(call, path);
  }
  if (difference.is_chance) {
    if (call.entry->skip("what its loops read differs from call to call", true))
      warn(call, "what its loops read differs from call to call");
    return;
  }
  if (difference) return report(call, difference);
  if (call.entry->eager) {
    const Locked held(Lock::traces);
    warn(call, call.entry->trouble);
  }
  auto none = TraceEntry::Use::none;
  if (call.entry->use.compare_exchange_strong(none, TraceEntry::Use::captured))
    ++call.cache->unused;
  if (call.cache->keep_within_memory(*call.entry, open_calls() > 1) &&
      !call.cache->warned_memory.exchange(true))
    std::fprintf(stderr,
                 "reel: %s:%u: what was captured of a traced function takes more than %.3g MB: "
                 "signatures that were called longest ago are dropped; see TraceOptions::memory\n",
                 call.caller.file ? call.caller.file : "?", call.caller.line,
                 static_cast<double>(call.cache->options.memory) * 1e-6);
}

void finish_capture(TraceProgress& call, const std::string& changed_read) {
  call.scope.reset();
  const StateFound found = find_state(call, changed_read);
  tracing::Capture path = call.tracer->finish(call.results, call.entry->loops_apart());
  if (found.kind >= StateFound::Kind::state) return refuse(call, found);
  if (!can_capture(call)) return;
  publish(call, std::move(path));
}

/// Handles a change of captured variables that did not change the results. True if they change so
/// often that all later calls run eagerly.
bool tolerate_changes(TraceProgress& call) {
  tracing::CapturedWatch& captured = call.ending->captured;
  std::string why;
  {
    const Locked held(Lock::traces);
    why = captured.tolerate(call.changes);
  }
  if (!why.empty()) {
    call.entry->run_eagerly(why);
    warn(call, why);
    return true;
  }
  auto words = captured_words(call, captured);
  const Locked held(Lock::traces);
  captured.set(std::move(words));
  return false;
}

/// The run must have taken the path of the replay, with equal results.
void finish_verification(TraceProgress& call, const std::string& changed_read) {
  call.scope.reset();
  const StateFound found = find_state(call, changed_read);
  const tracing::Capture path = call.tracer->finish(call.results, call.entry->loops_apart());
  if (found.kind >= StateFound::Kind::state) return refuse(call, found);
  if (!can_capture(call)) return;
  if (call.entry->plan.load(std::memory_order_acquire) != call.plan) return;  // of another thread
  if (const tracing::Difference difference = compare(call, path)) {
    if (difference.is_chance) return;
    if (!call.ending->derived) return report(call, difference);
    capture_by_itself(call, difference);
    return publish(call, path);
  }
  call.ending->last_good = call.number;
  if (call.ending->derived.exchange(false)) {
    watch_captured(call);
    if (!call.scheduled) return;
  }
  const bool renewed = !call.scheduled || !call.changes.empty();
  if (renewed && tolerate_changes(call)) return;
  if (!call.scheduled) return;
  const double check_seconds = tracing::seconds_since(call.began);
  {
    const Locked held(Lock::traces);
    call.entry->check_seconds += check_seconds;
  }
  tracing::plan_next_check(*call.ending, call.cache->options.verify, check_seconds,
                           call.replay_seconds > 0 ? call.replay_seconds : check_seconds);
}
}  // namespace

void TraceCall::finish() try {
  if (progress_->measured == TraceProgress::Measured::run) note_time(*progress_);
  if (progress_->doing == Doing::capturing) finish_capture(*progress_, changed_read());
  if (progress_->doing == Doing::verifying) finish_verification(*progress_, changed_read());
} catch (const std::bad_alloc&) {  // the next call repeats the capture or the check
} catch (const MemoryError&) {
}
}  // namespace reel::detail
