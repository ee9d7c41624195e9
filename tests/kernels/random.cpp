// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numeric>

#include "kernels/kernels.hpp"
#include "lib/formulas/philox.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
using Kind = RandomOptions::Kind;

struct Moments {
  double mean, deviation;
};
template <class T>
Moments moments(const std::vector<T>& x) {
  const auto n = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double squares = 0;
  for (const T value : x)
    squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  return {mean, std::sqrt(squares / n)};
}

constexpr std::uint64_t seed_of_draws = 0x123456789abcdef0, place_of_draws = 0xfffffffe;
/// The four random words of a block.
struct Block {
  std::uint32_t words[4];
  Block(std::uint64_t number, std::uint32_t third, std::uint32_t fourth)
      : words{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), third,
              fourth} {
    formulas::philox(words, static_cast<std::uint32_t>(seed_of_draws),
                     static_cast<std::uint32_t>(seed_of_draws >> 32));
  }
  double wide(int i) const {  // 53 bits
    return std::ldexp(
        static_cast<double>((std::uint64_t{words[2 * i + 1]} << 32 | words[2 * i]) >> 11), -53);
  }
};
/// Number i of a pair of normal numbers.
double box_and_muller(double u, double v, std::uint64_t i) {
  const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::acos(-1.0) * v;
  return radius * (i % 2 ? std::sin(angle) : std::cos(angle));
}
/// A gamma number for a parameter of at least 1 (Marsaglia and Tsang 2000).
double gamma_number(double alpha, std::uint64_t number, std::uint32_t series) {
  const double d = alpha - 1 / 3.0, c = 1 / std::sqrt(9 * d);
  const auto unit = [](std::uint32_t word) { return std::ldexp(word + 0.5, -32); };
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Block block(number, attempt, series);
    const double x = box_and_muller(unit(block.words[0]), unit(block.words[1]), 0);
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(unit(block.words[2])) < x * x / 2 + d * (1 - v + std::log(v)))
      return d * v;
  }
}
template <class T>
void check_ends_of_draws(const InstructionSet& set, std::initializer_list<Kind> kinds) {
  for (const Kind kind : kinds)
    for (const std::int64_t n : {1, 2, 5, 63, 64, 65, 130, 1025, 3000}) {
      Array<T> out({n + 1}, T(7));
      Body drawn = out.view({n}, {1});
      const RandomOptions options{
          .kind = kind, .a = 1, .b = 2, .low = 0, .high = 7, .dtype = dtype_of<T>()};
      call_kernel(set, "random", {}, drawn, &options);
      INFO(set.name << ": kind " << static_cast<int>(kind) << ", " << n << " numbers");
      CHECK(out[n] == T(7));
    }
}

/// The products of whole numbers, which are exact.
}  // namespace

TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
  struct Known {
    std::uint32_t counter[4], key[2], words[4];
  };
  const Known known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (Known row : known) {
    formulas::philox(row.counter, row.key[0], row.key[1]);
    CHECK(std::equal(row.words, row.words + 4, row.counter));
  }
}

TEST_CASE("the kernel draws Philox words in order, from any place") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    RandomOptions options{
        .kind = Kind::uniform, .seed = 0x123456789abcdef0, .position = 0xfffffffe};
    const auto x = drawn<float>(set, options, 211);
    bool right = true;
    for (std::uint32_t i = 0; i < x.size(); ++i) {
      const std::uint64_t block = options.position + i / 4;
      std::uint32_t words[4] = {static_cast<std::uint32_t>(block),
                                static_cast<std::uint32_t>(block >> 32), 0, 0};
      formulas::philox(words, 0x9abcdef0, 0x12345678);
      right &= x[i] == static_cast<float>(words[i % 4] >> 8) * 0x1p-24f;
    }
    CHECK(right);
    options.position += 5;
    const auto later = drawn<float>(set, options, 7);
    CHECK(std::equal(later.begin(), later.end(), x.begin() + 20));
  });
}

TEST_CASE("distributions have their moments and stay in their ranges") {
  constexpr std::int64_t n = 200'000;
  const double tolerance = 4 / std::sqrt(static_cast<double>(n));
  for_each_set([&](const InstructionSet& set) {
    INFO(set.name);
    RandomOptions options{.kind = Kind::uniform, .seed = 7, .a = -3, .b = 5};
    const auto check_uniform = [&](const auto& x) {
      CHECK(moments(x).mean == Approx(1).margin(8 * tolerance));
      CHECK(moments(x).deviation == Approx(8 / std::sqrt(12.0)).epsilon(tolerance));
      CHECK((*std::min_element(x.begin(), x.end()) >= -3 &&
             *std::max_element(x.begin(), x.end()) < 5));
    };
    check_uniform(drawn<float>(set, options, n));
    check_uniform(drawn<double>(set, options, n));
    options = {.kind = Kind::normal, .seed = 8, .a = 2, .b = 3};
    const auto check_normal = [&](const auto& x) {
      CHECK(moments(x).mean == Approx(2).margin(3 * tolerance));
      CHECK(moments(x).deviation == Approx(3).epsilon(tolerance));
      const auto outside =
          std::count_if(x.begin(), x.end(), [](auto v) { return std::abs(v - 2) > 6; });
      CHECK(static_cast<double>(outside) / static_cast<double>(n) == Approx(0.0455).epsilon(0.05));
      CHECK(std::all_of(x.begin(), x.end(), [](auto v) { return std::isfinite(v); }));
    };
    check_normal(drawn<float>(set, options, n));
    check_normal(drawn<double>(set, options, n));
    options = {.kind = Kind::bernoulli, .seed = 9, .a = 0.3};
    CHECK(moments(drawn<bool>(set, options, n)).mean == Approx(0.3).margin(tolerance));
    options.b = 1.25;
    CHECK(moments(drawn<float>(set, options, n)).mean == Approx(0.375).margin(tolerance));
    options.a = 1;
    CHECK(moments(drawn<bool>(set, options, 999)).mean == 1);
    options.a = 0;
    CHECK(moments(drawn<bool>(set, options, 999)).mean == 0);
  });
}

