// SPDX-License-Identifier: BSD-3-Clause
// For programs to which LD_PRELOAD gives the runtime of ThreadSanitizer. It must begin before other
// libraries do, and the loader calls this module first.
extern "C" void __tsan_init();  // NOLINT(bugprone-reserved-identifier)
namespace {
[[gnu::constructor]] void begin() { __tsan_init(); }
}  // namespace
