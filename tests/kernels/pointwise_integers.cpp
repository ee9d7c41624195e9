// SPDX-License-Identifier: BSD-3-Clause
// Passes of pointwise ops over integers and passes that compare, against their formulas in the same
// type, and powers of one exponent.
#include "kernels/pointwise.hpp"
#include "lib/formulas/bitwise.hpp"
#include "lib/formulas/compare.hpp"

namespace reel::tests {
namespace {
template <class F>
struct OfIntegers : std::bool_constant<F::domain != Domain::floating> {};
/// The formulas of a list that take integers.
template <class... F>
auto of_integers(List<F...>) {
  return
      typename Joined<List<>, std::conditional_t<OfIntegers<F>::value, List<F>, List<>>...>::type();
}

template <class T, class Family>
void check_integers(const InstructionSet& set, Family family) {
  for (const auto& f : formulas_for<T>(family)) {
    INFO(f.name << " on " << set.name);
    bool right = true;
    for_each_result<T>(f, set, [&](T x, T y, T got) { right &= got == f.value(x, y); });
    CHECK(right);
  }
}
template <class Family>
void check_all_integers(Family family) {
  for_each_set([&](const InstructionSet& set) {
    check_integers<std::uint8_t>(set, family);
    check_integers<std::int32_t>(set, family);
    check_integers<std::int64_t>(set, family);
  });
}
template <class T>
void check_comparisons(const InstructionSet& set) {
  for (const auto& f : formulas_for<T>(CompareFormulas())) {
    INFO(f.name << " on " << set.name);
    bool right = true;
    for_each_result<bool>(f, set,
                          [&](T x, T y, std::uint8_t got) { right &= got == f.value(x, y); });
    CHECK(right);
  }
}

/// x - y floor(x / y) in 64 bits; 0 if y is 0.
template <class T>
void check_remainder(const InstructionSet& set) {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  std::vector<T> values = {least, static_cast<T>(least + 1), 0, 1, 2, 7, 100, 254, most};
  if (std::is_signed_v<T>) values.insert(values.end(), {static_cast<T>(-1), static_cast<T>(-7)});
  const PassFunction function =
      find_passes(set, "remainder")->value[static_cast<int>(dtype_of<T>())];
  for (const T x : values)
    for (const T y : values) {
      T got = 5;
      const void* inputs[] = {&x, &y};
      function(1, inputs, 0, &got);
      const std::int64_t a = x, b = y, rest = b == 0 || b == -1 ? 0 : a % b;
      INFO(a << " % " << b);
      CHECK(got == static_cast<T>(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest));
    }
}

/// Compares the order of X and Y, one of which is an integer, with long double, which holds both.
template <class X, class Y>
void check_order(const InstructionSet& set) {
  const PassFunction function = find_passes(set, "order")->value[static_cast<int>(dtype_of<X>())];
  REQUIRE(function);
  for (const std::int64_t n : counts)
    for (unsigned scalars = 0; scalars < 4; ++scalars) {
      std::vector<X> x = operands<X>(static_cast<std::size_t>(n + 1), 1);
      std::vector<Y> y = operands<Y>(static_cast<std::size_t>(n + 1), 2);
      std::vector<float> out(static_cast<std::size_t>(n + 1), 5);
      const void* inputs[] = {x.data(), y.data()};
      function(n, inputs, scalars, out.data());
      bool right = out.back() == 5;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        const auto a = static_cast<long double>(x[scalars & 1 ? 0 : i]),
                   b = static_cast<long double>(y[scalars & 2 ? 0 : i]);
        right &= a != a || b != b ? std::isnan(out[i]) : out[i] == float((a > b) - (a < b));
      }
      INFO(n << " elements, numbers " << scalars);
      CHECK(right);
    }
}

/// One exponent for all elements, as a number and as a row, beside std::pow in long double.
template <class T>
void check_powers(const InstructionSet& set, T exponent) {
  const PassFunction function = find_passes(set, "power")->value[static_cast<int>(dtype_of<T>())];
  using Limits = std::numeric_limits<T>;
  for (const std::int64_t n : counts) {
    std::vector<T> x = operands<T>(static_cast<std::size_t>(n + 1), 1);
    const T special[] = {Limits::max(), Limits::min(), Limits::denorm_min(), -Limits::min(), 3};
    for (std::size_t i = 0; i < 5 && i < x.size(); ++i) x[x.size() - 1 - i] = special[i];
    const std::vector<T> y(x.size(), exponent);
    std::vector<T> out(x.size(), T(7)), of_row(x.size(), T(7));
    const void* inputs[] = {x.data(), y.data()};
    function(n, inputs, 2, out.data());
    function(n, inputs, 0, of_row.data());
    CHECK(std::memcmp(out.data(), of_row.data(), out.size() * sizeof(T)) == 0);
    CHECK(out.back() == T(7));
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const long double exact = std::pow(static_cast<long double>(x[i]), exponent);
      if (ulps(out[i], static_cast<double>(exact)) > 2.5 ||
          (exact == 0 && std::signbit(out[i]) != std::signbit(exact)))
        FAIL(x[i] << " to the power " << exponent << ": got " << out[i] << ", exact " << exact);
    }
  }
}
}  // namespace

TEST_CASE("integer passes agree with their formulas") {
  check_all_integers(of_integers(Numbers()));
}
TEST_CASE("bitwise passes agree with their formulas") { check_all_integers(BitwiseFormulas()); }
TEST_CASE("comparisons agree with their formulas") {
  for_each_set([](const InstructionSet& set) {
    check_comparisons<float>(set);
    check_comparisons<double>(set);
    check_comparisons<std::uint8_t>(set);
    check_comparisons<std::int32_t>(set);
    check_comparisons<std::int64_t>(set);
  });
}
TEST_CASE("powers of one exponent are those of std::pow") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    for (const double exponent : {2.0, 3.0, 1.0, 0.5, -0.5, -1.0, -2.0, 0.0, 4.0, 1.5}) {
      check_powers<float>(set, static_cast<float>(exponent));
      check_powers<double>(set, exponent);
    }
  });
}
TEST_CASE("integers of 64 bits are ordered among doubles") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    check_order<std::int64_t, double>(set);
    check_order<double, std::int64_t>(set);
  });
}
TEST_CASE("integer remainders have the divisor's sign") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    check_remainder<std::uint8_t>(set);
    check_remainder<std::int32_t>(set);
    check_remainder<std::int64_t>(set);
  });
}
}  // namespace reel::tests
