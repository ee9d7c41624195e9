// SPDX-License-Identifier: BSD-3-Clause
// Shared by the tests of threads.
#pragma once
#include <exception>
#include <string>
#include <thread>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
/// Restores the number of threads at its end.
struct KeepThreads {
  int before = num_threads();
  ~KeepThreads() { set_num_threads(before); }
};

/// f(), run on another thread.
inline Tensor elsewhere(const detail::Function<Tensor()>& f) {
  Tensor result;
  std::exception_ptr error;
  std::thread([&] {
    try {
      result = f();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
  return result;
}
/// The text of the TapeError that f throws; empty if it throws none.
inline std::string refusal(const detail::Function<void()>& f) {
  try {
    f();
  } catch (const TapeError& error) {
    return error.what();
  }
  return "";
}
/// On this thread f uses a value that another thread computed from a tensor of the tape. Checks
/// that this is refused, and that both lines are named, in the file of this call.
inline void check_cross_thread(const detail::Function<void()>& f,
                               const std::string& path = __builtin_FILE()) {
  const std::string text = refusal(f), first = text.substr(0, text.find('\n'));
  const std::string file = path.substr(path.rfind('/') + 1) + ":";
  INFO("got: " << text);
  CHECK(first.rfind(file, 0) == 0);
  CHECK(first.find("another thread") != first.npos);
  CHECK(first.find("(" + file) != first.npos);
  CHECK(first.size() <= 200);
}
}  // namespace reel::tests
