// SPDX-License-Identifier: BSD-3-Clause
// How far a loop has come: one line rewritten in place on a terminal, elsewhere a line now and
// then.
#pragma once
#include <fmt/format.h>
#include <unistd.h>  // isatty

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>

class Progress {
 public:
  Progress(std::string_view unit, std::int64_t total) : unit_(unit), total_(total) {}

  void show(std::int64_t done, std::string_view note) {
    const double now = seconds();
    if (done < total_ && now < next_) return;
    next_ = now + pause_;
    const double rate = static_cast<double>(done) / now;
    const auto left = static_cast<int>(static_cast<double>(total_ - done) / rate);
    fmt::print("{}{} / {} {}  {:.0f} {}/s  {}:{:02} left  {}{}", terminal_ ? "\r" : "", done,
               total_, unit_, rate, unit_, left / 60, left % 60, note, terminal_ ? "\033[K" : "\n");
    std::fflush(stdout);
  }
  /// Before anything else is printed.
  void end_line() {
    if (terminal_) fmt::print("\n");
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::string_view unit_;
  std::int64_t total_;
  bool terminal_ = isatty(fileno(stdout)) != 0;
  double pause_ = terminal_ ? 0.2 : 15.0, next_ = pause_;  // seconds
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};
