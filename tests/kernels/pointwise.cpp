// SPDX-License-Identifier: BSD-3-Clause
// Passes of pointwise ops against their formulas in float64, for each instruction set.
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "kernels/kernels.hpp"
#include "lib/formulas/activation.hpp"
#include "lib/formulas/arithmetic.hpp"
#include "lib/formulas/bitwise.hpp"
#include "lib/formulas/compare.hpp"
#include "lib/formulas/loss.hpp"
#include "lib/formulas/math.hpp"
#include "lib/formulas/special.hpp"
#include "lib/formulas/trigonometry.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
using namespace formulas;
using limits = std::numeric_limits<float>;
template <class T>
constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());

/// All formulas that give numbers. A formula that is added to a family is tested here.
template <class... Family>
struct Joined;
template <class... F>
struct Joined<List<F...>> {
  using type = List<F...>;
};
template <class... F, class... G, class... Rest>
struct Joined<List<F...>, List<G...>, Rest...> : Joined<List<F..., G...>, Rest...> {};
using Numbers = Joined<ArithmeticFormulas, MathFormulas, TrigonometryFormulas, ActivationFormulas,
                       LossFormulas, SpecialFormulas>::type;

/// Those that xsimd or a sum of several functions computes err by some units more.
using Rough = List<Acos, Asin, Atan, Atan2, Cos, Sin, Tan, Acosh, Asinh, Atanh, Cosh, Sinh, Exp2,
                   Expm1, Log1p, Log2, LogAddExp, Erf, Erfc, Elu, Gelu, GeluTanh, Silu, Softplus,
                   BinaryCrossEntropy, BinaryCrossEntropyWithLogits, LogGamma, Digamma>;
template <class F, class Family>
constexpr bool is_in = false;
template <class F, class... G>
constexpr bool is_in<F, List<G...>> = (std::is_same_v<F, G> || ...);
/// Those with roots, near which their sums cancel: their errors may be of the size of a unit at 1.
template <class F>
constexpr bool cancels = is_in<F, List<LogAddExp, Gelu, GeluTanh, Silu, LogGamma, Digamma>>;
/// The same of gradients.
template <class F>
constexpr bool gradient_cancels =
    cancels<F> || is_in<F, List<BinaryCrossEntropy, BinaryCrossEntropyWithLogits>>;
/// Those that add or multiply two NaNs. The result has the sign of either, as the compiler orders
/// them.
template <class F>
constexpr bool has_any_nan = is_in<F, List<GeluTanh, BinaryCrossEntropyWithLogits>>;
template <class F>
constexpr bool is_rough = is_in<F, Rough>;

template <class T>
std::vector<T> operands(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(n);
  for (T& value : values) {
    if constexpr (std::is_floating_point_v<T>)
      value =
          std::uniform_real_distribution<T>(T(0.125), T(4))(random) * (random() % 2 ? T(1) : T(-1));
    else
      value = static_cast<T>(random() % 19) - static_cast<T>(std::is_signed_v<T> ? 9 : 0);
  }
  if constexpr (std::is_floating_point_v<T>) {
    const T special[] = {
        0, T(-0.0), 1, -1, limits::infinity(), -limits::infinity(), limits::quiet_NaN(), 2, 0.5};
    for (std::size_t i = seed; i < n; i += 5) values[i] = special[random() % 9];
  } else if (n > 3) {
    values[3] = std::numeric_limits<T>::min();
    values[2] = std::numeric_limits<T>::max();
  }
  return values;
}

/// x, or a number that the formula has an input for: probabilities, a width, the number of a
/// derivative.
template <class F, int input, class T>
T input_of(T x) {
  constexpr bool logits = std::is_same_v<F, BinaryCrossEntropyWithLogits>;
  if constexpr (std::is_same_v<F, BinaryCrossEntropy> || (logits && input == 1))
    return x == x ? std::min(std::abs(x) / 4, T(1)) : x;
  else if constexpr (std::is_same_v<F, Huber> && input == 1)
    return std::abs(x);
  else if constexpr (std::is_same_v<F, Polygamma> && input == 1)
    return std::trunc(std::abs(x));
  else
    return x;
}
template <class F, int input, class T>
std::vector<T> inputs_of(std::vector<T> values) {
  for (T& value : values) value = input_of<F, input>(value);
  return values;
}

