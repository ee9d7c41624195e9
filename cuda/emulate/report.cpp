// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/report.hpp"

#include <unistd.h>

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "cuda/emulate/grid.hpp"

namespace reel::emulate {
namespace {
// Written at once and without a lock, because a signal handler may report.
void write_line(const char* start, const char* format, va_list values) {
  char line[512];
  const int head = std::snprintf(line, sizeof(line), "%s", start);
  const int body =
      std::vsnprintf(line + head, sizeof(line) - std::size_t(head) - 1, format, values);
  std::size_t length = std::size_t(head) + std::size_t(body < 0 ? 0 : body);
  if (length > sizeof(line) - 2) length = sizeof(line) - 2;
  line[length] = '\n';
  if (write(STDERR_FILENO, line, length + 1) < 0) std::abort();
}
}  // namespace

void explain(const char* format, ...) {
  va_list values;
  va_start(values, format);
  write_line("emulator:   ", format, values);
  va_end(values);
}

void report(const char* format, ...) {
  va_list values;
  va_start(values, format);
  write_line("emulator: ", format, values);
  va_end(values);
  explain_thread();
  std::abort();
}
}  // namespace reel::emulate
