// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dist/board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

namespace reel::dist {
namespace {
// "rank    3 lane 0 step            12 call            45 waits in all_reduce      at
// 1764352000123\n"
constexpr std::size_t width = 96;
constexpr std::size_t step_at = 21, call_at = 39, number = 12, state_at = 52, kind_at = 58,
                      kind_width = 18, time_at = 80, time_width = 15;
std::int64_t milliseconds() {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}
// Others read a line while its rank writes it.
void put(char* at, std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) __atomic_store_n(at + i, text[i], __ATOMIC_RELAXED);
}
char get(const char* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
/// Right-aligned decimal digits.
void put(char* at, std::size_t digits, std::int64_t value) {
  for (std::size_t i = digits; i-- > 0; value /= 10)
    __atomic_store_n(at + i, value || i + 1 == digits ? static_cast<char>('0' + value % 10) : ' ',
                     __ATOMIC_RELAXED);
}
std::int64_t take(const char* at, std::size_t digits) {
  std::int64_t value = 0;
  for (std::size_t i = 0; i < digits; ++i)
    if (const char digit = get(at + i); digit >= '0' && digit <= '9')
      value = value * 10 + (digit - '0');
  return value;
}
}  // namespace

double seconds_now() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::size_t Board::bytes() const { return static_cast<std::size_t>(ranks_) * lanes * width; }
char* Board::line(int rank, int lane) const {
  return text_ + static_cast<std::size_t>(rank * lanes + lane) * width;
}

Board::Board(int ranks) : Board(ranks, {}) {}
Board::Board(int ranks, const std::string& path) : ranks_(ranks), text_(nullptr) {
  // O_NOFOLLOW and the owner: the folder may be one that everybody writes to.
  const int file = path.empty() ? -1
                                : ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                                         S_IRUSR | S_IWUSR);
  struct stat found;
  if (file >= 0 && ::fstat(file, &found) == 0 && found.st_uid == ::geteuid() &&
      ::ftruncate(file, static_cast<off_t>(bytes())) == 0) {
    void* const memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) {
      text_ = static_cast<char*>(memory);
      mapped_ = true;
      path_ = path;
    }
  }
  if (file >= 0) ::close(file);
  if (!text_) {
    text_ = new char[bytes()];
    std::memset(text_, 0, bytes());
  }
}
Board::~Board() {
  if (mapped_)
    ::munmap(text_, bytes());
  else
    delete[] text_;
}

void Board::post(int rank, int lane, std::int64_t step, std::int64_t call,
                 std::string_view collective) {
  if (lane >= lanes) return;
  char* const at = line(rank, lane);
  if (at[0] != 'r') {
    char begin[128];
    std::snprintf(begin, sizeof begin, "rank %4d lane %d step%13scall%14s%25sat%16s\n",
                  rank % 10000, lane, "", "", "", "");
    put(at, begin);
  }
  put(at + kind_at, "                  ");
  put(at + kind_at, collective.substr(0, kind_width));
  put(at + step_at, number, step);
  put(at + time_at, time_width, milliseconds());
  put(at + state_at, "waits");
  // Last: whoever reads this number may read the rest.
  put(at + call_at, number, call);
}
void Board::touch(int rank, int lane) {
  if (lane < lanes) put(line(rank, lane) + time_at, time_width, milliseconds());
}
void Board::leave(int rank, int lane) {
  if (lane < lanes) put(line(rank, lane) + state_at, "ended");
}
void Board::stop(int rank, bool stopped) {
  char* const at = line(rank, 0);
  if (at[0] != 'r') post(rank, 0, 0, 0, "");
  touch(rank, 0);
  put(at + state_at, stopped ? "stops" : "ended");
}
bool Board::is_stopped(int rank) const {
  constexpr std::int64_t alive = 5000;  // milliseconds; its watchdog shows more often that it lives
  const char* const at = line(rank, 0);
  return get(at) == 'r' && get(at + state_at) == 's' &&
         milliseconds() - take(at + time_at, time_width) < alive;
}
Post Board::read(int rank, int lane) const {
  if (lane >= lanes) return {};
  const char* const at = line(rank, lane);
  if (get(at) != 'r') return {};
  std::string kind;
  for (std::size_t i = 0; i < kind_width && get(at + kind_at + i) != ' '; ++i)
    kind += get(at + kind_at + i);
  return {take(at + step_at, number), take(at + call_at, number), kind, get(at + state_at) == 'w',
          1e-3 * static_cast<double>(milliseconds() - take(at + time_at, time_width))};
}
void Board::remove() {
  if (mapped_) ::unlink(path_.c_str());
}
}  // namespace reel::dist
