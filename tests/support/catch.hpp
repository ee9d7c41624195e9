// SPDX-License-Identifier: BSD-3-Clause
// One interface to Catch2 v2 (Debian 12) and v3: includes, Approx, SKIP.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <string>

#include <catch2/catch.hpp>

namespace reel::tests {
/// Counts the running test case as skipped. At its end the test case prints `skipped: <test>:
/// <reason>`.
void skip(const std::string& reason);
}  // namespace reel::tests

// Catch2 v2 has no SKIP. Here it stores the reason and returns from the test case, so it must not
// be used in a lambda.
#define SKIP(reason)             \
  do {                           \
    ::reel::tests::skip(reason); \
    return;                      \
  } while (false)
#endif