/// The distance from the exact value in units of its last place.
template <class T>
double ulps(T got, double exact) {
  const T rounded = static_cast<T>(exact);
  if (got == rounded || (std::isnan(got) && std::isnan(rounded))) return 0;
  if (!std::isfinite(got) || !std::isfinite(rounded)) return 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const int place =
      std::max(exponent, std::numeric_limits<T>::min_exponent) - std::numeric_limits<T>::digits;
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, place);
}

template <class F>
double reference(const std::vector<double>& in) {
  if constexpr (is_binary<F>)
    return static_cast<double>(F()(in[0], in[1]));
  else
    return static_cast<double>(F()(in[0]));
}

constexpr std::int64_t counts[] = {0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 67, 130, 1029};

/// Runs a pass over n elements for each choice of scalar inputs. Calls check(inputs at i, result at
/// i).
template <class F, class T, class Out, class Check>
void for_each_result(const InstructionSet& set, const Check& check) {
  const Tile tile = find_tiles(set, F::name)->value[static_cast<int>(dtype_of<T>())];
  REQUIRE(tile);
  for (const std::int64_t n : counts)
    for (unsigned scalars = 0; scalars < (is_binary<F> ? 4u : 2u); ++scalars) {
      const auto count = static_cast<std::size_t>(n + 1);
      Array<T> x({n + 1}, inputs_of<F, 0>(operands<T>(count, 1))),
          y({n + 1}, inputs_of<F, 1>(operands<T>(count, 2)));
      Array<Out> out({n + 1}, Out(1));
      const void* inputs[] = {x.body.data, y.body.data};
      tile(n, inputs, scalars, out.body.data);
      for (std::int64_t i = 0; i < n; ++i)
        check(x[scalars & 1 ? 0 : i], y[scalars & 2 ? 0 : i], out[i]);
      CHECK(out[n] == Out(1));  // nothing is written behind the end
    }
}

template <class F, class T>
void check_floating(const InstructionSet& set, double tolerance) {
  for_each_result<F, T, T>(set, [&](T x, T y, T got) {
    const double exact = reference<F>({static_cast<double>(x), static_cast<double>(y)});
    const double error = ulps(got, exact);
    if (cancels<F> && std::abs(static_cast<double>(got) - exact) <= 8 * epsilon<T>) return;
    if (error > tolerance)
      FAIL("x " << x << ", y " << y << ": got " << got << ", expected " << exact);
  });
}
template <class F, class T>
void check_integers(const InstructionSet& set) {
  bool right = true;
  for_each_result<F, T, T>(set, [&](T x, T y, T got) {
    using U = std::conditional_t < requires { F::wraps; }
    , std::make_unsigned_t<T>, T > ;
    if constexpr (is_binary<F>)
      right &= got == static_cast<T>(F()(static_cast<U>(x), static_cast<U>(y)));
    else
      right &= got == static_cast<T>(F()(static_cast<U>(x)));
  });
  CHECK(right);
}
template <class F, class T>
void check_comparison(const InstructionSet& set) {
  bool right = true;
  for_each_result<F, T, bool>(set, [&](T x, T y, std::uint8_t got) {
    if constexpr (is_binary<F>)
      right &= got == std::uint8_t{F()(x, y)};
    else
      right &= got == std::uint8_t{F()(x)};
  });
  CHECK(right);
}

