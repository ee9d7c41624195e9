// SPDX-License-Identifier: BSD-3-Clause
// The kernels that the emulator runs are CUDA C++.
#include <cstdio>
#include <string>

#include "support/catch.hpp"

TEST_CASE("nvcc compiles the kernels for sm_80, sm_90 and sm_100", "[emulator]") {
  const std::string nvcc = REEL_NVCC, root = REEL_ROOT;
  if (nvcc.empty()) SKIP("nvcc is missing");
  std::string command =
      "'" + nvcc + "' -std=c++20 -O2 --threads 1 -Werror all-warnings -I'" + root + "' ";
  for (const char* const kind : {"80", "90", "100"})
    command += std::string("-gencode arch=compute_") + kind + ",code=sm_" + kind + " ";
  command += "-c -o /dev/null '" + root + "/tests/emulator/kernels.cu' 2>&1";
  FILE* const output = popen(command.c_str(), "r");
  REQUIRE(output);
  std::string said;
  for (int letter; (letter = fgetc(output)) != EOF;) said += char(letter);
  INFO(command << '\n' << said);
  CHECK(pclose(output) == 0);
}
