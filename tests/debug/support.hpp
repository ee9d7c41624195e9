// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include <reel/debug.hpp>
#include <reel/reel.hpp>

namespace reel::tests {
/// The folder of the build, as this program is in its folder tests.
inline std::string build_folder() {
  std::array<char, 4096> path = {};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return "";
  std::string self = path.data();
  self.resize(self.rfind('/'));
  return self.substr(0, self.rfind('/'));
}
/// Names the debugger for this program and for those that it starts.
inline const int debugger_is_named =
    setenv("REEL_DEBUG_LIBRARY", (build_folder() + "/lib/debug/libreel_debug.so").c_str(), 0);

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
}  // namespace reel::tests
