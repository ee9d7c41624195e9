// SPDX-License-Identifier: BSD-3-Clause
// What a call writes to stderr.
#pragma once
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace reel::tests {
/// What the call writes to stderr.
template <class Call>
std::string on_stderr(const Call& call) {
  const std::string path = "/tmp/reel_test_stderr_" + std::to_string(getpid());
  std::fflush(stderr);
  const int before = dup(2);
  std::FILE* file = std::fopen(path.c_str(), "w");
  dup2(fileno(file), 2);
  call();
  std::fflush(stderr);
  dup2(before, 2);
  close(before);
  std::fclose(file);
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::remove(path.c_str());
  return text;
}
}  // namespace reel::tests
