// SPDX-License-Identifier: BSD-3-Clause
// The gamma function's logarithm and its derivatives in float64, for numbers and for vectors.
#pragma once
#include <type_traits>

#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
inline constexpr double pi = 3.14159265358979323846;

/// Whether no element is negative. NaN is one that may be.
template <class X>
constexpr bool none_negative(const X& x) {
  if constexpr (std::is_floating_point_v<X>)
    return x >= 0;
  else
    return all(x >= X(0.0));
}
/// x times c[0] + ... as a polynomial, the highest power first.
template <class X, int n>
constexpr X series(const X& x, const double (&c)[n]) {
  X sum(c[0]);
  for (int i = 1; i < n; ++i) sum = sum * x + X(c[i]);
  return sum;
}

/// A series with the first coefficients where the condition holds, else with the second.
template <class X, class C, int n>
constexpr X series(const X& x, const C& condition, const double (&a)[n], const double (&b)[n]) {
  X sum = math::select(condition, X(a[0]), X(b[0]));
  for (int i = 1; i < n; ++i) sum = sum * x + math::select(condition, X(a[i]), X(b[i]));
  return sum;
}

/// log gamma(z) for z >= 0. From 10 on by Stirling's series. Below, z is moved to within 1/2 of 2,
/// where log gamma(2 + t) = (1 - Euler's constant) t + the sum of (-1)^k (zeta(k) - 1) / k t^k
/// (Abramowitz and Stegun, 6.1.33).
template <class X>
constexpr X log_gamma_of_size(const X& z) {
  constexpr double near_two[] = {
      -2.7595228851242331452e-10, 5.7313672416788620133e-10, -1.1921401405860912074e-9,
      2.4836745438024783172e-9,   -5.1834750419700466551e-9, 1.0838659214896954091e-8,
      -2.271109460894316491e-8,   4.7698101693639805658e-8,  -1.0043224823968099609e-7,
      2.1207184805554665869e-7,   -4.4924691987645660433e-7, 9.5514121304074198329e-7,
      -2.0392157538013662368e-6,  4.3748667899074878042e-6,  -9.439488275268395904e-6,
      2.0507212775670691553e-5,   -4.49262367381331417e-5,   9.9457512781808533715e-5,
      -2.2315475845357937976e-4,  5.0966952474304242234e-4,  -1.1927539117032609771e-3,
      2.8905103307415232858e-3,   -7.3855510286739852663e-3, 2.0580808427784547879e-2,
      -6.7352301053198095133e-2,  3.2246703342411321824e-1,  4.2278433509846713939e-1};
  // Coefficients around the point where log gamma is least: polygamma(k - 1, point) / k!
  constexpr double near_least[] = {
      -1.3122248499133210674e-6,   1.9917599212392652563e-6,    -3.0276718328780313132e-6,
      4.6097386536447617719e-6,    -7.0307052573803598913e-6,   0.00001074345525637594853,
      -0.000016450858338395627313, 0.000025247663291730134751,  -0.00003884583889452663399,
      0.000059934733439794324969,  -0.000092760986554717588867, 0.00014407039542093314041,
      -0.00022465344369595542566,  0.00035191295683784699656,   -0.00055419495279668264289,
      0.00087823263471768197038,   -0.0014022514459044518373,   0.002259764823221811939,
      -0.0036845696083163754128,   0.00610053602051789157,      -0.010314223036636391936,
      0.017970675115210401188,     -0.032788541088481315798,    0.064624940238912768313,
      -0.14758772299453072672,     0.4838361227238106275,       -9.2412655217294275168e-17};
  // B(2k) / (2k (2k - 1))
  constexpr double stirling[] = {1 / 156.0,  -691 / 360360.0, 1 / 1188.0, -1 / 1680.0,
                                 1 / 1260.0, -1 / 360.0,      1 / 12.0};
  const X one(1.0), largest_near(2.5), first_far(10.0);
  X y = z, product = one;
  for (int i = 0; i < 8; ++i) {
    const auto above = (y > largest_near) & (z < first_far);
    y = math::select(above, y - one, y);
    product = math::select(above, product * y, product);
  }
  const auto below_half = z < X(0.5), below = z < X(1.5), far = z >= first_far;
  const auto least = (z > X(1.15)) & below;
  const X t = math::select(least, z - X(1.4616321449683622),
                           math::select(below_half, z, math::select(below, z - one, y - X(2.0))));
  const X own_factor = math::select(below_half, z * (one + z), math::select(below, z, product));
  const X factor = math::select(least, one, own_factor);
  const X log = math::log(math::select(far, z, factor));
  const X start = math::select(least, X(-0.1214862905358496081), X(0.0));
  const X near =
      (t * series(t, least, near_least, near_two) + start) + math::select(below, X(0.0) - log, log);
  const X inverse = one / math::select(far, z, one);  // a small z would overflow
  const X beyond = (z - X(0.5)) * (log - one) + X(0.41893853320467274178) +
                   inverse * series(inverse * inverse, stirling);
  return math::select(far, beyond, near);
}
/// Below 0: gamma(-z) gamma(z) = -pi / (z sin(pi z)).
template <class X>
constexpr X log_gamma(const X& x) {
  const X z = math::abs(x), of_size = log_gamma_of_size(z);
  if (none_negative(x)) return of_size;
  const X fraction = math::abs(z - math::nearbyint(z));
  // Where the mirrored value is not used, 1 keeps the quotient from a trap.
  const auto mirrors = (x < X(0.0)) & (fraction > X(0.0)) & (z >= X(1e-20));
  const X product = math::select(mirrors, z * math::sin(X(pi) * fraction), X(1.0));
  const X mirrored = math::log(X(pi) / product) - of_size;
  const X regular = math::select(z < X(1e-20), of_size, mirrored);
  const X at_poles = math::select(fraction > X(0.0), regular, X(__builtin_inf()));
  return math::select(x < X(0.0), at_poles, of_size);
}

