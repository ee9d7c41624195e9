// SPDX-License-Identifier: BSD-3-Clause
// Exponential and logarithm over vectors, right where xsimd 8.1 is not: subnormal results and
// arguments, and results near the largest number.
#pragma once
#include "lib/cpu/simd.hpp"

namespace reel::kernels::REEL_ISA {
template <class T>
inline constexpr bool is_single = sizeof(T) == 4;
template <class T>
Vector<T> constant(double value) {
  return Vector<T>(static_cast<T>(value));
}

/// c[0] x^n + ... + c[n].
template <class T, int n>
Vector<T> polynomial(const Vector<T>& x, const double (&coefficients)[n]) {
  Vector<T> sum = constant<T>(coefficients[0]);
  for (int i = 1; i < n; ++i) sum = xsimd::fma(sum, x, constant<T>(coefficients[i]));
  return sum;
}

/// 2^n for a whole n whose result is normal: n moves into the exponent through the low bits of a
/// number that is too large to have a fraction.
template <class T>
Vector<T> power_of_two(const Vector<T>& n) {
  using Bits = std::conditional_t<is_single<T>, std::int32_t, std::int64_t>;
  constexpr int fraction = is_single<T> ? 23 : 52;
  constexpr double bias = is_single<T> ? 127 : 1023, large = is_single<T> ? 0x1.8p23 : 0x1.8p52;
  return xsimd::bitwise_cast<Vector<T>>(
      xsimd::bitwise_cast<Vector<Bits>>(n + constant<T>(large + bias)) << fraction);
}

/// e^x = 2^n e^r with |r| <= ln 2 / 2 (constants of Cephes); 2^n in two steps, so that the result
/// may be subnormal or reach infinity.
template <class T>
Vector<T> exponential(const Vector<T>& argument) {
  using V = Vector<T>;
  const V least = constant<T>(is_single<T> ? -105 : -746),
          most = constant<T>(is_single<T> ? 90 : 711);
  const V x =
      xsimd::select(argument < least, least, xsimd::select(argument > most, most, argument));
  const V n = xsimd::nearbyint(x * constant<T>(1.44269504088896340736));
  V y;
  if constexpr (is_single<T>) {
    const V r =
        xsimd::fnma(n, constant<T>(-2.12194440e-4), xsimd::fnma(n, constant<T>(0.693359375), x));
    const V p = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                               1.6666665459e-1, 5.0000001201e-1});
    y = constant<T>(1) + xsimd::fma(r * r, p, r);
  } else {
    const V r = xsimd::fnma(n, constant<T>(1.42860682030941723212e-6),
                            xsimd::fnma(n, constant<T>(6.93145751953125e-1), x));
    const V z = r * r;
    const V p = r * polynomial(z, {1.26177193074810590878e-4, 3.02994407707441961300e-2,
                                   9.99999999999999999910e-1});
    const V q = polynomial(z, {3.00198505138664455042e-6, 2.52448340349684104192e-3,
                               2.27265548208155028766e-1, 2.00000000000000000005});
    y = constant<T>(1) + constant<T>(2) * (p / (q - p));
  }
  const V half = xsimd::floor(n * constant<T>(0.5));
  return y * power_of_two(half) * power_of_two(n - half);
}

template <class T>
Vector<T> logarithm(const Vector<T>& x) {
  if constexpr (is_single<T>) {
    return xsimd::log(x);
  } else {
    const auto subnormal = x < constant<T>(2.2250738585072014e-308);
    const Vector<T> y = xsimd::log(xsimd::select(subnormal, x * constant<T>(0x1p54), x));
    return xsimd::select(subnormal, y - constant<T>(37.429947750237046), y);
  }
}

/// x^y = e^(y log |x|) with a sign: exact to about |y log x| units of the last place.
inline Vector<double> power_by_logarithm(const Vector<double>& x, const Vector<double>& y) {
  using V = Vector<double>;
  const V zero(0.0), one(1.0), size = xsimd::abs(x), half = y * V(0.5);
  const auto whole = xsimd::floor(y) == y, odd = whole & ~(xsimd::floor(half) == half);
  const V infinity(__builtin_inf()), undefined(__builtin_nan(""));
  const V sign = xsimd::select(odd, xsimd::bitofsign(x), zero);
  V result = xsimd::select(size == one, one, exponential(y * logarithm(size))) | sign;
  result = xsimd::select((x < zero) & (size < infinity) & ~whole, undefined, result);
  return xsimd::select((x == one) | (y == zero), one, result);
}
}  // namespace reel::kernels::REEL_ISA
