// SPDX-License-Identifier: BSD-3-Clause
// Which results a check takes as equal, and when it plans the next check.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/trace/check.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
using tracing::Compared;
/// "what: replayed, run" of the first pair that differs.
std::string difference(const std::vector<Compared>& pairs) {
  const tracing::Difference found = tracing::compare(pairs);
  return found ? found.what + ": " + found.before + ", " + found.now : "";
}
std::string difference(const Tensor& replayed, const Tensor& run) {
  return difference({{"x", replayed, run}});
}
}  // namespace

TEST_CASE("a check takes rounding for equal, beside the largest element") {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const auto of = [&](float a, float b, float c) { return tensor({a, b, c}).to(dtype); };
    INFO(std::string(name_of(dtype)));
    for (const float sign : {1.0f, -1.0f}) {
      CHECK(difference(of(sign * 32768, 1, 2), of(sign * 32768, 3.5f, 2)) == "");
      CHECK(difference(of(sign * 32768, 1, 2), of(sign * 32768, 5, 2)) == "element 1 of x: 1, 5");
      CHECK(difference(of(1, 2, sign * 32768), of(1, 6, sign * 32768)) == "element 1 of x: 2, 6");
    }
    CHECK(difference(of(1, 2, 4), of(1, 2, 4)) == "");
    CHECK(difference(of(1, 2, 4), of(2, 4, 4)) == "element 0 of x: 1, 2");
    CHECK(difference(of(0, 0, 0), of(0, 0, 0)) == "");
    CHECK(difference(of(0, 0, 0), of(0, 0.5f, 0)) == "element 1 of x: 0, 0.5");
  }
  CHECK(difference(tensor(1.0f), tensor(1.00005f)) == "");
  CHECK(difference(tensor(1.0f), tensor(2.0f)) == "x: 1, 2");
  CHECK(difference(tensor({1.0f}), tensor({2.0f})) == "x: 1, 2");
  const Tensor a = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}), b = tensor({{1.0f, 3.0f}, {2.0f, 4.0f}});
  CHECK(difference(transpose(a), b) == "");
  CHECK(difference(a, b) == "element 1 of x: 2, 3");
}

TEST_CASE("a check takes rounding for equal beside the largest of all values") {
  const Tensor large = tensor({1e6f, 0.0f}), zero = tensor(0.0f);
  CHECK(difference({{"a", large, large}, {"b", tensor(0.75f), zero}}) == "");
  CHECK(difference({{"b", tensor(0.75f), zero}, {"a", large, large}}) == "");
  CHECK(difference({{"a", large, large}, {"b", tensor(1.5f), zero}}) == "b: 1.5, 0");
  CHECK(difference({{"b", tensor(0.75f), zero}}) == "b: 0.75, 0");
  const Tensor whole = tensor({std::int64_t{1} << 40});  // an exact number
  CHECK(difference({{"a", whole, whole}, {"b", tensor(0.75f), zero}}) == "b: 0.75, 0");
  CHECK(difference({{"a", tensor(1.0f), tensor(1.0f)},
                    {"b", tensor(2.0f), tensor(3.0f)},
                    {"c", tensor(4.0f), tensor(5.0f)}}) == "b: 2, 3");
}

TEST_CASE("a check compares numbers that are not finite, and whole numbers, exactly") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = INFINITY;
  const auto of = [](float a, float b) { return tensor({a, b}); };
  CHECK(difference(of(nan, inf), of(nan, inf)) == "");
  CHECK(difference(of(nan, 1), of(2, 1)) == "element 0 of x: nan, 2");
  CHECK(difference(of(2, 1), of(nan, 1)) == "element 0 of x: 2, nan");
  CHECK(difference(of(inf, 1), of(-inf, 1)) == "element 0 of x: inf, -inf");
  CHECK(difference(of(inf, 1), of(3, 1)) == "element 0 of x: inf, 3");
  CHECK(difference(of(inf, 1), of(inf, 2)) == "element 1 of x: 1, 2");
  CHECK(difference(of(nan, 1), of(nan, 2)) == "element 1 of x: 1, 2");
  const std::int64_t large = std::int64_t{1} << 60;
  CHECK(difference(tensor({large, large}), tensor({large, large + 1})) ==
        "element 1 of x: " + std::to_string(large) + ", " + std::to_string(large + 1));
  CHECK(difference(tensor({large, large}), tensor({large, large})) == "");
  CHECK(difference(tensor({true, false}), tensor({true, true})) == "element 1 of x: false, true");
  CHECK(difference(tensor({7, 8, 9}), tensor({6, 8, 9})) == "element 0 of x: 7, 6");
  CHECK(difference(tensor({7, 8, 9}).to(DType::uint8), tensor({7, 8, 250}).to(DType::uint8)) ==
        "element 2 of x: 9, 250");
  CHECK(difference(zeros({0, 3}), zeros({0, 3})) == "");
}

TEST_CASE("a check compares shapes and dtypes") {
  CHECK(difference(ones({2}), ones({2, 1})) == "x: float32(2,), float32(2, 1)");
  CHECK(difference(ones({2}), ones({2}, {.dtype = DType::float64})) ==
        "x: float32(2,), float64(2,)");
  CHECK(difference(Tensor(), ones({2})) == "x: undefined, float32(2,)");
  CHECK(difference(ones({2}), Tensor()) == "x: float32(2,), undefined");
  CHECK(difference(Tensor(), Tensor()) == "");
}

TEST_CASE("checks are beside replays 1, 2, 4, 8 ..., from 64 on sooner if they cost little") {
  tracing::Ending ending;
  std::int64_t replay = 1;
  for (std::int64_t expected = 1; expected < 1 << 20; expected *= 2) {
    CHECK(replay == expected);
    tracing::plan_next_check(ending, 0.01, 1e6, 1e-4);
    replay += ending.until_check;
  }
  const auto next = [&](double share, double check, double replays) {
    tracing::plan_next_check(ending, share, check, replays);
    return ending.until_check.load();
  };
  ending.checks = 31;
  // The cost of checks as a share of the cost of replays.
  for (const double share : {0.01, 0.1, 0.5})
    for (const double check : {0.002, 0.3})
      CHECK(next(share, check, 1e-4) * 1e-4 * share == Approx(check).epsilon(0.03));
  CHECK(next(0.5, 1e-6, 1e-3) == 1);
  CHECK(next(0.01, 1, 0) == 1'000'000'000);
  CHECK(next(1, 1, 1e-6) == 1);
  CHECK(next(0, 1, 1e-6) == 1'000'000'000);
}

TEST_CASE("replays are timed where the next check is planned by what it costs") {
  for (const double share : {0.01, 0.5, 1.0})
    for (int checks = 0; checks < 12; ++checks) {
      tracing::Ending slow, fast;
      slow.checks = fast.checks = checks;
      const bool needs = tracing::needs_times(slow, share);
      tracing::plan_next_check(slow, share, 1e-3, 1e-2);
      tracing::plan_next_check(fast, share, 1e-3, 1e-4);
      CHECK(needs == (slow.until_check != fast.until_check));
    }
}
}  // namespace reel::tests