template <class F>
void check_numbers() {
  for_each_set([](const InstructionSet& set) {
    INFO(F::name << " on " << set.name);
    check_floating<F, float>(set, is_rough<F> ? 4 : 2);
    check_floating<F, double>(set, 4);
    if constexpr (F::domain != Domain::floating) {
      check_integers<F, std::uint8_t>(set);
      check_integers<F, std::int32_t>(set);
      check_integers<F, std::int64_t>(set);
    }
  });
}
template <class F>
void check_comparisons() {
  for_each_set([](const InstructionSet& set) {
    INFO(F::name << " on " << set.name);
    check_comparison<F, float>(set);
    check_comparison<F, double>(set);
    check_comparison<F, std::uint8_t>(set);
    check_comparison<F, std::int32_t>(set);
    check_comparison<F, std::int64_t>(set);
  });
}

/// Each element gives the same bits alone as among others, and if the result replaces an input.
template <class F>
void check_bits() {
  for_each_set([](const InstructionSet& set) {
    INFO(F::name << " on " << set.name);
    const Tile tile = find_tiles(set, F::name)->value[static_cast<int>(DType::float32)];
    constexpr std::int64_t n = 203;
    Array<float> x({n}, inputs_of<F, 0>(operands<float>(n, 3))),
        y({n}, inputs_of<F, 1>(operands<float>(n, 4))), out({n});
    const void* inputs[] = {x.body.data, y.body.data};
    tile(n, inputs, 0, out.body.data);
    bool same = true;
    for (std::int64_t i = 0; i < n; ++i) {
      const void* one[] = {&x[i], &y[i]};
      float alone = 0;
      tile(1, one, 0, &alone);
      if (has_any_nan<F> && std::isnan(alone) && std::isnan(out[i])) continue;
      same &= std::memcmp(&alone, &out[i], sizeof alone) == 0;
    }
    CHECK(same);
    tile(n, inputs, 0, x.body.data);
    CHECK(std::memcmp(x.body.data, out.body.data, n * sizeof(float)) == 0);
  });
}

/// x - y floor(x / y) in 64 bits; 0 if y is 0.
template <class T>
void check_remainder(const InstructionSet& set) {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  std::vector<T> values = {least, static_cast<T>(least + 1), 0, 1, 2, 7, 100, 254, most};
  if (std::is_signed_v<T>) values.insert(values.end(), {static_cast<T>(-1), static_cast<T>(-7)});
  const Tile tile = find_tiles(set, "remainder")->value[static_cast<int>(dtype_of<T>())];
  for (const T x : values)
    for (const T y : values) {
      T got = 5;
      const void* inputs[] = {&x, &y};
      tile(1, inputs, 0, &got);
      const std::int64_t a = x, b = y, rest = b == 0 || b == -1 ? 0 : a % b;
      INFO(a << " % " << b);
      CHECK(got == static_cast<T>(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest));
    }
}

/// R5: each pair of special values at each position of a pass, among ordinary numbers.
template <class F, class T>
void check_special(const InstructionSet& set) {
  constexpr std::int64_t n = 37;
  constexpr T inf = std::numeric_limits<T>::infinity();
  const T special[] = {T(0),
                       T(-0.0),
                       T(1),
                       T(-1),
                       T(2),
                       T(-2),
                       T(3),
                       T(0.5),
                       T(-0.5),
                       std::numeric_limits<T>::quiet_NaN(),
                       inf,
                       -inf,
                       std::numeric_limits<T>::max(),
                       std::numeric_limits<T>::lowest()};
  const Tile tile = find_tiles(set, F::name)->value[static_cast<int>(dtype_of<T>())];
  std::vector<T> x(n, T(1.5)), y(n, T(1.5)), out(n);
  const void* inputs[] = {x.data(), y.data()};
  tile(n, inputs, 0, out.data());
  const T plain = out[0];
  for (std::size_t at = 0; at < n; ++at)
    for (const T a : special)
      for (const T b : special) {
        x[at] = a;
        y[at] = b;
        tile(n, inputs, 0, out.data());
        const double exact = reference<F>({static_cast<double>(a), static_cast<double>(b)});
        const bool right = ulps(out[at], exact) <= (is_rough<F> ? 4 : 2.5) &&
                           (std::isnan(exact) || std::signbit(out[at]) == std::signbit(exact));
        out[at] = plain;
        const bool alone = std::all_of(out.begin(), out.end(), [&](T value) {
          return value == plain || (std::isnan(value) && std::isnan(plain));
        });
        x[at] = y[at] = T(1.5);
        if (!right || !alone)
          FAIL(F::name << "(" << a << ", " << b << ") at " << at << ", exact " << exact);
        if (!is_binary<F>) break;
      }
}
template <class... F>
void check_all_special(List<F...>) {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    (check_special<F, float>(set), ...);
    (check_special<F, double>(set), ...);
  });
}