/// The derivative of log_gamma(). From 10 on by its asymptotic series; numbers below are moved
/// there by psi(z) = psi(z + 1) - 1 / z. Below 0: psi(-z) = psi(z) + 1 / z + pi / tan(pi z).
template <class X>
constexpr X digamma_of(const X& x) {
  // B(2k) / (2k)
  constexpr double asymptotic[] = {1 / 12.0,  -691 / 32760.0, 1 / 132.0, -1 / 240.0,
                                   1 / 252.0, -1 / 120.0,     1 / 12.0};
  const X one(1.0), z = math::abs(x);
  X y = z, above(0.0), below = one;  // above / below is the sum of inverses
  for (int i = 0; i < 10; ++i) {
    const auto near = y < X(10.0);
    above = math::select(near, above * y + below, above);
    below = math::select(near, below * y, below);
    y = math::select(near, y + one, y);
  }
  const X inverse = one / y, square = inverse * inverse;
  const X far = math::log(y) - X(0.5) * inverse - square * series(square, asymptotic);
  const X of_size = far - above / below;
  if (none_negative(x)) return of_size;
  const X fraction = z - math::nearbyint(z);
  const auto between = math::abs(fraction) > X(0.0);  // two whole numbers
  const X tangent = math::select(between, math::tan(X(pi) * fraction), one);
  const X mirrored = of_size + one / z + X(pi) / tangent;
  const X regular = math::select(z < X(1e-20), one / z, mirrored);  // also where psi(z) is infinite
  const X at_poles = math::select(between, regular, X(__builtin_nan("")));
  return math::select(x < X(0.0), at_poles, of_size);
}

/// x^n for n >= 0.
constexpr double whole_power(double x, int n) {
  double product = 1;
  for (; n > 0; n /= 2, x *= x)
    if (n % 2) product *= x;
  return product;
}
/// The sum of (x + k)^-s for k >= 0: terms until x + k is `far` + s, then the Euler-Maclaurin
/// formula. Its relative error is below 1e-16 for far = 20, below 1e-10 for far = 6.
constexpr double hurwitz_zeta(int s, double x, int far) {
  // B(2k) / B(2k - 2) / (2k - 1) / 2k
  constexpr double ratios[] = {1 / 12.0,   -1 / 60.0,      -1 / 42.0,   -1 / 40.0,
                               -5 / 198.0, -691 / 27300.0, -35 / 1382.0};
  if (x > 1e150) return s == 2 ? 1 / x : 0;
  double sum = 0, y = x;
  for (; y < far + s; ++y) sum += whole_power(1 / y, s);
  const double inverse = 1 / y, square = inverse * inverse, power = whole_power(inverse, s);
  double term = power * inverse * s;  // B(2k) / (2k)! s (s + 1) ... y^(1 - s - 2k)
  sum += power * y / (s - 1) + 0.5 * power;
  for (int k = 0; k < 7; ++k) {
    term *= ratios[k];
    sum += term;
    term *= square * (s + 2 * k + 1) * (s + 2 * k + 2);
  }
  return sum;
}
/// Derivative n of digamma_of(), for whole n from 0 to 100. `far` is that of hurwitz_zeta().
constexpr double polygamma_of(double x, double n, int far) {
  if (x != x || !(n >= 0 && n <= 100) || n != math::floor(n)) return __builtin_nan("");
  if (n == 0) return digamma_of(x);
  if (n == 1 && x < 0) {
    const double z = -x, ratio = pi / math::sin(pi * (z - math::nearbyint(z)));
    return ratio * ratio - hurwitz_zeta(2, z, far) + 1 / z / z;
  }
  if (x < -10'000) return __builtin_nan("");
  const int order = static_cast<int>(n);
  double factorial = order % 2 ? 1 : -1;
  for (int k = 2; k <= order; ++k) factorial *= k;
  return factorial * hurwitz_zeta(order + 1, x, far);
}

namespace math {
// Numbers of every type compute in float64. Other types have functions of their own.
template <class X>
constexpr X lgamma(const X& x) {
  if constexpr (requires { Functions<X>::lgamma(x); })
    return Functions<X>::lgamma(x);
  else
    return static_cast<X>(log_gamma(static_cast<double>(x)));
}
template <class X>
constexpr X digamma(const X& x) {
  if constexpr (requires { Functions<X>::digamma(x); })
    return Functions<X>::digamma(x);
  else
    return static_cast<X>(digamma_of(static_cast<double>(x)));
}
template <class X, class N>
constexpr X polygamma(const X& x, const N& n) {
  if constexpr (requires { Functions<X>::polygamma(x, n); })
    return Functions<X>::polygamma(x, n);
  else
    return static_cast<X>(polygamma_of(static_cast<double>(x), static_cast<double>(n),
                                       sizeof(X) == sizeof(float) ? 6 : 20));
}
}  // namespace math
}  // namespace reel::REEL_FORMULAS
