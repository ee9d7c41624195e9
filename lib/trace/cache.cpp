// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/cache.hpp"
#include "lib/body/line.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <utility>

#include "lib/pool/process.hpp"
#include "lib/trace/check.hpp"
#include "lib/trace/derive.hpp"

namespace reel::detail {
namespace {
constexpr std::uint64_t first_trial = 256;
constexpr int most_failures = 3, most_changes = 16, most_skips = 64;
constexpr std::size_t most_paths = 64, most_signatures = 1024;

bool environment_asks(char digit) {
  const char* const wanted = std::getenv("REEL_TRACE");
  return wanted && wanted[0] == digit && !wanted[1];
}
/// Why all calls run eagerly before the first one; empty if they do not.
std::string first_state() { return environment_asks('0') ? "REEL_TRACE=0 is set" : ""; }

std::string line_of(Caller caller) {
  return caller.file ? std::string(caller.file) + ":" + std::to_string(caller.line)
                     : "an unknown line";
}

std::string describe(const tracing::Layout& layout) {
  return std::string(name_of(layout.dtype)) + to_text(layout.shape);
}

/// The first step that reads each value; null for a value that no step reads.
std::vector<const tracing::Step*> readers_of(const tracing::Tree& tree) {
  std::vector<const tracing::Step*> readers(tree.values.size());
  for (const tracing::Segment& segment : tree.segments)
    for (const tracing::Step& step : segment.steps)
      for (const int input : step.inputs)
        if (input >= 0 && !readers[static_cast<std::size_t>(input)])
          readers[static_cast<std::size_t>(input)] = &step;
  return readers;
}

void explain_tree(const tracing::Tree& tree, std::string& out) {
  std::size_t steps = 0, constants = 0, bytes = 0;
  std::string list;
  const std::vector<const tracing::Step*> readers = readers_of(tree);
  for (const tracing::Segment& segment : tree.segments) steps += segment.steps.size();
  for (std::size_t i = 0; i < tree.values.size(); ++i) {
    const tracing::Value& value = tree.values[i];
    if (value.kind != tracing::Value::Kind::constant || !value.layout.elements) continue;
    ++constants;
    bytes += static_cast<std::size_t>(value.layout.bytes());
    if (constants <= 8)
      list += "    " + describe(value.layout) +
              (value.layout.elements == 1 && value.layout.device == cpu()
                   ? " " + graph::element_text(*Access::body(value.constant), 0)
                   : "") +
              (readers[i] ? " in " + place_of(*readers[i]) : " in the result") + "\n";
  }
  out += "  " + std::to_string(tree.paths) + (tree.paths == 1 ? " path, " : " paths, ") +
         std::to_string(steps) + " steps\n";
  for (std::size_t i = 0; i < tree.variables.size(); ++i)
    out += (i ? ", " : "  Variables: ") + tree.variables[i].name();
  if (!tree.variables.empty()) out += "\n";
  if (constants)
    out += "  constants (" + std::to_string(constants) + ", " + std::to_string(bytes) +
           " bytes):\n" + list + (constants > 8 ? "    ...\n" : "");
  std::vector<std::pair<std::string, int>> parts;  // and how often each part occurs
  for (const tracing::Segment& segment : tree.segments) {
    if (segment.branches.empty()) continue;
    const std::size_t answers = segment.branches.size();
    const std::string part = "  branches on a value read at " + line_of(segment.question.caller) +
                             ": " + std::to_string(answers) +
                             (answers == 1 ? " answer" : " answers");
    const auto known = std::find_if(parts.begin(), parts.end(),
                                    [&](const auto& other) { return other.first == part; });
    if (known == parts.end())
      parts.emplace_back(part, 1);
    else
      ++known->second;
  }
  for (const auto& [part, times] : parts)
    out += part + (times == 1 ? "" : ", " + std::to_string(times) + " times") + "\n";
}

/// The steps that run together and what they took while an observer watched.
void explain_groups(const tracing::Plan& plan, std::string& out) {
  auto group = plan.group_times.begin();
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& header = plan.instructions[i];
    if (!is_header(header)) continue;
    const std::int64_t runs = group->runs.load(std::memory_order_relaxed);
    const std::int64_t took = group++->nanoseconds.load(std::memory_order_relaxed);
    if (!runs) continue;
    std::string list;
    for (const Instruction& each : std::span(plan.instructions).subspan(i + 1, header.input_count))
      if (each.op)
        list += std::string(list.empty() ? "" : ", ") +
                (each.part == Part::value ? "" : "gradient of ") + std::string(each.op->name) +
                " at " + line_text(each.caller);
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3g", static_cast<double>(took) * 1e-6);
    out += "  a group took " + std::string(seconds) + " ms in " + std::to_string(runs) +
           (runs == 1 ? " watched replay: " : " watched replays: ") + list + "\n";
  }
  for (const auto& loop : plan.loops)
    for (const auto& [path, trips] : loop->trips) explain_groups(*trips, out);
}

void explain_calls(const TraceEntry& entry, std::string& out) {
  const tracing::Plan* const plan = entry.plan.load(std::memory_order_relaxed);
  std::uint64_t checks = 0;
  for (const auto& ending : entry.tree.endings)
    if (ending)
      checks += static_cast<std::uint64_t>(ending->checks.load(std::memory_order_relaxed));
  const std::uint64_t replays = entry.replays.load(std::memory_order_relaxed);
  if (!plan || !(checks + replays)) return;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g", entry.check_seconds * 1e3);
  out += "  " + std::to_string(replays) + (replays == 1 ? " replay, " : " replays, ") +
         std::to_string(checks) + (checks == 1 ? " check in " : " checks in ") + seconds +
         " ms; values of a replay share " + std::to_string(plan->scratch_bytes) + " bytes\n";
  explain_groups(*plan, out);
}
}  // namespace

