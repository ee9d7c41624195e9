// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/kernels.hpp"
#include "lib/formulas/philox.hpp"
#include "lib/table/options/random.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
using Kind = RandomOptions::Kind;

template <class T>
std::vector<T> drawn(const InstructionSet& set, RandomOptions options, std::int64_t n) {
  Array<T> out({n});
  options.dtype = dtype_of<T>();
  call_kernel(set, "random", {}, out.body, &options);
  return {out.elements.begin(), out.elements.end()};
}
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
}  // namespace reel::tests
