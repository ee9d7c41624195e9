// SPDX-License-Identifier: BSD-3-Clause
// The answer to a command: lines, a table, and lines below it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <reel/debug.hpp>

namespace reel::debugger {
struct Answer {
  std::string error;  // what was expected; empty: the command was understood
  std::vector<std::string> lines;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> notes;
  bool goes_on = false;  // the program goes on

  std::string text() const;
  /// One line. Cells that are numbers are numbers.
  std::string json() const;
  std::string in(debug::Form form) const { return form == debug::Form::json ? json() : text(); }
};
/// With quotes, as JSON; bytes that are no UTF-8 become U+FFFD.
std::string json_text(std::string_view text);
}  // namespace reel::debugger
