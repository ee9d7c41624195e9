// SPDX-License-Identifier: BSD-3-Clause
// One face for Catch2 v2 (Debian 12) and v3: includes, Approx, SKIP.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <string>

#include <catch2/catch.hpp>

namespace reel::tests {
/// Counts the running test case as skipped; it prints `skipped: <test>: <reason>` at its end.
void skip(const std::string& reason);
}  // namespace reel::tests

// v2 has no SKIP: the reason is noted and the test case left, so use it outside of lambdas only.
#define SKIP(reason)             \
  do {                           \
    ::reel::tests::skip(reason); \
    return;                      \
  } while (false)
#endif
