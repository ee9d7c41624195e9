// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <reel/bench.hpp>
#include <reel/error.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>

namespace reel::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int least_batches = 21;

double seconds(const Candidate& candidate, std::size_t calls) {
  const auto start = Clock::now();
  candidate.repeat(calls);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Doubles the calls until half a batch is full, then goes on until the warm-up is over.
std::size_t calls_in_batch(const Candidate& candidate, const CompareOptions& options) {
  std::size_t calls = 1;
  double taken = seconds(candidate, calls), all = taken;
  while (taken < options.batch_seconds / 2 || all < options.warm_up_seconds) {
    if (taken < options.batch_seconds / 2) calls *= 2;
    taken = seconds(candidate, calls);
    all += taken;
  }
  const double fitting = static_cast<double>(calls) * options.batch_seconds / taken;
  return static_cast<std::size_t>(std::max(1.0, fitting));
}

/// The quantile `share` of sorted numbers, interpolated between two of them.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

Quartiles quartiles(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return {quantile(numbers, 0.25), quantile(numbers, 0.5), quantile(numbers, 0.75)};
}

void check_arguments(const std::vector<Candidate>& candidates, const CompareOptions& options,
                     Caller caller) {
  const auto check = [&](bool good, std::string_view argument, std::string_view expected,
                         std::string_view got) {
    if (!good) fail<Error>(caller, "compare", argument, expected, got);
  };
  check(!candidates.empty(), "candidates", "at least one function", "none");
  for (const Candidate& candidate : candidates)
    check(static_cast<bool>(candidate.repeat), "candidates", "functions",
          fmt::format("an empty one named \"{}\"", candidate.name));
  check(options.batches >= least_batches, "batches", fmt::format("at least {}", least_batches),
        fmt::format("{}", options.batches));
  check(options.batch_seconds > 0 && std::isfinite(options.batch_seconds), "batch_seconds",
        "a positive number", fmt::format("{}", options.batch_seconds));
  check(options.warm_up_seconds >= 0 && std::isfinite(options.warm_up_seconds), "warm_up_seconds",
        "a number from 0", fmt::format("{}", options.warm_up_seconds));
}

std::string duration(double nanoseconds) {
  if (nanoseconds < 1e3) return fmt::format("{:.1f} ns", nanoseconds);
  if (nanoseconds < 1e6) return fmt::format("{:.2f} us", nanoseconds * 1e-3);
  if (nanoseconds < 1e9) return fmt::format("{:.2f} ms", nanoseconds * 1e-6);
  return fmt::format("{:.2f} s", nanoseconds * 1e-9);
}

/// A JSON string; control characters become spaces.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return out + '"';
}

std::string json(const Quartiles& q) {
  return fmt::format(R"({{"lower": {:.6g}, "median": {:.6g}, "upper": {:.6g}}})", q.lower, q.median,
                     q.upper);
}

}  // namespace

Comparison compare(const std::vector<Candidate>& candidates, CompareOptions options,
                   Caller caller) try {
  check_arguments(candidates, options, caller);
  const auto count = candidates.size(), rounds = static_cast<std::size_t>(options.batches);
  Comparison result{options.batches, std::vector<Timing>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    result.timings[i].name = candidates[i].name;
    result.timings[i].calls = calls_in_batch(candidates[i], options);
  }
  std::vector<std::vector<double>> times(count, std::vector<double>(rounds)), ratios = times;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < count; ++turn) {
      const std::size_t i =
          (turn + round) % count;  // so that no candidate always follows the same one
      const std::size_t calls = result.timings[i].calls;
      times[i][round] = seconds(candidates[i], calls) * 1e9 / static_cast<double>(calls);
    }
    for (std::size_t i = 0; i < count; ++i) ratios[i][round] = times[i][round] / times[0][round];
  }
  for (std::size_t i = 0; i < count; ++i) {
    result.timings[i].nanoseconds = quartiles(times[i]);
    result.timings[i].ratio = quartiles(ratios[i]);
  }
  return result;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "compare");
}

std::string to_string(const Comparison& comparison) try {
  std::size_t width = 4;
  for (const Timing& timing : comparison.timings) width = std::max(width, timing.name.size());
  std::string out = fmt::format("{:<{}}  {:>10}  {:>23}  {:>6}  {:>13}\n", "name", width, "median",
                                "quartiles", "ratio", "quartiles");
  for (const Timing& timing : comparison.timings) {
    const Quartiles &time = timing.nanoseconds, &ratio = timing.ratio;
    out += fmt::format("{:<{}}  {:>10}  {:>10} - {:>10}  {:>6.3f}  {:.3f} - {:.3f}\n", timing.name,
                       width, duration(time.median), duration(time.lower), duration(time.upper),
                       ratio.median, ratio.lower, ratio.upper);
  }
  return out;
} catch (const std::bad_alloc&) {
  fail_memory({}, "to_string");
}

std::string json(const Comparison& comparison) try {
  std::string out = fmt::format(R"({{"batches": {}, "timings": [)", comparison.batches);
  std::string_view separator;
  for (const Timing& timing : comparison.timings) {
    out += fmt::format(R"({}{{"name": {}, "calls": {}, "nanoseconds": {}, "ratio": {}}})",
                       separator, in_quotes(timing.name), timing.calls, json(timing.nanoseconds),
                       json(timing.ratio));
    separator = ", ";
  }
  return out + "]}";
} catch (const std::bad_alloc&) {
  fail_memory({}, "json");
}

}  // namespace reel::bench
