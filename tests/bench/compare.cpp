// SPDX-License-Identifier: BSD-3-Clause
#include <reel/bench.hpp>
#include <reel/error.hpp>

#include <limits>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr bench::CompareOptions short_batches{.batch_seconds = 1e-4, .warm_up_seconds = 0};

auto adding(int numbers) {
  return [numbers] {
    double sum = 0;
    for (int i = 0; i < numbers; ++i) {
      sum += i;
      bench::keep(sum);
    }
    return sum;
  };
}
}  // namespace

TEST_CASE("compare times each function in batches and gives ratios to the first", "[bench]") {
  const auto result = bench::compare({{"few", adding(10)}, {"many", adding(10000)}}, short_batches);
  REQUIRE(result.batches == 21);
  REQUIRE(result.timings.size() == 2);
  for (const bench::Timing& timing : result.timings) {
    REQUIRE(timing.nanoseconds.lower > 0);
    REQUIRE(timing.nanoseconds.lower <= timing.nanoseconds.median);
    REQUIRE(timing.nanoseconds.median <= timing.nanoseconds.upper);
    REQUIRE(timing.ratio.lower <= timing.ratio.upper);
  }
  REQUIRE(result.timings[0].ratio.median == 1);
  REQUIRE(result.timings[1].ratio.median > 10);  // a thousand times the work
  REQUIRE(result.timings[0].calls > result.timings[1].calls);
}

TEST_CASE("compare calls every function as often as it says, after the warm-up", "[bench]") {
  std::size_t calls = 0;
  const auto result = bench::compare({{"count", [&calls] { ++calls; }}}, short_batches);
  REQUIRE(calls > 21 * result.timings[0].calls);
}

TEST_CASE("The table and the JSON of a comparison name every candidate", "[bench]") {
  bench::Comparison comparison{21, {}};
  comparison.timings.push_back({"plain", 7, {1, 2, 3}, {1, 1, 1}});
  comparison.timings.push_back({"a \"quoted\" \\ name", 9, {1e3, 2.5e6, 3e9}, {1.5, 2, 2.5}});
  const std::string table = to_string(comparison);
  REQUIRE(table.find("plain") != std::string::npos);
  REQUIRE(table.find("2.50 ms") != std::string::npos);
  REQUIRE(bench::json(comparison) ==
          R"({"batches": 21, "timings": [)"
          R"({"name": "plain", "calls": 7, )"
          R"("nanoseconds": {"lower": 1, "median": 2, "upper": 3}, )"
          R"("ratio": {"lower": 1, "median": 1, "upper": 1}}, )"
          R"({"name": "a \"quoted\" \\ name", "calls": 9, )"
          R"("nanoseconds": {"lower": 1000, "median": 2.5e+06, "upper": 3e+09}, )"
          R"("ratio": {"lower": 1.5, "median": 2, "upper": 2.5}}]})");
}

TEST_CASE("compare rejects what it cannot measure, naming the line", "[bench]") {
  const auto f = [] {};
  const auto message = [&](const std::vector<bench::Candidate>& candidates,
                           bench::CompareOptions options) -> std::string {
    try {
      bench::compare(candidates, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string none = message({}, {});
  REQUIRE(none.find("compare.cpp:") != std::string::npos);
  REQUIRE(none.find(" compare: candidates") != std::string::npos);
  REQUIRE(message({{"f", f}}, {.batches = 20}).find("at least 21, got 20") != std::string::npos);
  REQUIRE(message({{"f", f}}, {.batch_seconds = 0}).find("batch_seconds") != std::string::npos);
  REQUIRE(message({{"f", f}}, {.batch_seconds = std::numeric_limits<double>::quiet_NaN()})
              .find("batch_seconds") != std::string::npos);
  REQUIRE(message({{"f", f}}, {.warm_up_seconds = -1}).find("warm_up") != std::string::npos);
}

TEST_CASE("An exception of a compared function passes", "[bench]") {
  const auto f = []() -> int { throw Error("mine"); };
  REQUIRE_THROWS_WITH(bench::compare({{"f", f}}, short_batches), "mine");
}
}  // namespace reel::tests
