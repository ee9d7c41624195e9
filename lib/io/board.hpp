// SPDX-License-Identifier: BSD-3-Clause
// The event file of a SummaryWriter, and the events that wait for it.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <reel/io/summary_writer.hpp>
#include <reel/tensor.hpp>

#include "lib/io/file.hpp"

namespace reel {
inline double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct SummaryWriter::Board {
  struct Late {  // a scalar whose number is read at the flush
    std::size_t offset;
    Tensor value;
  };
  io::Path folder;  // with a slash at its end
  double flush_seconds;
  std::unique_ptr<io::File> file = nullptr;
  pid_t process = ::getpid();
  std::size_t written = 0;  // bytes of the file; used by the thread that is `busy`
  bool warned = false;
  // What follows is used under Lock::boards.
  double next_flush = 0;
  bool busy = false;  // a thread writes
  std::string waiting = {};
  std::vector<Late> late = {};
  std::int64_t waiting_records = 0, lost = 0;

  static constexpr std::string_view op = "SummaryWriter";
  void open(Caller caller);
  void add(std::string_view record, std::int64_t count = 1, const Tensor* value = nullptr);
  void flush(bool wait);
  std::int64_t write(std::string& records, std::vector<Late>& values, std::int64_t count);
  bool save(const io::Path& path, int flags, std::string_view bytes);
  void tell(const io::Path& path, const char* reason);
};
}  // namespace reel
