// SPDX-License-Identifier: BSD-3-Clause
// Every planted fault is found by the expected finder. The program without the fault passes.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "emulator/programs.hpp"
#include "support/catch.hpp"

namespace {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define REEL_TSAN
#endif
#endif
constexpr unsigned always = programs::comparison | programs::check | programs::closed_memory;
#if defined(__SANITIZE_ADDRESS__)
constexpr unsigned finders = always | programs::address | programs::undefined;
#elif defined(__SANITIZE_THREAD__) || defined(REEL_TSAN)
constexpr unsigned finders = always | programs::thread;
#else
constexpr unsigned finders = always;
#endif

struct Outcome {
  bool passed;
  std::string said;
};

// The sanitizers end the process at their first report.
void set_options(int seed) {
  setenv("REEL_EMULATE_SEED", std::to_string(seed).c_str(), 1);
  setenv("TSAN_OPTIONS", "halt_on_error=1:report_signal_unsafe=0:symbolize=0:atexit_sleep_ms=0", 1);
  setenv("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0:symbolize=0", 1);
  setenv("UBSAN_OPTIONS", "halt_on_error=1", 1);
}

Outcome run(const programs::Program& program, bool fault, int seed) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    alarm(60);
    set_options(seed);
    execl("/proc/self/exe", "test_emulator", "--program", program.name, fault ? "fault" : "sound",
          static_cast<char*>(nullptr));
    _exit(9);
  }
  close(ends[1]);
  Outcome outcome;
  std::array<char, 4096> part;
  for (ssize_t n; (n = read(ends[0], part.data(), part.size())) > 0;)
    outcome.said.append(part.data(), std::size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return outcome;
}

// A sanitizer may find the fault before the expected finder.
bool names_fault(const std::string& said, const char* says) {
  for (const char* const words : {says, "AddressSanitizer", "ThreadSanitizer"})
    if (said.find(words) != std::string::npos) return true;
  return false;
}

constexpr std::array seeds = {1, 2, 3, 4, 5};
}  // namespace

TEST_CASE("programs without a fault pass in every order", "[emulator]") {
  for (const programs::Program& program : programs::all())
    for (const int seed : seeds) {
      const Outcome outcome = run(program, false, seed);
      INFO(program.name << ", seed " << seed << ":\n" << outcome.said);
      CHECK(outcome.passed);
    }
}

TEST_CASE("planted faults are found", "[emulator]") {
  for (const programs::Program& program : programs::all()) {
    if (!(program.found_by & finders)) continue;
    INFO(program.name);
    bool found = false, named = false;
    std::string said;
    for (const int seed : seeds) {
      const Outcome outcome = run(program, true, seed);
      said += outcome.said;
      found = found || !outcome.passed;
      named = named || names_fault(outcome.said, program.says);
      if (program.found_by & programs::any_order)
        CHECK(!outcome.passed);
      else if (found && named)
        break;
    }
    INFO(said);
    CHECK(found);
    CHECK(named);
  }
}

TEST_CASE("at least 20 faults are planted", "[emulator]") {
  std::size_t faults = 0;
  for (const programs::Program& program : programs::all()) faults += program.found_by != 0;
  CHECK(faults >= 20);
}
