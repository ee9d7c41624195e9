// SPDX-License-Identifier: BSD-3-Clause
// What other programs print; files of logs, and what reel-diff says of them.
#pragma once
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "debug/support.hpp"
#include "support/catch.hpp"

namespace reel::tests {
inline std::string log_file(const std::string& name) {
  return (std::filesystem::temp_directory_path() /
          ("reel_log." + std::to_string(getpid()) + "." + name))
      .string();
}
/// What a command prints, and its status.
inline std::string output_and_status(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  std::array<char, 4096> some;
  while (std::fgets(some.data(), some.size(), pipe)) text += some.data();
  const int status = pclose(pipe);
  return text + "status " + std::to_string(WEXITSTATUS(status)) + "\n";
}
inline std::string diff(const std::string& arguments) {
  return output_and_status("'" + build_folder() + "/lib/debug/reel-diff' " + arguments + " 2>&1");
}
}  // namespace reel::tests
