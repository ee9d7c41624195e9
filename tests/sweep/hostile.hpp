// SPDX-License-Identifier: BSD-3-Clause
// R9, R14, R29: a hostile call gives the right result or an error of the library, and changes no
// state.
#pragma once
#include <exception>
#include <string>

#include "support/late.hpp"
#include "support/thread_state.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
/// The message of the error; empty if there was none.
template <class F>
std::string message_of(F f) {
  try {
    f();
    await_errors();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    FAIL_CHECK("foreign exception: " << error.what());
  }
  return {};
}

/// Whether users cannot call this op by its name.
inline bool is_inner(std::string_view name) {
  const Op* const op = OpTable::the().find(name);
  return op && op->internal;
}

/// Checks that the message names `op`. If `op` is empty, it must name an op that users may call.
inline void check_message(const std::string& message, std::string_view op, unsigned line) {
  const std::string first = message.substr(0, message.find('\n'));
  const std::string caller = "errors.cpp:" + std::to_string(line) + ": ";
  INFO(message);
  CHECK(first.size() <= 200);
  CHECK(first.substr(0, caller.size()) == caller);
  const std::string name =
      first.substr(caller.size(), first.find(": ", caller.size()) - caller.size());
  CHECK((op.empty() ? !is_inner(name) : first.find(op) != std::string::npos));
  CHECK(first.find("expected ") != std::string::npos);
  CHECK(first.find(", got ") != std::string::npos);
}

/// f may throw an error of the library. Checks that the state of the thread is unchanged.
template <class F>
bool survives(std::string_view op, unsigned line, F f) {
  const ThreadState before = state();
  const std::string message = message_of(f);
  CHECK((state() == before));
  if (message.empty()) return true;
  check_message(message, op, line);
  return false;
}
}  // namespace reel::tests
