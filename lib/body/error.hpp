// SPDX-License-Identifier: BSD-3-Clause
// What errors need from higher modules.
#pragma once  // defined in lib/assemble.cpp
#include <string>
#include <string_view>
#include <utility>

#include <reel/caller.hpp>

namespace reel {
struct ErrorSource {
  /// An error is about to be made: the program may catch it.
  void (*begin)();
  /// The line that the error names.
  Caller (*line)(Caller caller);
  /// The name of the function that the user called, and the argument as this function names it.
  std::pair<std::string, std::string> (*names)(std::string_view op, std::string_view argument);
  /// Where in a larger call it is, such as the number of an example; may be empty.
  std::string (*place)();
  /// line() and names() without memory: the line and the name of the op replace what is given.
  void (*find_call)(Caller& caller, std::string_view& op);
  /// The error is about to be thrown.
  void (*tell)(const std::exception& error, std::string_view op, Caller caller) noexcept;
};
extern const ErrorSource error_source;
}  // namespace reel