template <class T>
struct Values {
  T values[4];
  T dy() const { return values[0]; }
  T x() const { return values[1]; }
  T y() const { return values[2]; }
  T out() const { return values[3]; }
};
template <class F, int input>
constexpr bool has_gradient = requires(Values<float> g) {
  F::d0(g);
};
template <class F>
constexpr bool has_gradient<F, 1> = requires(Values<float> g) {
  F::d1(g);
};
template <class F, int input, class T>
T gradient_reference(const Values<T>& g) {
  if constexpr (input == 0)
    return static_cast<T>(F::d0(g));
  else
    return static_cast<T>(F::d1(g));
}

/// The formula for single numbers of the same type. It rounds in the same way, except in functions.
template <class F, int input, class T>
void check_gradient(const InstructionSet& set) {
  const Tile tile = find_tiles(set, F::name)->gradient[input][static_cast<int>(dtype_of<T>())];
  REQUIRE(tile);
  const double tolerance = std::is_same_v<F, Power> || is_rough<F> ? 8 : 0;
  for (const std::int64_t n : counts)
    for (unsigned run = 0; run < 32; ++run) {
      std::vector<T> values[4];
      const void* from[4];
      for (unsigned k = 0; k < 4; ++k) {
        values[k] = operands<T>(static_cast<std::size_t>(n + 1), k + 1);
        if (k == 1) values[k] = inputs_of<F, 0>(values[k]);
        if (k == 2) values[k] = inputs_of<F, 1>(values[k]);
        from[k] = values[k].data();
      }
      const auto at = [&](unsigned k, std::int64_t i) {
        return values[k][static_cast<std::size_t>(run >> k & 1 ? 0 : i)];
      };
      const bool adds = run >> 4;
      std::vector<T> out(static_cast<std::size_t>(n + 1), T(3));
      tile(n, from, (run & 15) | (adds ? pass_adds : 0), out.data());
      for (std::int64_t i = 0; i < n; ++i) {
        const Values<T> g{{at(0, i), at(1, i), at(2, i), at(3, i)}};
        const T dx = gradient_reference<F, input>(g), exact = adds ? T(3) + dx : dx;
        const T got = out[static_cast<std::size_t>(i)];
        if (gradient_cancels<F> && std::abs(got - exact) <= 8 * epsilon<T> * (1 + std::abs(g.dy())))
          continue;
        if (ulps(got, static_cast<double>(exact)) <=
            tolerance * std::max(T(1), std::abs(dx / exact)))
          continue;
        FAIL("dy " << g.dy() << ", x " << g.x() << ", y " << g.y() << ", out " << g.out()
                   << ": got " << got << ", expected " << exact);
      }
      CHECK(out.back() == T(3));
    }
}
template <class F, int input>
void check_gradients_for(const InstructionSet& set) {
  if constexpr (has_gradient<F, input>) {
    check_gradient<F, input, float>(set);
    check_gradient<F, input, double>(set);
  } else {
    for (const Tile tile : find_tiles(set, F::name)->gradient[input]) CHECK(!tile);
  }
}
template <class F>
void check_gradients() {
  for_each_set([](const InstructionSet& set) {
    INFO("gradient of " << F::name << " on " << set.name);
    check_gradients_for<F, 0>(set);
    check_gradients_for<F, 1>(set);
  });
}
template <class... F>
void check_all_numbers(List<F...>) {
  (check_numbers<F>(), ...);
}
template <class... F>
void check_all_bits(List<F...>) {
  (check_bits<F>(), ...);
}
template <class... F>
void check_all_gradients(List<F...>) {
  (check_gradients<F>(), ...);
}
template <class... F>
void check_all_comparisons(List<F...>) {
  (check_comparisons<F>(), ...);
}

