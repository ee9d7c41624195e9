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

/// x between the bounds. NaN stays: of two of which one is NaN, the second comes back.
template <class T>
Vector<T> clamped(const Vector<T>& x, double least, double most) {
  return xsimd::min(constant<T>(most), xsimd::max(constant<T>(least), x));
}

/// 2^n for a whole n whose result is normal: n moves into the exponent through the low bits of a
/// number that is too large to have a fraction.
template <class T>
Vector<T> power_of_two(const Vector<T>& n) {
  using Bits [[maybe_unused]] = std::conditional_t<is_single<T>, std::int32_t, std::int64_t>;
  constexpr int fraction = is_single<T> ? 23 : 52;
  constexpr double bias = is_single<T> ? 127 : 1023, large = is_single<T> ? 0x1.8p23 : 0x1.8p52;
  const Vector<T> sum = n + constant<T>(large + bias);
#ifdef __aarch64__  // where xsimd's cast takes g++ 20 seconds to see
  if constexpr (is_single<T>)
    return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(sum), fraction));
  else
    return vreinterpretq_f64_s64(vshlq_n_s64(vreinterpretq_s64_f64(sum), fraction));
#else
  return xsimd::bitwise_cast<Vector<T>>(xsimd::bitwise_cast<Vector<Bits>>(sum) << fraction);
#endif
}

/// y 2^n for a whole n; the result may be subnormal or infinite.
template <class T>
Vector<T> scaled(const Vector<T>& y, const Vector<T>& n) {
#if defined(__AVX512F__)
  if constexpr (is_single<T>)
    return _mm512_scalef_ps(y, n);
  else
    return _mm512_scalef_pd(y, n);
#else
  const Vector<T> half = xsimd::floor(n * constant<T>(0.5));
  return y * power_of_two(half) * power_of_two(n - half);
#endif
}

/// x = n ln 2 + r with |r| <= ln 2 / 2, and e^r - 1 (constants of Cephes).
template <class T>
struct Reduced {
  Vector<T> n, less_one;
  explicit Reduced(const Vector<T>& x) {
    using V = Vector<T>;
    n = xsimd::nearbyint(x * constant<T>(1.44269504088896340736));
    if constexpr (is_single<T>) {
      const V r =
          xsimd::fnma(n, constant<T>(-2.12194440e-4), xsimd::fnma(n, constant<T>(0.693359375), x));
      const V p = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                                 1.6666665459e-1, 5.0000001201e-1});
      less_one = xsimd::fma(r * r, p, r);
    } else {
      const V r = xsimd::fnma(n, constant<T>(1.42860682030941723212e-6),
                              xsimd::fnma(n, constant<T>(6.93145751953125e-1), x));
      const V z = r * r;
      const V p = r * polynomial(z, {1.26177193074810590878e-4, 3.02994407707441961300e-2,
                                     9.99999999999999999910e-1});
      const V q = polynomial(z, {3.00198505138664455042e-6, 2.52448340349684104192e-3,
                                 2.27265548208155028766e-1, 2.00000000000000000005});
      less_one = constant<T>(2) * (p / (q - p));
    }
  }
};

template <class T>
Vector<T> exponential(const Vector<T>& x) {
  const Reduced<T> e(clamped(x, is_single<T> ? -105 : -746, is_single<T> ? 90 : 711));
  return scaled(constant<T>(1) + e.less_one, e.n);
}

/// e^x - 1 = 2^n (e^r - 1) + (2^n - 1), exact to the last places near 0 too, for x of which 2^n is
/// a normal number.
template <class T>
Vector<T> exponential_less_one(const Vector<T>& x) {
  const Reduced<T> e(x);
  const Vector<T> power = power_of_two(e.n);
  return xsimd::fma(power, e.less_one, power - constant<T>(1));
}

/// tanh x = top / denominator, from |x|, so that nothing overflows; it is 1 where |x| is cut.
template <class T>
struct TanhFraction {
  Vector<T> top, less_two, denominator;
  explicit TanhFraction(const Vector<T>& x) {
    const Vector<T> size = xsimd::min(constant<T>(is_single<T> ? 10 : 20), xsimd::abs(x));
    less_two = exponential_less_one(constant<T>(-2) * size);
    top = xsimd::abs(less_two) | xsimd::bitofsign(x);
    denominator = constant<T>(2) + less_two;
  }
};

/// top / (whole + part), where the divisor lies between 1 and 2: what rounding the sum and a rough
/// inverse lose is made up for in one step, so that the result is rounded once.
template <class T>
Vector<T> quotient(const Vector<T>& top, double whole, const Vector<T>& part) {
  const Vector<T> sum = constant<T>(whole) + part, lost = part - (sum - constant<T>(whole));
#if defined(__SSE2__) && !defined(__FMA__)
  const Vector<T> y = top / sum;  // without fused products what is left cannot be seen
  return y - y * (lost * (constant<T>(1.5) - constant<T>(0.5) * sum));
#else
#if defined(__AVX512F__)
  Vector<T> inverse;
  if constexpr (is_single<T>)
    inverse = _mm512_rcp14_ps(sum);
  else
    inverse = constant<T>(1) / sum;
#else
  const Vector<T> inverse = constant<T>(1) / sum;
#endif
  const Vector<T> y = top * inverse;
  const Vector<T> rest = xsimd::fnma(y, lost, xsimd::fnma(y, sum, top));
  return xsimd::fma(rest, inverse, y);
#endif
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