// Trees keep results of user types. Their destructors run while no mutex is locked. A plan is
// retired then, too, because the backend has mutexes of its own.
tracing::Difference TraceEntry::publish(const tracing::Capture& path, std::uint64_t call,
                                        std::unique_ptr<tracing::CapturedWords> captured,
                                        bool nested, const std::atomic<bool>& shared) {
  std::vector<std::unique_ptr<tracing::Plan>> unused;
  Forgotten older;
  const Locked held(Lock::traces);
  if (eager) return {};  // another thread has found why
  const std::size_t before = tree.paths;
  if (tree.path_count() >= most_paths) {
    Caller caller;
    for (const tracing::Segment& segment : tree.segments)
      if (segment.branches.size() > 1) caller = segment.question.caller;
    trouble = "more than 64 paths through it, which branch on a value read at " + line_of(caller) +
              "; compute with tensors there, or read only a comparison of them";
    eager = true;
    return {};
  }
  tracing::Tree grown = tree;  // a copy, so that nothing changes before all memory is allocated
  if (tracing::Difference difference = grown.add(path)) return difference;
  if (tracing::verifies)
    if (const std::string fault = graph::fault_of(grown, grown.variables.size(), Context::here());
        !fault.empty())
      fail<TraceError>({}, "trace", "graph", "a graph that verify() accepts", fault);
  if (grown.path_count() == tree.path_count())
    return {};  // another thread has added the path already
  if (grown.paths > before) {
    grown.ending()->last_good = call;
    if (captured)
      grown.ending()->captured.set(std::move(captured));
    else
      grown.ending()->until_check = 0;
  }
  auto newest = std::make_unique<tracing::Plan>(grown);
  if (tracing::verifies)
    if (const std::string fault = tracing::fault_of(*newest); !fault.empty())
      fail<TraceError>({}, "trace", "plan", "values that are made before they are read", fault);
  const bool frees = !nested && may_free(shared);
  (frees ? unused : plans).reserve(frees ? 1 : plans.size() + 1);
  if (frees) std::swap(plans, unused);
  plans.push_back(
      std::move(newest));  // nothing throws any more: `plan` must not lead to a freed one
  tree = std::move(grown);
  older.plan = plan.exchange(plans.back().get(), std::memory_order_acq_rel);
  trouble.clear();
  return {};
}

std::vector<Caller> TraceEntry::loops_apart() const {
  const Locked held(Lock::traces);
  return {apart.begin(), apart.begin() + static_cast<std::ptrdiff_t>(kept_apart)};
}
bool TraceEntry::keep_loops_apart(const tracing::Capture& path, bool differs) {
  const Locked held(Lock::traces);
  for (const Caller line : path.apart)
    if (!tracing::has_line(apart, line)) apart.push_back(line);
  if (!differs || kept_apart == apart.size()) return false;
  kept_apart = apart.size();
  return true;
}
tracing::Difference TraceEntry::difference(const tracing::Capture& path) const {
  tracing::Tree known;
  const Locked held(Lock::traces);
  if (!tree.paths) return {};  // another thread has dropped what was captured
  known = tree;
  if (tracing::Difference difference = known.add(path)) return difference;
  if (known.path_count() == tree.path_count()) return {};
  return {"value read on the host", "one that is known", "another"};
}

bool TraceEntry::may_free(const std::atomic<bool>& shared) const {
  return !shared.load() && std::none_of(plans.begin(), plans.end(),
                                        [](const auto& each) { return each->suspended > 0; });
}

void TraceEntry::run_eagerly(std::string why) {
  const Locked held(Lock::traces);
  trouble = std::move(why);
  eager = true;
}

