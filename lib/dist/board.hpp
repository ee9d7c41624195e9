// SPDX-License-Identifier: BSD-3-Clause
// Where ranks post the collective that they are in: it says who is late, and who has died.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace reel::dist {
/// What a rank has posted of a lane.
struct Post {
  std::int64_t step = 0, call = 0;  // call 0: nothing yet
  std::string collective;
  bool waits = false;      // inside the collective
  double seconds_ago = 0;  // since it came, or, while it waits, since it was last seen alive
};

/// A text with a line for each lane of each rank. Processes of one host map one file.
class Board {
 public:
  static constexpr int lanes = 4;
  /// In memory, for threads.
  explicit Board(int ranks);
  /// In a file, which is made unless it exists. Without such a file it is in memory.
  Board(int ranks, const std::string& path);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  const std::string& path() const { return path_; }

  void post(int rank, int lane, std::int64_t step, std::int64_t call, std::string_view collective);
  /// Still inside the collective.
  void touch(int rank, int lane);
  void leave(int rank, int lane);
  /// The rank is stopped in a debugger, or goes on.
  void stop(int rank, bool stopped);
  /// Whether it is, and its process lives.
  bool is_stopped(int rank) const;
  Post read(int rank, int lane) const;
  /// The run has ended well.
  void remove();

 private:
  char* line(int rank, int lane) const;
  std::size_t bytes() const;
  int ranks_;
  std::string path_;
  char* text_;
  bool mapped_ = false;
};
/// Seconds of a clock that never jumps.
double seconds_now();
}  // namespace reel::dist
