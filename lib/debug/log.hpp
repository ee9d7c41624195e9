// SPDX-License-Identifier: BSD-3-Clause
// A file with a line for each result, which reel-diff compares with another one.
#pragma once
#include <cstdio>

#include "lib/debug/recorder.hpp"

namespace reel::debugger {
/// The first line of a log. The version changes with the form. The second line says which library
/// and which machine have written it.
inline constexpr std::string_view log_title = "reel log 2";
inline constexpr std::string_view log_columns =
    "step\tnumber\top\tline\tdtype\tshape\tlow\thigh\tnorm\thash";

class LogRecorder : public Recorder {
 public:
  LogRecorder(std::string_view path, const debug::LogOptions& options, Caller caller);
  ~LogRecorder() override;
  void noted(const Step& step, int node) override;
  /// A line in the logs of this thread, which says that the run is edited.
  static void mark_edited(const std::string& what);

 private:
  std::string path_;
  std::FILE* file_;
  bool hash_;
};
}  // namespace reel::debugger