bool TraceEntry::is_unchecked() const {
  const Locked held(Lock::traces);
  return std::any_of(tree.endings.begin(), tree.endings.end(),
                     [](const auto& ending) { return ending && ending->derived; });
}

bool TraceEntry::skip(std::string why, bool by_chance) {
  const Locked held(Lock::traces);
  trouble = std::move(why);
  const int most = tree.paths ? most_skips : by_chance ? most_skips / 2 : most_failures;
  if (++failures < most) return false;
  eager = true;
  return true;
}

void TraceEntry::forget(std::string why) {
  Forgotten dropped;
  const Locked held(Lock::traces);
  take(dropped, std::move(why));
}
void TraceEntry::take(Forgotten& dropped, std::string why) {
  trouble = std::move(why);
  derived = 0;
  derived_from.clear();
  std::swap(tree, dropped.tree);
  dropped.plan = plan.exchange(nullptr, std::memory_order_acq_rel);
}

TraceCache::~TraceCache() {
  function.free(function.target);
  for (auto& bucket : buckets)
    for (TraceEntry* entry = bucket.load(); entry;) delete std::exchange(entry, entry->next);
}

TraceEntry* TraceCache::find(const Key& key, std::uint64_t hash) const {
  for (TraceEntry* entry = buckets[hash % 64].load(std::memory_order_acquire); entry;
       entry = entry->next)
    if (entry->hash == hash && entry->key == key) return entry;
  return nullptr;
}

TraceEntry* TraceCache::find_or_add(const Key& key, std::uint64_t hash, std::uint64_t rest,
                                    const std::vector<const Variable*>& variables,
                                    const std::vector<const Tensor*>& tensors, bool nested) {
  Dropped dropped;
  const Locked held(Lock::traces);
  if (TraceEntry* found = find(key, hash)) return found;
  if (may_drop(nested)) {
    if (8 * ++added > entries) drop_unreachable(dropped);
    if (full()) drop_oldest(nullptr, dropped);
  }
  if (full()) return nullptr;
  Derived derived = derive(*this, key);
  if (!derived.plan && unused.load(std::memory_order_relaxed) >= most_unused && is_new(hash))
    return nullptr;
  if (int& count = listed[rest]; !reads.empty() && (count > most_listed || ++count > most_listed))
    return nullptr;
  auto made = std::make_unique<TraceEntry>();
  made->key = key;
  made->hash = hash;
  if (tries) made->trial_begins = first_trial;
  for (const Variable* variable : variables) made->variables.push_back(*variable);
  for (const Tensor* tensor : tensors) made->tensors.push_back(*tensor);
  made->trouble = state;
  if (const auto known = drops.find(hash); known != drops.end() && known->second == most_drops)
    made->trouble = "it was captured and dropped 3 times; allow more TraceOptions::memory";
  made->eager = !made->trouble.empty();
  if (derived.plan && !made->eager) {
    made->derived = derived.tree.paths;
    made->derived_from = std::move(derived.names);
    made->tree = std::move(derived.tree);
    made->plan = derived.plan.get();
    made->plans.push_back(std::move(derived.plan));
  }
  auto& bucket = buckets[hash % 64];
  made->next = bucket.load(std::memory_order_relaxed);
  bucket.store(made.get(), std::memory_order_release);
  __atomic_fetch_add(&entries, 1u, __ATOMIC_RELAXED);
  return made.release();
}

/// Whether the signature was not seen among the last ones that were not captured. Lock::traces must
/// be held.
bool TraceCache::is_new(std::uint64_t hash) {
  seen.resize(1024);
  return std::exchange(seen[hash / 64 % seen.size()], hash) != hash;
}

std::string TraceCache::describe(TraceEntry& entry, const std::vector<ArgumentText>& arguments,
                                 bool training) {
  const auto words = [&](std::size_t left_out) {
    std::string text = "(";
    for (std::size_t i = 0; i < arguments.size(); ++i)
      text += (i ? ", " : "") + (i == left_out ? arguments[i].path : arguments[i].text);
    return text + (training ? "), training" : "), evaluating");
  };
  const Locked held(Lock::traces);
  if (entry.described) return {};
  entry.signature = words(arguments.size());
  entry.described.store(true, std::memory_order_release);
  std::string found;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (!arguments[i].path.empty() && ++alike[words(i)] == alike_signatures && found.empty())
      found = arguments[i].path;
  return found;
}

