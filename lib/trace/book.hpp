// SPDX-License-Identifier: BSD-3-Clause
// What was captured of a function, by signature. Calls read it without a lock; entries stay where
// they are until the function goes.
#pragma once
#include <array>
#include <atomic>
#include <memory>
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

  // What follows is behind Lock::traces.
  tracing::Tree tree;
  std::vector<std::unique_ptr<tracing::Plan>> plans;  // others may still run an older one
  std::string signature, trouble;
  int failures = 0;

  /// Takes a way in. False if calls run eagerly from now on.
  bool publish(const tracing::Capture& way);
  /// Whether a run that was checked against a replay went a way that is known.
  bool knows(const tracing::Capture& way) const;
  /// A run could not be captured. False if calls run eagerly from now on, after several such.
  bool skip(std::string why);
  /// What was captured does not hold: it is begun anew, or false.
  bool restart(std::string why);
  bool run_eagerly(std::string why);

 private:
  bool restart_locked(std::string why, tracing::Tree& dropped);
};

struct TraceBook {
  std::uint32_t references = 1;
  void* function = nullptr;
  void (*free)(void*) = nullptr;
  std::array<std::atomic<TraceEntry*>, 64> buckets = {};
  std::atomic<bool> warned = false;
  std::size_t entries = 0;  // added behind Lock::traces

  ~TraceBook();
  TraceEntry* find(const Key& key, std::uint64_t hash) const;
  /// Null if there are too many.
  TraceEntry* find_or_add(const Key& key, std::uint64_t hash,
                          const std::vector<const Variable*>& variables, std::string signature);
  bool full() const;
  std::string explain() const;
};
}  // namespace reel::detail
