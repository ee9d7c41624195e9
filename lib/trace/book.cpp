// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/book.hpp"

#include <algorithm>
#include <utility>

#include "lib/dispatch/process.hpp"

namespace reel::detail {
namespace {
constexpr int most_failures = 3, most_skips = 64;
constexpr std::size_t most_ways = 64, most_signatures = 1024;

std::string line_of(Caller site) {
  return site.file ? std::string(site.file) + ":" + std::to_string(site.line) : "an unknown line";
}

std::string describe(const tracing::Layout& layout) {
  return std::string(name_of(layout.dtype)) + to_text(layout.shape);
}

void explain_tree(const tracing::Tree& tree, std::string& out) {
  std::size_t steps = 0, constants = 0, bytes = 0;
  std::string list;
  for (const tracing::Segment& segment : tree.segments) steps += segment.steps.size();
  for (const tracing::Value& value : tree.values) {
    if (value.kind != tracing::Value::Kind::constant || !value.layout.elements) continue;
    ++constants;
    bytes += static_cast<std::size_t>(value.layout.bytes());
    if (constants <= 8) list += (list.empty() ? "" : ", ") + describe(value.layout);
  }
  out += "  " + std::to_string(tree.ways) + (tree.ways == 1 ? " way, " : " ways, ") +
         std::to_string(steps) + " steps\n";
  for (std::size_t i = 0; i < tree.variables.size(); ++i)
    out += (i ? ", " : "  Variables: ") + tree.variables[i].name();
  if (!tree.variables.empty()) out += "\n";
  if (constants)
    out += "  constants: " + list + (constants > 8 ? ", ..." : "") + " (" +
           std::to_string(constants) + ", " + std::to_string(bytes) + " bytes)\n";
  for (const tracing::Segment& segment : tree.segments)
    if (!segment.branches.empty())
      out += "  parts by a value of " + line_of(segment.question.site) + ": " +
             std::to_string(segment.branches.size()) +
             (segment.branches.size() == 1 ? " answer\n" : " answers\n");
}
}  // namespace

// Results that trees keep are of a user's types: their destructors run when nothing is locked.
bool TraceEntry::publish(const tracing::Capture& way) {
  tracing::Tree dropped;
  const Locked held(Lock::traces);
  const std::size_t before = tree.ways;
  if (before >= most_ways) {
    Caller site;
    for (const tracing::Segment& segment : tree.segments)
      if (segment.branches.size() > 1) site = segment.question.site;
    return run_eagerly("more than 64 ways through it, which part by a value of " + line_of(site));
  }
  tracing::Tree grown = tree;  // nothing changes before all memory is there
  if (!grown.add(way))
    return restart_locked("it took another way although no value that it read was another",
                          dropped);
  if (grown.ways == before) return true;  // another thread was here first
  plans.push_back(std::make_unique<tracing::Plan>(grown));
  tree = std::move(grown);
  tracing::Plan* const older = plan.exchange(plans.back().get(), std::memory_order_acq_rel);
  if (older) older->retire();
  trouble.clear();
  return true;
}

bool TraceEntry::knows(const tracing::Capture& way) const {
  tracing::Tree known;
  const Locked held(Lock::traces);
  known = tree;
  return known.add(way) && known.ways == tree.ways;
}

bool TraceEntry::run_eagerly(std::string why) {
  trouble = std::move(why);
  eager = true;
  return false;
}

bool TraceEntry::skip(std::string why) {
  const Locked held(Lock::traces);
  if (++failures >= (tree.ways ? most_skips : most_failures)) return run_eagerly(std::move(why));
  trouble = std::move(why);
  return true;
}

bool TraceEntry::restart(std::string why) {
  tracing::Tree dropped;
  const Locked held(Lock::traces);
  return restart_locked(std::move(why), dropped);
}
bool TraceEntry::restart_locked(std::string why, tracing::Tree& dropped) {
  if (++failures >= most_failures) return run_eagerly(std::move(why));
  trouble = std::move(why);
  std::swap(tree, dropped);
  if (tracing::Plan* const older = plan.exchange(nullptr, std::memory_order_acq_rel))
    older->retire();
  return true;
}

TraceBook::~TraceBook() {
  free(function);
  for (auto& bucket : buckets)
    for (TraceEntry* entry = bucket.load(); entry;) delete std::exchange(entry, entry->next);
}

TraceEntry* TraceBook::find(const Key& key, std::uint64_t hash) const {
  for (TraceEntry* entry = buckets[hash % 64].load(std::memory_order_acquire); entry;
       entry = entry->next)
    if (entry->hash == hash && entry->key == key) return entry;
  return nullptr;
}

TraceEntry* TraceBook::find_or_add(const Key& key, std::uint64_t hash,
                                   const std::vector<const Variable*>& variables,
                                   std::string signature) {
  const Locked held(Lock::traces);
  if (TraceEntry* found = find(key, hash)) return found;
  if (full()) return nullptr;
  auto made = std::make_unique<TraceEntry>();
  made->key = key;
  made->hash = hash;
  for (const Variable* variable : variables) made->variables.push_back(*variable);
  made->signature = std::move(signature);
  auto& bucket = buckets[hash % 64];
  made->next = bucket.load(std::memory_order_relaxed);
  bucket.store(made.get(), std::memory_order_release);
  __atomic_fetch_add(&entries, 1u, __ATOMIC_RELAXED);
  return made.release();
}

bool TraceBook::full() const {
  return __atomic_load_n(&entries, __ATOMIC_RELAXED) >= most_signatures;
}

std::string TraceBook::explain() const {
  std::string out;
  for (const auto& bucket : buckets)
    for (const TraceEntry* entry = bucket.load(std::memory_order_acquire); entry;
         entry = entry->next) {
      const Locked held(Lock::traces);
      out += entry->signature + "\n";
      if (entry->tree.ways) explain_tree(entry->tree, out);
      if (entry->eager)
        out += "  runs eagerly: " + entry->trouble + "\n";
      else if (!entry->trouble.empty())
        out += "  a run was not captured: " + entry->trouble + "\n";
    }
  if (full()) out += "calls of further signatures run eagerly: more than 1024\n";
  return out.empty() ? "not called yet, or only while a tape recorded\n" : out;
}

Traces::Traces(void* function, void (*free)(void*)) try {
  std::unique_ptr<void, void (*)(void*)> owned(function, free);
  book_ = new TraceBook;
  book_->function = owned.release();
  book_->free = free;
} catch (const std::bad_alloc&) {
  fail_memory({}, "trace");
}
Traces::Traces(const Traces& other) noexcept : book_(other.book_) {
  add_reference(book_->references);
}
Traces& Traces::operator=(Traces other) noexcept {
  std::swap(book_, other.book_);
  return *this;
}
Traces::~Traces() {
  if (drop_reference(book_->references)) delete book_;
}
void* Traces::function() const { return book_->function; }
std::size_t Traces::count() const {
  std::size_t ways = 0;
  for (const auto& bucket : book_->buckets)
    for (const TraceEntry* entry = bucket.load(std::memory_order_acquire); entry;
         entry = entry->next) {
      const Locked held(Lock::traces);
      ways += entry->tree.ways;
    }
  return ways;
}
std::string Traces::explain() const try { return book_->explain(); } catch (const std::bad_alloc&) {
  fail_memory({}, "explain");
}
}  // namespace reel::detail
