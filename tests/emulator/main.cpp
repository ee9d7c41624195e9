// SPDX-License-Identifier: BSD-3-Clause
// Runs the tests, or one program. The tests use the emulator only, not the library.
#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

#include <cstddef>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

#include "emulator/run_program.hpp"

namespace {
struct Tally {
  std::size_t passed = 0, failed = 0, skipped = 0;
  std::string skip_reason;  // the reason of the running test case; Catch2 v3 counts skips itself
};
Tally& tally() {
  static Tally one;
  return one;
}

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
std::size_t skips(const Catch::Totals& totals) { return totals.testCases.skipped; }
const std::string& name(const Catch::TestCaseStats& stats) { return stats.testInfo->name; }
#else
using ListenerBase = Catch::TestEventListenerBase;
std::size_t skips(const Catch::Totals&) { return tally().skip_reason.empty() ? 0 : 1; }
const std::string& name(const Catch::TestCaseStats& stats) { return stats.testInfo.name; }
#endif

struct TallyListener : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo&) override { tally().skip_reason.clear(); }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (stats.totals.testCases.failed > 0) {
      ++tally().failed;
    } else if (skips(stats.totals) > 0) {
      ++tally().skipped;
      if (!tally().skip_reason.empty())
        std::cout << "skipped: " << name(stats) << ": " << tally().skip_reason << '\n';
    } else {
      ++tally().passed;
    }
  }
};
}  // namespace

CATCH_REGISTER_LISTENER(TallyListener)

#if !__has_include(<catch2/catch_all.hpp>)
void reel::tests::skip(const std::string& reason) { tally().skip_reason = reason; }
#endif

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--program")
    return run_program(argv[2], std::string_view(argv[3]) == "fault");
  const int failures = Catch::Session().run(argc, argv);
  std::cout << tally().passed << " passed, " << tally().failed << " failed, " << tally().skipped
            << " skipped\n";
  return failures ? failures : tally().failed > 0;
}
