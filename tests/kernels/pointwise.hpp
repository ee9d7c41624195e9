// SPDX-License-Identifier: BSD-3-Clause
// The formulas of pointwise ops for tests of their passes. The loops over elements take functions
// of one number, so that they are compiled once for a dtype and not once for a formula.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/kernels.hpp"
#include "lib/formulas/activation.hpp"
#include "lib/formulas/arithmetic.hpp"
#include "lib/formulas/loss.hpp"
#include "lib/formulas/math.hpp"
#include "lib/formulas/special.hpp"
#include "lib/formulas/trigonometry.hpp"
#include "support/catch.hpp"

namespace reel::tests {
using namespace formulas;
template <class T>
constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());

/// All formulas of one or two inputs that give numbers. Such a formula that is added to a family is
/// tested here.
template <class Made, class... Family>
struct Joined;
template <class... F>
struct Joined<List<F...>> {
  using type = List<F...>;
};
template <class Made, class... Rest>
struct Joined<Made, List<>, Rest...> : Joined<Made, Rest...> {};
template <class... F, class G, class... More, class... Rest>
struct Joined<List<F...>, List<G, More...>, Rest...>
    : Joined<std::conditional_t<arity_of<G> <= 2, List<F..., G>, List<F...>>, List<More...>,
             Rest...> {};
using Numbers = Joined<List<>, ArithmeticFormulas, MathFormulas, TrigonometryFormulas,
                       ActivationFormulas, LossFormulas, SpecialFormulas>::type;

/// Formulas that xsimd or a sum of several functions computes err by some units more.
using Rough = List<Acos, Asin, Atan, Atan2, Cos, Sin, Tan, Acosh, Asinh, Atanh, Cosh, Sinh, Exp2,
                   Expm1, Log1p, Log2, LogAddExp, Erf, Erfc, Elu, Gelu, GeluTanh, Silu, Softplus,
                   BinaryCrossEntropy, BinaryCrossEntropyWithLogits, LogGamma, Digamma>;
template <class F, class Family>
constexpr bool is_in = false;
template <class F, class... G>
constexpr bool is_in<F, List<G...>> = (std::is_same_v<F, G> || ...);
/// Formulas with roots, near which sums cancel: their errors may be of the size of a unit at 1.
template <class F>
constexpr bool cancels = is_in<F, List<LogAddExp, Gelu, GeluTanh, Silu, LogGamma, Digamma>>;
/// Formulas whose gradients have such roots.
template <class F>
constexpr bool gradient_cancels =
    cancels<F> || is_in<F, List<BinaryCrossEntropy, BinaryCrossEntropyWithLogits>>;
/// Formulas that add or multiply two NaNs. The result has the sign of either NaN, as the compiler
/// orders them.
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
    const T special[] = {0,
                         T(-0.0),
                         1,
                         -1,
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN(),
                         2,
                         0.5};
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

inline constexpr std::int64_t counts[] = {0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 67, 130, 1029};

/// A formula for elements of type T. `value` computes in T, `exact` in float64.
template <class T>
struct Formula {
  std::string_view name;
  bool binary, rough, cancels, gradient_cancels, any_nan;
  T (*input[2])(T);
  T (*value)(T x, T y);
  double (*exact)(double x, double y);

  PassFunction function(const InstructionSet& set) const {
    return find_passes(set, name)->value[static_cast<int>(dtype_of<T>())];
  }
  std::vector<T> inputs(int number, std::size_t n, unsigned seed) const {
    std::vector<T> values = operands<T>(n, seed);
    for (T& value : values) value = input[number](value);
    return values;
  }
};
template <class F>
constexpr bool wraps = requires {
  F::wraps;
};
template <class F, class T>
T value_of(T x, [[maybe_unused]] T y) {
  using Class = std::conditional_t<wraps<F> && std::is_integral_v<T>, std::make_unsigned<T>,
                                   std::type_identity<T>>;
  using U = typename Class::type;
  if constexpr (is_binary<F>)
    return static_cast<T>(F()(static_cast<U>(x), static_cast<U>(y)));
  else
    return static_cast<T>(F()(static_cast<U>(x)));
}
/// The value in float64, or null for comparisons and formulas of integers alone.
template <class F>
constexpr auto exact_of() -> double (*)(double, double) {
  if constexpr (is_in<F, Numbers>)
    return value_of<F, double>;
  else
    return nullptr;
}
template <class F, class T>
constexpr Formula<T> formula{F::name,
                             is_binary<F>,
                             is_rough<F>,
                             cancels<F>,
                             gradient_cancels<F>,
                             has_any_nan<F>,
                             {input_of<F, 0, T>, input_of<F, 1, T>},
                             value_of<F, T>,
                             exact_of<F>()};
template <class T, class... F>
std::vector<Formula<T>> formulas_for(List<F...>) {
  return {formula<F, T>...};
}
/// Runs a pass over n elements for each choice of scalar inputs. Calls check(inputs at i, result at
/// i).
template <class Out, class T, class Check>
void for_each_result(const Formula<T>& f, const InstructionSet& set, const Check& check) {
  const PassFunction function = f.function(set);
  REQUIRE(function);
  for (const std::int64_t n : counts)
    for (unsigned scalars = 0; scalars < (f.binary ? 4u : 2u); ++scalars) {
      const auto count = static_cast<std::size_t>(n + 1);
      Array<T> x({n + 1}, f.inputs(0, count, 1)), y({n + 1}, f.inputs(1, count, 2));
      Array<Out> out({n + 1}, Out(1));
      const void* inputs[] = {x.body.data, y.body.data};
      function(n, inputs, scalars, out.body.data);
      for (std::int64_t i = 0; i < n; ++i)
        check(x[scalars & 1 ? 0 : i], y[scalars & 2 ? 0 : i], out[i]);
      CHECK(out[n] == Out(1));  // nothing is written behind the end
    }
}
}  // namespace reel::tests