bool TraceCache::state_changed(TraceEntry& changed, const std::string& why, bool certain,
                               const std::optional<tracing::RunChange>& change) {
  {
    const Locked held(Lock::traces);
    ++changed.failures;
    if (change && change->behind) {
      auto& last = changed.change;
      const bool kept =
          last.at == change->at && !((last.now ^ change->before) & last.bytes & change->bytes());
      last = {change->at, change->now, change->bytes(), kept ? last.runs + 1 : 1};
      certain |= last.runs >= most_failures || changed.failures >= most_changes;
    } else {
      certain |= changed.failures >= most_failures;
    }
  }
  for_each([&](TraceEntry& entry) {
    const bool captured = entry.plan.load(std::memory_order_relaxed);
    if (captured || &entry == &changed) entry.forget(why);
    if (certain) entry.run_eagerly(why);
  });
  if (!certain) return false;
  const Locked held(Lock::traces);
  state = why;
  return true;
}

void TraceCache::clear(bool runs) {
  std::vector<std::unique_ptr<tracing::Plan>> unused_plans;  // freed while no mutex is locked
  std::deque<TraceEntry::Forgotten> forgotten;
  const Locked held(Lock::traces);
  state = first_state();
  for_each([&](TraceEntry& entry) {
    entry.take(forgotten.emplace_back(), state);
    if (!runs && entry.may_free(shared)) {
      for (auto& plan : entry.plans) unused_plans.push_back(std::move(plan));
      entry.plans.clear();
    }
    count_memory(entry, true);
    entry.use = TraceEntry::Use::none;
    entry.failures = 0;
    entry.change = {};
    entry.is_slow = false;
    if (tries) entry.trial_begins = entry.replays + first_trial;
    entry.run_seconds.clear();
    entry.replay_seconds.clear();
    entry.eager = !state.empty();
  });
  unused = 0;
  drops.clear();
  differences = 0;
  slow_calls = 0;
  __atomic_store_n(&eager_calls, 0u, __ATOMIC_RELAXED);
  listed.clear();
}

void TraceCache::note_thread(std::uint64_t caller) {
  const Locked held(Lock::traces);  // a thread that publishes frees plans under this lock
  if (!thread)
    __atomic_store_n(&thread, caller, __ATOMIC_RELAXED);
  else if (thread != caller)
    shared.store(true);
}

bool TraceCache::full() const {
  return __atomic_load_n(&entries, __ATOMIC_RELAXED) >= most_signatures;
}

const char* TraceCache::why_not_captured() const {
  if (full()) return "it has been called with more than 1024 signatures";
  if (unused.load(std::memory_order_relaxed) >= most_unused)
    return "16 of its signatures were called once only; from now on a signature is captured at its "
           "second call";
  return "what reads() lists has had more than 4 values; make what changes a Live number or a "
         "Variable";
}

std::string TraceCache::explain() const {
  std::string out;
  const Locked held(Lock::traces);
  for_each([&](const TraceEntry& entry) {
    out += entry.signature + "\n";
    if (entry.derived) out += "  made from " + entry.derived_from + "\n";
    if (entry.tree.paths) explain_tree(entry.tree, out);
    explain_calls(entry, out);
    if (entry.eager)
      out += "  runs eagerly: " + entry.trouble + "\n";
    else if (!entry.trouble.empty())
      out += "  a run was not captured: " + entry.trouble + "\n";
    if (entry.is_slow) out += "  runs eagerly: " + entry.times_of_trial() + "\n";
  });
  if (full() && shared.load()) out += "calls of further signatures run eagerly: more than 1024\n";
  for (const auto& [rest, count] : listed)
    if (count > most_listed) {
      out += "calls with other values of what reads() lists run eagerly: more than 4\n";
      break;
    }
  return out.empty() ? "not called yet, or only while a tape recorded\n" : out;
}

Traces::Traces(TracedFunction function, TraceOptions options, Caller caller) try {
  std::unique_ptr<void, void (*)(void*)> owned(function.target, function.free);
  if (!(options.verify >= 0 && options.verify <= 1))
    fail<Error>(caller, "trace", "verify", "a number in [0, 1]", to_text(options.verify));
  options.verify = tracing::share_of_checks(options.verify);
  auto* const made = new TraceCache;
  head_ = made;
  made->function = function;
  made->options = options;
  made->state = first_state();
  made->tries = !environment_asks('1');
  owned.release();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "trace");
}
void Traces::reads(ReadObject object, Caller caller) const try {
  if (cache().begun)
    fail<Error>(caller, "reads", "call", "reads() before the first call", "a later one");
  head_->reads.push_back(object);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "reads");
}
void Traces::destroy(TraceHead* head) { delete static_cast<TraceCache*>(head); }
std::size_t Traces::count() const {
  std::size_t paths = 0;
  const Locked held(Lock::traces);
  cache().for_each([&](const TraceEntry& entry) { paths += entry.tree.paths - entry.derived; });
  return paths;
}
std::string Traces::explain() const try {
  return cache().explain();
} catch (const std::bad_alloc&) {
  fail_memory({}, "explain");
}
}  // namespace reel::detail
