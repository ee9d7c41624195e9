// SPDX-License-Identifier: BSD-3-Clause
// What a traced function no longer keeps of its signatures.
#include <algorithm>

#include "lib/pool/process.hpp"
#include "lib/trace/cache.hpp"

namespace reel::detail {
namespace {
/// Calls visit(body) for each constant, those of loops too.
template <class Visit>
void visit_constants(const graph::Graph& graph, const Visit& visit) {
  for (const graph::Value& value : graph.values)
    if (value.kind == graph::Value::Kind::constant && value.constant.defined())
      visit(*Access::body(value.constant));
  for (const graph::Segment& segment : graph.segments)
    for (const graph::Step& step : segment.steps)
      if (step.loop)
        for (const graph::Graph* body : step.loop->bodies()) visit_constants(*body, visit);
}
/// The values of a plan, and the memory that they share, unless it is given back after each call.
std::int64_t bytes_of(const tracing::Plan& plan) {
  constexpr std::size_t each = sizeof(graph::Value) + sizeof(Body) + sizeof(Instruction);
  const bool keeps = plan.scratch_bytes <= tracing::most_kept_bytes;
  return static_cast<std::int64_t>(keeps * plan.scratch_bytes + each * plan.tree.values.size());
}
}  // namespace

void TraceCache::count_memory(TraceEntry& entry, bool is_dropped) {
  for (const void* each : entry.constants) {
    const auto known = constants.find(each);
    if (--known->second.first) continue;
    bytes -= known->second.second;
    constants.erase(known);
  }
  entry.constants.clear();
  bytes -= std::exchange(entry.bytes, 0);
  const tracing::Plan* const plan = entry.plan.load(std::memory_order_relaxed);
  if (is_dropped || !plan) return;
  visit_constants(plan->tree, [&](const Body& body) {
    auto& [holders, size] = constants[body.data];
    entry.constants.push_back(body.data);
    if (holders++) return;
    bytes += size = body.bytes();
  });
  bytes += entry.bytes = bytes_of(*plan);
}

void TraceCache::drop(TraceEntry& entry, Dropped& dropped) {
  dropped.reserve(dropped.size() + 1);
  count_memory(entry, true);
  auto& bucket = buckets[entry.hash % 64];
  TraceEntry* before = bucket.load(std::memory_order_relaxed);
  if (before == &entry) {
    bucket.store(entry.next, std::memory_order_release);
  } else {
    while (before->next != &entry) before = before->next;
    before->next = entry.next;
  }
  if (last.load(std::memory_order_relaxed) == &entry) last = nullptr;
  __atomic_fetch_sub(&entries, 1u, __ATOMIC_RELAXED);
  dropped.emplace_back(&entry);
}

bool TraceCache::drop_oldest(const TraceEntry* current, Dropped& dropped) {
  TraceEntry* oldest = nullptr;
  for_each([&](TraceEntry& entry) {
    if (&entry != current && &entry != last.load(std::memory_order_relaxed) &&
        entry.may_free(shared) && (!oldest || entry.used < oldest->used))
      oldest = &entry;
  });
  if (oldest) drop(*oldest, dropped);
  return oldest;
}

void TraceCache::drop_unreachable(Dropped& dropped) {
  added = 0;
  std::unordered_map<const Cell*, std::uint32_t> held;  // the references of entries
  const auto hold = [&](const std::vector<Variable>& variables) {
    for (const Variable& each : variables) ++held[&Access::cell(each)];
  };
  for_each([&](const TraceEntry& entry) {
    hold(entry.variables);
    hold(entry.tree.variables);
    for (const auto& plan : entry.plans) hold(plan->tree.variables);
  });
  const auto is_lost = [&](const Variable& each) {
    const Cell& cell = Access::cell(each);
    return __atomic_load_n(&cell.references, __ATOMIC_RELAXED) == held[&cell];
  };
  std::vector<TraceEntry*> lost;
  for_each([&](TraceEntry& entry) {
    if (entry.may_free(shared) &&
        std::any_of(entry.variables.begin(), entry.variables.end(), is_lost))
      lost.push_back(&entry);
  });
  for (TraceEntry* each : lost) drop(*each, dropped);
}

bool TraceCache::keep_within_memory(TraceEntry& current, bool nested) {
  Dropped dropped;
  const Locked held(Lock::traces);
  count_memory(current, false);
  while (may_drop(nested) && bytes > options.memory && drop_oldest(&current, dropped)) {
  }
  for (const auto& each : dropped) ++drops[each->hash];
  return !dropped.empty();
}
}  // namespace reel::detail
