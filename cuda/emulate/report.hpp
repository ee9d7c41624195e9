// SPDX-License-Identifier: BSD-3-Clause
// Reports a fault in the program under test. The message starts with "emulator: ", and the program
// ends.
#pragma once

namespace reel::emulate {
[[noreturn]] [[gnu::format(printf, 1, 2)]] void report(const char* format, ...);
/// Writes another line of a report. A later report() ends the program.
[[gnu::format(printf, 1, 2)]] void explain(const char* format, ...);
}  // namespace reel::emulate
