// SPDX-License-Identifier: BSD-3-Clause
// R9, R14, R29: a hostile call gives the right answer or our error, and leaves nothing behind.
#pragma once
#include <exception>
#include <string>

#include "lib/dispatch/context.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
/// What a thread holds between calls.
struct ThreadState {
  std::uint8_t mode = Context::here().mode;
  const char* site = Context::here().site.file;
  std::string_view site_name = Context::here().site_name, function = Context::here().function;
  Stage* stages = Context::here().stages;
  void* generator = Context::here().generator;
  bool training = Context::here().training;
  Device device = Context::here().device;
  std::uint64_t tapes = Context::here().reel.alive, active = Context::here().reel.active;
  std::int64_t live_tensors = memory_statistics().live_tensors;
  std::int64_t live_records = memory_statistics().live_records;
  friend bool operator==(const ThreadState&, const ThreadState&) = default;
};

/// What an error says; empty if there was none.
template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    FAIL_CHECK("foreign exception: " << error.what());
  }
  return {};
}

/// Ops that no user calls by their name.
inline bool is_inner(std::string_view op) {
  for (std::string_view inner : {"assign_slice", "fill", "random", "scatter", "scatter_elements",
                                 "slice", "sum_to", "unslice"})
    if (op == inner) return true;
  return false;
}

/// The message names `op`, or, where that is empty, what a user may call.
inline void check_message(const std::string& message, std::string_view op, unsigned line) {
  const std::string first = message.substr(0, message.find('\n'));
  const std::string site = "errors.cpp:" + std::to_string(line) + ": ";
  INFO(message);
  CHECK(first.size() <= 200);
  CHECK(first.substr(0, site.size()) == site);
  const std::string name = first.substr(site.size(), first.find(": ", site.size()) - site.size());
  CHECK((op.empty() ? !is_inner(name) : first.find(op) != std::string::npos));
  CHECK(first.find("expected ") != std::string::npos);
  CHECK(first.find(", got ") != std::string::npos);
}

/// f may throw an error of ours; the thread is as before.
template <class F>
bool survives(std::string_view op, unsigned line, F f) {
  const ThreadState before;
  const std::string message = message_of(f);
  CHECK((ThreadState() == before));
  if (message.empty()) return true;
  check_message(message, op, line);
  return false;
}
}  // namespace reel::tests
