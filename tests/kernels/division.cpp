// SPDX-License-Identifier: BSD-3-Clause
// floor_divide and remainder of floats where quotients are near whole numbers.
#include <cmath>
#include <limits>
#include <random>

#include "kernels/kernels.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
template <class T>
void check_division(const InstructionSet& set) {
  constexpr std::size_t n = 5003;
  constexpr double most = sizeof(T) == 4 ? 0x1p25 : 0x1p54;  // quotients of vectors are smaller
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<T> x(n), y(n), whole(n), rest(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto sign = [&] { return unit(random) < 0.5 ? -1.0 : 1.0; };
    y[i] = static_cast<T>(sign() * std::exp2(40 * unit(random) - 20));
    const T near = static_cast<T>(sign() * std::floor(std::pow(most, unit(random)))) * y[i];
    const T far = static_cast<T>(sign() * std::numeric_limits<double>::infinity());
    x[i] = i % 3 == 0 ? near : std::nextafter(near, i % 3 == 1 ? T(0) : far);
  }
  const auto run = [&](const char* op, std::vector<T>& out) {
    const void* inputs[] = {x.data(), y.data()};
    find_passes(set, op)->value[static_cast<int>(dtype_of<T>())](static_cast<std::int64_t>(n),
                                                                 inputs, 0, out.data());
  };
  run("floor_divide", whole);
  run("remainder", rest);
  for (std::size_t i = 0; i < n; ++i) {
    INFO(x[i] << " by " << y[i] << ": " << whole[i] << " and " << rest[i]);
    const T left = std::fmod(x[i], y[i]);
    CHECK(rest[i] == (left != 0 && (left < 0) != (y[i] < 0) ? left + y[i] : left));
    CHECK(std::signbit(rest[i]) == std::signbit(y[i]));
    if (std::fabs(whole[i]) >= most / 2) continue;  // floats have no fractions from there on
    // whole y <= x < (whole + 1) y for y > 0; fma keeps the sign of a difference
    const T side = std::copysign(T(1), y[i]);
    CHECK(std::fma(-whole[i], y[i], x[i]) * side >= 0);
    CHECK(std::fma(-(whole[i] + 1), y[i], x[i]) * side < 0);
  }
}
}  // namespace

TEST_CASE("floor_divide and remainder are exact where a quotient is near a whole number") {
  for_each_set([](const InstructionSet& set) {
    check_division<float>(set);
    check_division<double>(set);
  });
}
}  // namespace reel::tests