template <class... F>
void check_all_bitwise(List<F...>) {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    (check_integers<F, std::uint8_t>(set), ...);
    (check_integers<F, std::int32_t>(set), ...);
    (check_integers<F, std::int64_t>(set), ...);
  });
}

template <class... F>
void add_names(std::set<std::string_view>& names, List<F...>) {
  (names.insert(F::name), ...);
}

/// Compares the order of X and Y, one of which is an integer, with long double, which holds both.
template <class X, class Y>
void check_order(const InstructionSet& set) {
  const Tile tile = find_tiles(set, "order")->value[static_cast<int>(dtype_of<X>())];
  REQUIRE(tile);
  for (const std::int64_t n : counts)
    for (unsigned scalars = 0; scalars < 4; ++scalars) {
      std::vector<X> x = operands<X>(static_cast<std::size_t>(n + 1), 1);
      std::vector<Y> y = operands<Y>(static_cast<std::size_t>(n + 1), 2);
      std::vector<float> out(static_cast<std::size_t>(n + 1), 5);
      const void* inputs[] = {x.data(), y.data()};
      tile(n, inputs, scalars, out.data());
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
  const Tile tile = find_tiles(set, "power")->value[static_cast<int>(dtype_of<T>())];
  using Limits = std::numeric_limits<T>;
  for (const std::int64_t n : counts) {
    std::vector<T> x = operands<T>(static_cast<std::size_t>(n + 1), 1);
    const T special[] = {Limits::max(), Limits::min(), Limits::denorm_min(), -Limits::min(), 3};
    for (std::size_t i = 0; i < 5 && i < x.size(); ++i) x[x.size() - 1 - i] = special[i];
    const std::vector<T> y(x.size(), exponent);
    std::vector<T> out(x.size(), T(7)), of_row(x.size(), T(7));
    const void* inputs[] = {x.data(), y.data()};
    tile(n, inputs, 2, out.data());
    tile(n, inputs, 0, of_row.data());
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

TEST_CASE("every pass is tested here, but those of lerp and where") {
  std::set<std::string_view> names = {"lerp", "order", "where"};
  add_names(names, Numbers());
  add_names(names, BitwiseFormulas());
  add_names(names, CompareFormulas());
  for_each_set([&](const InstructionSet& set) {
    for (auto* family = set.families; *family; ++family)
      for (auto* entry = (*family)->tiles; entry && entry->op; ++entry) {
        INFO(entry->op << " on " << set.name);
        CHECK(names.contains(entry->op));
      }
  });
}
TEST_CASE("pointwise passes agree with their formulas") { check_all_numbers(Numbers()); }
TEST_CASE("special values give what IEEE 754 says at every lane") { check_all_special(Numbers()); }
TEST_CASE("powers of one exponent are those of std::pow") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    for (const double exponent : {2.0, 3.0, 1.0, 0.5, -0.5, -1.0, -2.0, 0.0, 4.0, 1.5}) {
      check_powers<float>(set, static_cast<float>(exponent));
      check_powers<double>(set, exponent);
    }
  });
}
TEST_CASE("bitwise passes agree with their formulas") { check_all_bitwise(BitwiseFormulas()); }
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
TEST_CASE("an element's bits do not depend on its neighbours") { check_all_bits(Numbers()); }
TEST_CASE("pointwise gradient passes agree with their formulas") { check_all_gradients(Numbers()); }
TEST_CASE("comparisons agree with their formulas") { check_all_comparisons(CompareFormulas()); }
}  // namespace reel::tests
