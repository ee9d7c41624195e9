// SPDX-License-Identifier: BSD-3-Clause
// Runs a test binary. Prints the names of skipped test cases, and at the end "N passed, N failed, N
// skipped".
#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

#include <sys/prctl.h>

#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <reel/device.hpp>
#include <reel/memory.hpp>
#include <reel/ops.hpp>

#include "lib/gate/call_view.hpp"
#include "lib/table/op.hpp"
#include "support/far_device.hpp"

namespace {

/// What runs an op. A test case may register another kernel or gradient; the next one starts
/// without.
struct Runner {
  reel::detail::Op* op;
  const reel::Passes* fast;
  reel::GradientSlot gradient;
  reel::CompositeRule composite;
  void* state;

  explicit Runner(reel::detail::Op* its)
      : op(its),
        fast(its->fast),
        gradient(its->gradient),
        composite(its->composite),
        state(its->composite_state) {}
  /// Whether the op ran otherwise.
  bool restore() const {
    const bool changed = op->composite != composite || op->composite_state != state ||
                         op->gradient.rule != gradient.rule || op->fast != fast;
    op->fast = fast;
    op->gradient = gradient;
    op->composite = composite;
    op->composite_state = state;
    return changed;
  }
};

struct Tally {
  std::size_t passed = 0, failed = 0, skipped = 0;
  std::string skip_reason;  // of the running test case; Catch2 v3 counts skipped test cases itself
  reel::MemoryStatistics before;
  std::vector<Runner> runners;
};

Tally& tally() {
  static Tally one;
  return one;
}

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
std::size_t skips(const Catch::Totals& totals) { return totals.testCases.skipped; }
#else
using ListenerBase = Catch::TestEventListenerBase;
std::size_t skips(const Catch::Totals&) { return tally().skip_reason.empty() ? 0 : 1; }
#endif

struct TallyListener : ListenerBase {
  using ListenerBase::ListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo&) override {
    tally().skip_reason.clear();
    tally().before = reel::memory_statistics();
    tally().runners.clear();
    for (reel::detail::Op* const op : reel::OpTable::the().ops()) tally().runners.emplace_back(op);
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    bool changed = false;
    for (const Runner& each : tally().runners) changed |= each.restore();
    if (changed) reel::count_registration();
    const Catch::Totals& totals = stats.totals;
    const reel::MemoryStatistics now = reel::memory_statistics(), &before = tally().before;
    const bool leaks = now.live_tensors != before.live_tensors || now.live_records != 0 ||
                       now.live_bytes != before.live_bytes;
    if (leaks)
      std::cout << "FAILED: " << name(stats) << ": " << now.live_tensors - before.live_tensors
                << " tensors of " << now.live_bytes - before.live_bytes << " bytes and "
                << now.live_records << " records are left\n";
    if (totals.testCases.failed > 0 || leaks) {
      ++tally().failed;
    } else if (skips(totals) > 0) {
      ++tally().skipped;
      if (!tally().skip_reason.empty()) {
        std::cout << "skipped: " << name(stats) << ": " << tally().skip_reason << '\n';
      }
    } else {
      ++tally().passed;
    }
  }

 private:
  static const std::string& name(const Catch::TestCaseStats& stats) {
#if __has_include(<catch2/catch_all.hpp>)
    return stats.testInfo->name;
#else
    return stats.testInfo.name;
#endif
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(TallyListener)

#if !__has_include(<catch2/catch_all.hpp>)
void reel::tests::skip(const std::string& reason) { tally().skip_reason = reason; }
#endif

int main(int argc, char** argv) {
  // With pages of 2 MiB, the first byte of one counts as 2 MiB for tests of resident memory.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  Catch::Session session;
  if (const int wrong = session.applyCommandLine(argc, argv)) return wrong;
  std::optional<reel::DeviceScope> other;
  if (const char* const device = std::getenv("REEL_TEST_DEVICE")) {
    other.emplace(std::string_view(device) == "far" ? reel::tests::far_device() : reel::cuda(0));
    // A thread of the device that first uses tensors during a capture would end the capture.
    reel::ones({1}).item<float>();
    // Tests tagged [cpu] are about the CPU; tests tagged [slow] take a minute on another device.
    std::vector<std::string>& asked = session.configData().testsOrTags;
    asked.push_back(asked.empty() ? "~[cpu]~[slow]~[.]" : "~[cpu]~[slow]");
  }
  const int failures = session.run();
  std::cout << tally().passed << " passed, " << tally().failed << " failed, " << tally().skipped
            << " skipped\n";
  return failures ? failures : tally().failed > 0;
}
