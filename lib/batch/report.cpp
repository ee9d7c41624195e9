// SPDX-License-Identifier: BSD-3-Clause
#include <reel/batched.hpp>

#include <fmt/format.h>

#include "lib/batch/queue.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace {
constinit thread_local OfThread<BatchingReport> last;
}
BatchingReport& batch::last_report() { return last.get(); }

BatchingReport batching_report() { return last.get(); }
std::string to_string(const BatchingReport& report) {
  std::string text = fmt::format("{} examples, {} rounds, {} calls, {} launches\n", report.examples,
                                 report.rounds, report.calls, report.launches);
  if (report.failed >= 0) text += fmt::format("example {} threw first\n", report.failed);
  for (const BatchedOp& each : report.ops) {
    text += fmt::format("{:>24} {:>8} calls {:>6} launches", each.name, each.calls, each.launches);
    if (each.alone) text += fmt::format(" {:>6} one by one", each.alone);
    text += '\n';
  }
  return text;
}
}  // namespace reel
