// SPDX-License-Identifier: BSD-3-Clause
// Child processes of the test program: forks, and new runs of it.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace reel::tests {
extern bool in_child;

/// Whether f is true in a child of this process.
template <class F>
bool true_in_child(const F& f) {
  const pid_t child = fork();
  if (child == 0) {
    in_child = true;
    _exit(f() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

/// What a shell command prints to stdout and stderr.
inline std::string output_of(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 256> part;
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe)) text += part.data();
  pclose(pipe);
  return text;
}
/// What a hidden test of this program prints with other environment variables.
inline std::string printed_under(const std::string& tag, const std::string& variables) {
  std::array<char, 4096> path = {};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return "no path";
  return output_of("unset REEL_NUM_THREADS OMP_NUM_THREADS; " + variables + " '" + path.data() +
                   "' '" + tag + "' 2>&1");
}
}  // namespace reel::tests
