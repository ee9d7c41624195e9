// SPDX-License-Identifier: BSD-3-Clause
// What was captured of a function, by signature. Calls read it without a lock; entries stay where
// they are until the function goes.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <reel/trace.hpp>

#include "lib/trace/plan.hpp"

namespace reel::detail {
using Key = std::vector<std::uint64_t>;

struct TraceEntry {
  Key key;
  std::uint64_t hash = 0;
  std::vector<Variable> variables;  // that the key names
  TraceEntry* next = nullptr;
  std::atomic<tracing::Plan*> plan = nullptr;  // the newest
  std::atomic<bool> eager = false;

  mutable std::mutex mutex;  // of what follows
  tracing::Tree tree;
  std::vector<std::unique_ptr<tracing::Plan>> plans;  // others may still run an older one
  std::string signature, trouble;
  int failures = 0;

  /// Takes a way in. False if the tree cannot hold it.
  bool publish(const tracing::Capture& way);
  /// Calls run eagerly from now on, `now` or when it has happened often enough.
  bool give_up(std::string why, bool now);
};

struct TraceBook {
  std::uint32_t references = 1;
  void* function = nullptr;
  void (*free)(void*) = nullptr;
  std::array<std::atomic<TraceEntry*>, 64> buckets = {};
  std::mutex mutex;  // of adding entries
  std::atomic<bool> warned = false;

  ~TraceBook();
  TraceEntry* find(const Key& key, std::uint64_t hash) const;
  TraceEntry& find_or_add(const Key& key, std::uint64_t hash,
                          const std::vector<const Variable*>& variables, std::string signature);
  std::string explain() const;
};
}  // namespace reel::detail
