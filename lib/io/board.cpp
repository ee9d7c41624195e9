// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/board.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include <reel/ops.hpp>

#include "lib/body/text.hpp"
#include "lib/io/wire.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace {
using io::Message;
constexpr std::size_t most_waiting = 1 << 20;  // bytes
}  // namespace

void SummaryWriter::Board::open(Caller caller) {
  io::make_folders(folder, op, caller);
  char host[65] = {};
  ::gethostname(host, 64);
  std::replace(host, host + sizeof host, '/', '_');
  char name[160];
  for (int number = 0; !file || !file->is_open(); ++number) {
    std::snprintf(name, sizeof name, "events.out.tfevents.%010.0f.%s.%d.%d",
                  std::floor(seconds_of(CLOCK_REALTIME)), host, process, number);
    file = std::make_unique<io::File>(folder + name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
    if (!file->is_open() && errno != EEXIST)
      io::fail_file(caller, op, folder, "a folder to write into", std::strerror(errno));
  }
}

/// Appends records, or nothing where memory ends.
void SummaryWriter::Board::add(std::string_view records, std::int64_t count, const Tensor* value) {
  bool due;
  {
    const Locked lock(Lock::boards);
    if (value) late.push_back({waiting.size(), *value});
    try {
      waiting.append(records);
    } catch (...) {
      if (value) late.pop_back();
      throw;
    }
    waiting_records += count;
    due = waiting.size() >= most_waiting || seconds_of(CLOCK_MONOTONIC) >= next_flush;
  }
  if (due) flush(false);
}

/// One thread writes at a time, outside of the lock. A call that must not wait leaves its events to
/// a later flush.
void SummaryWriter::Board::flush(bool wait) {
  if (::getpid() != process) return;
  while (true) {
    std::string records;
    std::vector<Late> values;
    std::int64_t count = 0;
    bool mine;
    {
      const Locked lock(Lock::boards);
      mine = !std::exchange(busy, true);
      if (mine) {
        next_flush = seconds_of(CLOCK_MONOTONIC) + flush_seconds;
        records.swap(waiting);
        values.swap(late);
        count = std::exchange(waiting_records, 0);
      }
    }
    if (!mine && !wait) return;
    if (!mine) {
      ::usleep(100);
      continue;
    }
    const std::int64_t done = write(records, values, count);
    const Locked lock(Lock::boards);
    busy = false;
    lost += count - done;
    return;
  }
}

/// The number of records that are in the file then.
std::int64_t SummaryWriter::Board::write(std::string& records, std::vector<Late>& values,
                                         std::int64_t count) {
  for (auto value = values.rbegin(); value != values.rend(); ++value) {
    char* const record = records.data() + value->offset;
    const std::size_t size = io::record_size(record);
    try {
      const float number = value->value.to(DType::float32).item<float>();
      std::memcpy(record + size - io::record_tail - sizeof number, &number, sizeof number);
      io::seal_record(record);
    } catch (const std::exception& error) {
      tell(folder, error.what());
      records.erase(value->offset, size);
    }
  }
  try {
    if (written == 0) {
      std::string version;
      const double now = seconds_of(CLOCK_REALTIME);
      io::append_record(version, Message().number(1, now).bytes(3, "brain.Event:2").view());
      io::seal_record(version.data());
      const std::size_t done = file->write(version.data(), version.size());
      if (done == version.size()) {
        written = done;
      } else {
        tell(folder, std::strerror(errno));
        if (done > 0 && ::ftruncate(file->descriptor(), 0) != 0) file->close();
        return 0;
      }
    }
  } catch (const std::bad_alloc&) {
    tell(folder, "no memory");
    return 0;
  }
  const std::size_t done = file->write(records.data(), records.size());
  if (done < records.size()) tell(folder, std::strerror(errno));
  std::size_t whole = 0;
  std::int64_t stored = 0;
  for (; whole < done; ++stored) {
    const std::size_t next = whole + io::record_size(records.data() + whole);
    if (next > done) break;
    whole = next;
  }
  // Readers stop at a cut record, and would not see what follows it.
  written += whole;
  if (whole < done && ::ftruncate(file->descriptor(), static_cast<off_t>(written)) != 0)
    file->close();
  return std::min(stored, count);
}

void SummaryWriter::Board::tell(const io::Path& path, const char* reason) {
  if (!std::exchange(warned, true))
    std::fprintf(stderr, "reel: SummaryWriter: events are lost: %.200s: %.200s\n", path.c_str(),
                 reason);
}

bool SummaryWriter::Board::save(const io::Path& path, int flags, std::string_view bytes) {
  io::File to(path, O_WRONLY | O_CREAT | flags);
  if (to.is_open() && to.write_all(bytes.data(), bytes.size()) && to.close()) return true;
  const int reason = errno;
  const Locked lock(Lock::boards);
  tell(path, std::strerror(reason));
  return false;
}

SummaryWriter::SummaryWriter(const io::Path& folder, SummaryOptions options, Caller caller) try {
  if (!(options.flush_seconds >= 0))
    fail<Error>(caller, Board::op, "flush_seconds", "0 or more", to_text(options.flush_seconds));
  if (folder.empty() || folder.find('\0') != folder.npos)
    io::fail_file(caller, Board::op, folder, "a path without a byte 0",
                  folder.empty() ? "none" : "one with it");
  auto board = std::make_unique<Board>(
      Board{folder.ends_with('/') ? folder : folder + "/", options.flush_seconds});
  board->open(caller);
  board->flush(true);
  board_ = board.release();
} catch (const std::bad_alloc&) {
  fail_memory(caller, Board::op);
}
SummaryWriter::~SummaryWriter() {
  board_->flush(true);
  delete board_;
}
void SummaryWriter::flush() { board_->flush(true); }
std::int64_t SummaryWriter::lost() const {
  const Locked lock(Lock::boards);
  return board_->lost;
}
}  // namespace reel
