// SPDX-License-Identifier: BSD-3-Clause
// Programs that run with REEL_DEBUG.
#include <filesystem>
#include <fstream>
#include <regex>

#include "debug/programs.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
/// What debug_program prints with this REEL_DEBUG and these lines on stdin, and its status.
std::string run(const std::string& request, const std::string& lines = "") {
  const std::string input =
      (std::filesystem::temp_directory_path() / ("reel_debug." + std::to_string(getpid())))
          .string();
  std::ofstream(input) << lines;
  const std::string command = "REEL_DEBUG='" + request + "' '" + build_folder() +
                              "/tests/debug_program' 2>&1 <'" + input + "'";
  const std::string text = output_and_status(command);
  std::filesystem::remove(input);
  return text;
}
}  // namespace

TEST_CASE("REEL_DEBUG=cli opens a prompt, without a change of the program") {
  const std::string text = run("cli",
                               "break mean\n"
                               "run until has_nan\n"
                               "info\n"
                               "delete 1\n"
                               "run until has_nan\n"
                               "op\n"
                               "set log = 0\n"
                               "set #9 = 0\n"
                               "cont\n");
  INFO(text);
  CHECK(has(text, "stopped: the program begins"));
  CHECK(has(text, "stopped: stop 1: mean"));
  CHECK(has(text, "stopped: until has_nan"));
  CHECK(has(text, "log at program.cpp:21, call 1 at this line in step 3"));
  CHECK(has(text, "expected #N = EXPRESSION"));
  CHECK(has(text, "the program has ended"));
}

TEST_CASE("step, back, run and breaks at a prompt") {
  const std::string text = run("cli",
                               "step\nstep 3\nback\nback 2\nstep\nback 9\nrun to tanh\nrun\n"
                               "break program.cpp:22\ncont\nrun 2\nrun sideways\nrun off\n");
  INFO(text);
  CHECK(has(text, "(reel) #3 "));
  CHECK(has(text, "stopped: step 1"));
  CHECK(has(text, "stopped: stop 1: program.cpp:22"));
  CHECK(has(text, "expected a whole number from 1 on, got \"sideways\""));
  CHECK(has(text, "status 0"));
}

TEST_CASE("profile shows where the time of the next steps goes") {
  const std::string file = (std::filesystem::temp_directory_path() /
                            ("reel_profile." + std::to_string(getpid()) + ".json"))
                               .string();
  const std::string text =
      run("cli", "profile\nrun profile 2\ninfo\nprofile\nprofile line\nprofile " + file +
                     "\nprofile colour\nprofile /nowhere/a.json\nrun\ntensors op=tanh\n"
                     "list_profile\nrun profile 0\nrun off\n");
  INFO(text);
  CHECK(has(text, "expected a profile that has been measured, got none. `run profile N` measures"));
  CHECK(has(text, "stopped: step 2\nstep 2: 0 results"));
  CHECK(has(text, " on 1 thread: "));
  CHECK(std::regex_search(text, std::regex("\ndense +2 ")));  // in two steps
  CHECK(std::regex_search(text, std::regex("\nprogram.cpp:20 +16 ")));
  CHECK(std::regex_search(text, std::regex("at the peak of memory: ")));
  CHECK(has(text, "The timeline is in " + file));
  CHECK(has(text, "expected op, line, or a FILE.json, got \"colour\""));
  CHECK(has(text, "expected a file that can be written, got /nowhere/a.json"));
  CHECK(has(text, "stopped: step 3"));
  CHECK(has(text, "expected a whole number from 1 on, got \"0\""));
  CHECK(has(text, "status 0"));
  std::string json;
  std::getline(std::ifstream(file), json, '\0');
  CHECK(has(json, "{\"ph\":\"X\""));
  CHECK(has(json, "\"name\":\"dense\""));
  std::filesystem::remove(file);
}

TEST_CASE("a profile that the program ends, and one inside of an op") {
  CHECK(has(run("cli", "run profile 100\n"), "the program has ended\nstatus 0"));
  const std::string text = run("cli", "run to gradient of square\nrun profile 1\nprofile\ncont\n");
  INFO(text);
  CHECK(std::regex_search(text, std::regex("\nsgd_update +1 ")));
  CHECK(has(text, "status 0"));
}

TEST_CASE("REEL_DEBUG=stop throws where the condition holds") {
  const std::string text = run("stop:has_nan");
  CHECK(has(text, "error: program.cpp:21: log: result: expected no NaN, got nan at [0, 0]"));
  CHECK(has(text, "of step 3, call 1 of log at this line"));
  CHECK(has(text, "status 1"));
  CHECK(has(run("stop:norm(y"), "expected \",\" or \")\""));
}

TEST_CASE("a wrong REEL_DEBUG lists what there is, and the program goes on") {
  for (const std::string wrong : {"gdb", "stop", "stop:", "log", "cli:x", "log:"}) {
    const std::string text = run(wrong);
    INFO(wrong << ": " << text);
    CHECK(has(text, "REEL_DEBUG: expected cli, listen, log:FILE or stop:CONDITION, got \"" + wrong +
                        "\""));
    CHECK(has(text, "status 0"));
  }
  CHECK(has(run("log:/nowhere/a.log"), "expected a file that can be written"));
}
}  // namespace reel::tests
