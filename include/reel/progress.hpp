// SPDX-License-Identifier: BSD-3-Clause
// How far a loop has come: one line that is rewritten on a terminal, elsewhere a line now and then.
#pragma once        // defined in lib/bench
#include <cstdint>  // std::int64_t
#include <string>   // std::string
#include <string_view>

#include <reel/caller.hpp>
#include <reel/export.hpp>

namespace reel::bench {
/// Options of Progress.
struct ProgressOptions {
  int descriptor = 1;         // the file or terminal that is written to; 1 is stdout, 2 is stderr
  double pause_seconds = -1;  // between two lines; below 0, 0.2 on a terminal and 15 elsewhere
};

/// Shows how far a loop has come.
///
///     bench::Progress progress("images", 60'000);
///     for (int i = 1; i <= 60'000; ++i) {
///       const float loss = step(i);
///       progress.show(i, "loss " + std::to_string(loss));
///     }
///
/// A line has what is done, the rate, the time that is left and the note:
///
///     1200 / 60000 images  35.2 images/s  27:50 left  loss 0.31
///
/// A terminal has one line, no longer than the terminal is wide. A file or a pipe has a line every
/// 15 s, without control characters. Control characters of the unit and of the note become spaces.
/// For one thread.
class REEL_API Progress {
 public:
  /// `unit` names what is counted. If the total is 0, it is not known: then lines have the time so
  /// far, not the time that is left. Throws Error for a negative total.
  explicit Progress(std::string_view unit, std::int64_t total = 0, ProgressOptions options = {},
                    Caller caller = Caller::here());
  /// Ends the line.
  ~Progress() { end_line(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Writes a line if the last one is old enough, or if everything is done now. `done` counts from
  /// the beginning. A write that fails is dropped.
  void show(std::int64_t done, std::string_view note = {});
  /// Ends the line on a terminal, before the program prints something else.
  void end_line();
  /// Seconds since the constructor.
  double seconds() const;

 private:
  std::string unit_;
  std::int64_t total_, done_ = -1;  // the last that a line showed
  int descriptor_;
  bool terminal_, open_ = false;  // open_: the line has no end yet
  double pause_, next_, start_;   // seconds
};
}  // namespace reel::bench