TEST_CASE("random integers fill their range evenly; permutations hold each number once") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    RandomOptions options{.kind = Kind::integers, .seed = 3, .low = -2, .high = 5};
    int counts[7] = {};
    for (const std::int64_t x : drawn<std::int64_t>(set, options, 70'000)) {
      REQUIRE((x >= -2 && x < 5));
      ++counts[x + 2];
    }
    for (const int count : counts) CHECK(count == Approx(10'000).epsilon(0.05));
    options.low = INT64_MIN;
    options.high = INT64_MAX;
    CHECK(moments(drawn<std::int64_t>(set, options, 10'000)).deviation ==
          Approx(5.3e18).epsilon(0.05));

    options.kind = Kind::permutation;
    int at_end[5] = {};
    for (options.position = 0; options.position < 5000; options.position += 3) {
      auto x = drawn<std::int64_t>(set, options, 5);
      ++at_end[x[0]];
      std::sort(x.begin(), x.end());
      REQUIRE(x == std::vector<std::int64_t>{0, 1, 2, 3, 4});
    }
    for (const int count : at_end) CHECK(count == Approx(333).epsilon(0.25));
    CHECK(drawn<std::int64_t>(set, options, 0).empty());
    CHECK(drawn<std::int64_t>(set, options, 1) == std::vector<std::int64_t>{0});
  });
}

TEST_CASE("normal numbers are those of Box and Muller from the words of Philox") {
  const RandomOptions options{
      .kind = Kind::normal, .seed = seed_of_draws, .position = place_of_draws, .a = 3, .b = 2};
  for_each_set([&](const InstructionSet& set) {
    INFO(set.name);
    const auto narrow = drawn<float>(set, options, 331);
    double worst = 0;
    for (std::uint64_t i = 0; i < narrow.size(); ++i) {
      const Block block(place_of_draws + i / 4, 0, 0);
      const auto unit = [&](std::uint64_t word) {
        return static_cast<float>(block.words[word] >> 8) * 0x1p-24f;
      };
      const std::uint64_t pair = i / 2 % 2 * 2;
      const float u = unit(pair) + 0x1p-25f;
      const double exact =
          3 + 2 * box_and_muller(static_cast<double>(u), static_cast<double>(unit(pair + 1)), i);
      worst = std::max(worst, std::abs(static_cast<double>(narrow[i]) - exact));
    }
    CHECK(worst < 2e-5);
    const auto wide = drawn<double>(set, options, 331);
    worst = 0;
    for (std::uint64_t i = 0; i < wide.size(); ++i) {
      const Block block(place_of_draws + i / 2, 0, 0);
      const double exact = 3 + 2 * box_and_muller(block.wide(0) + 0x1p-54, block.wide(1), i);
      worst = std::max(worst, std::abs(wide[i] - exact));
    }
    CHECK(worst < 1e-12);
  });
}

TEST_CASE("beta numbers are quotients of gamma numbers of two series of counters") {
  const RandomOptions options{
      .kind = Kind::beta, .seed = seed_of_draws, .position = place_of_draws, .a = 2, .b = 3.5};
  for_each_set([&](const InstructionSet& set) {
    const auto x = drawn<double>(set, options, 200);
    double worst = 0;
    for (std::uint64_t i = 0; i < x.size(); ++i) {
      const double first = gamma_number(2, place_of_draws + i, 0),
                   second = gamma_number(3.5, place_of_draws + i, 1);
      worst = std::max(worst, std::abs(x[i] - first / (first + second)));
    }
    INFO(set.name);
    CHECK(worst < 1e-12);
  });
}

TEST_CASE("uniform numbers are never the upper end, even next to the lower one") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    RandomOptions options{.kind = Kind::uniform, .seed = 5, .a = 1};
    options.b = static_cast<double>(std::nextafter(1.0f, 2.0f));
    CHECK(drawn<float>(set, options, 1000) == std::vector<float>(1000, 1.0f));
    options.b = std::nextafter(1.0, 2.0);
    CHECK(drawn<double>(set, options, 1000) == std::vector<double>(1000, 1.0));
  });
}

TEST_CASE("random numbers end where their tensor ends") {
  for_each_set([](const InstructionSet& set) {
    const auto floats = {Kind::uniform,          Kind::normal, Kind::exponential, Kind::gumbel,
                         Kind::truncated_normal, Kind::gamma,  Kind::beta};
    check_ends_of_draws<float>(set, floats);
    check_ends_of_draws<double>(set, floats);
    check_ends_of_draws<std::int64_t>(set, {Kind::integers, Kind::permutation});
  });
}
}  // namespace reel::tests
