// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <reel/error.hpp>
#include <reel/progress.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "lib/body/utf8.hpp"

namespace reel::bench {
namespace {
double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

bool is_terminal(int descriptor) {
  const char* const type = std::getenv("TERM");
  return isatty(descriptor) && !(type && std::string_view(type) == "dumb");
}

/// Writes all or drops the rest.
void write_all(int descriptor, std::string_view text) {
  if (descriptor == STDOUT_FILENO) std::fflush(stdout);
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string duration(double seconds) {
  const auto all = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 3.6e9));
  const std::int64_t hours = all / 3600, minutes = all / 60 % 60;
  if (hours) return fmt::format("{}:{:02}:{:02}", hours, minutes, all % 60);
  return fmt::format("{}:{:02}", minutes, all % 60);
}

std::string rate_text(double rate) {
  return fmt::format("{:.{}f}", rate, rate < 10 ? 2 : rate < 100 ? 1 : 0);
}
}  // namespace

Progress::Progress(std::string_view unit, std::int64_t total, ProgressOptions options,
                   Caller caller) try
    : total_(total),
      descriptor_(options.descriptor),
      terminal_(is_terminal(options.descriptor)),
      pause_(options.pause_seconds >= 0 ? options.pause_seconds
             : terminal_                ? 0.2
                                        : 15),
      next_(pause_),
      start_(now()) {
  if (total < 0)
    fail<Error>(caller, "Progress", "total", "a number from 0", fmt::format("{}", total));
  unit_ = printable(unit);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Progress");
}

double Progress::seconds() const { return now() - start_; }

void Progress::show(std::int64_t done, std::string_view note) try {
  const double passed = seconds();
  const bool complete = total_ > 0 && done >= total_ && done_ < total_;
  if (!complete && passed < next_) return;
  next_ = passed + pause_;
  done_ = done;
  const double rate = passed > 0 ? static_cast<double>(done) / passed : 0;
  std::string line = fmt::format("{}", done);
  if (total_ > 0) line += fmt::format(" / {}", total_);
  line += fmt::format(" {}  {} {}/s", unit_, rate_text(rate), unit_);
  if (total_ == 0)
    line += fmt::format("  {} so far", duration(passed));
  else if (rate > 0)
    line += fmt::format("  {} left", duration(static_cast<double>(total_ - done) / rate));
  if (!note.empty()) line += "  " + printable(note);
  if (terminal_) {
    winsize size{};
    if (ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
      line.resize(first_characters(line, size.ws_col - 1u).size());
    line = "\r" + line + "\033[K";
  } else {
    line += '\n';
  }
  open_ = terminal_;
  write_all(descriptor_, line);
} catch (const std::bad_alloc&) {
  fail_memory({}, "Progress::show");
}

void Progress::end_line() {
  if (open_) write_all(descriptor_, "\n");
  open_ = false;
}
}  // namespace reel::bench
